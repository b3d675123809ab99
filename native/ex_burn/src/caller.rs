//! Notices when a process ends whose call still runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ex_burn_engine::exec::stoppable;
use rustler::{Env, LocalPid, Monitor, Resource, ResourceArc};

/// Whether the caller has ended.
struct Caller(Arc<AtomicBool>);

#[rustler::resource_impl]
impl Resource for Caller {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _env: Env<'a>, _caller: LocalPid, _monitor: Monitor) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `body`, whose loops end soon after the calling process does.
pub(crate) fn while_caller_lives<T>(env: Env<'_>, body: impl FnOnce() -> T) -> T {
    let caller = ResourceArc::new(Caller(Arc::default()));
    let monitor = env.monitor(&caller, &env.pid());
    if monitor.is_none() {
        caller.0.store(true, Ordering::Relaxed);
    }
    let result = stoppable(&caller.0, body);
    monitor.map(|monitor| env.demonitor(&caller, &monitor));
    result
}
