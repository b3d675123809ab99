//! Ends runs that nobody waits for.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

thread_local! {
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Runs `body`. Once `stop` is true, the next iteration of a loop or of a custom fold inside is an error.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::AtomicBool;
/// use ex_burn_engine::exec::stoppable;
///
/// assert_eq!(stoppable(&Arc::new(AtomicBool::new(false)), || 1 + 1), 2);
/// ```
pub fn stoppable<T>(stop: &Arc<AtomicBool>, body: impl FnOnce() -> T) -> T {
    let _restore = Restore(STOP.replace(Some(stop.clone())));
    body()
}

/// What ends the run of this thread, for another thread that works for it.
pub(crate) fn stop_flag() -> Option<Arc<AtomicBool>> {
    STOP.with_borrow(Clone::clone)
}

/// Puts the flag of an outer run back, after a panic too.
struct Restore(Option<Arc<AtomicBool>>);

impl Drop for Restore {
    fn drop(&mut self) {
        STOP.replace(self.0.take());
    }
}

/// An error when the run of this thread is to end.
pub(crate) fn check(op: &str) -> Result<()> {
    let stopped = STOP.with_borrow(|stop| stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)));
    if stopped { Err(Error::invalid(op, "stopped, because its caller has ended")) } else { Ok(()) }
}
