//! The kernels of a program, and how long the GPU takes for each.

use std::sync::{Arc, Mutex, PoisonError};

use burn_cubecl::cubecl::future::block_on;
use burn_cubecl::cubecl::logging::{LaunchObservation, LaunchObserver, ProfileDuration, TimingRequest};
use ex_burn_engine::Result;

/// A kernel that ran: its name, and the time from its start to its end on the GPU's clock, in microseconds.
pub(crate) struct Ran {
    pub(crate) name: String,
    pub(crate) time: f64,
}

#[derive(Default)]
struct Seen(Mutex<Vec<(&'static str, Option<ProfileDuration>)>>);

impl LaunchObserver for Seen {
    fn launched(&self, _kernel: &'static str) {}

    fn timing(&self) -> TimingRequest {
        TimingRequest::Deferred
    }

    fn profiled(&self, kernel: &'static str, profile: ProfileDuration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((kernel, Some(profile)));
    }
}

/// The kernels that `run` asks for, in order.
pub(crate) fn of(run: impl Fn() -> Result<()>) -> Result<Vec<Ran>> {
    let seen = Arc::new(Seen::default());
    let watching = LaunchObservation::new(seen.clone());
    run()?;
    drop(watching);
    let mut seen = seen.0.lock().unwrap_or_else(PoisonError::into_inner);
    let ran = |(kernel, profile): &mut (&'static str, Option<ProfileDuration>)| {
        let ticks = profile.take().and_then(|profile| block_on(profile.resolve()));
        Ran { name: short(kernel), time: ticks.map_or(f64::NAN, |ticks| ticks.duration().as_nanos() as f64 / 1000.0) }
    };
    Ok(seen.iter_mut().map(ran).collect())
}

/// `map_region` of `ex_burn_engine::gpu::kernel::region::map_region::MapRegion<..>`.
fn short(kernel: &str) -> String {
    let path = kernel.split('<').next().unwrap_or(kernel);
    path.rsplit("::").next().unwrap_or(path).to_string()
}
