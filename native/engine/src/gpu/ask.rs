//! Questions to the thread that a GPU's work goes through.
//!
//! CubeCL has such a thread for each GPU. Who asks it by CubeCL's own calls sleeps until the answer is there, and to wake up takes
//! longer than most answers. The thread also does what other services of a device ask for, in the order of asking: ours runs a
//! question and tells, so that who asked can look for the answer awake.

use std::any::Any;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use burn_std::device::{DeviceId, DeviceService};
use burn_std::device_handle::DeviceHandle;

use super::Adapter;
use super::wait::SOON;
use crate::error::{Error, Result};

/// Runs what it is given.
pub(super) struct Runner;

impl DeviceService for Runner {
    fn init(_device: DeviceId) -> Self {
        Self
    }

    fn utilities(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::new(())
    }
}

/// The thread of a GPU.
pub(super) type Thread = DeviceHandle<Runner>;

/// Runs `work` on the GPU's thread, after all that was asked for before.
pub(super) fn tell(adapter: Adapter, work: impl FnOnce() + Send + 'static) -> Result<()> {
    adapter.thread()?.submit(|_| work());
    Ok(())
}

/// What `question` answers on the GPU's thread, after all that was asked for before.
///
/// # Errors
///
/// As [`Adapter::client`]; [`Error::Invalid`] when the question panics.
pub(super) fn ask<T: Send + 'static>(adapter: Adapter, question: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (answer, answered) = mpsc::sync_channel(1);
    tell(adapter, move || drop(answer.send(question())))?;
    adapter.thread()?.flush_queue();
    let start = Instant::now();
    while !adapter.is_software() && start.elapsed() < SOON {
        match answered.try_recv() {
            Err(mpsc::TryRecvError::Empty) => std::hint::spin_loop(),
            result => return result.map_err(|_| unanswered()),
        }
    }
    answered.recv().map_err(|_| unanswered())
}

fn unanswered() -> Error {
    Error::invalid("device", "a question that the GPU's thread did not answer")
}
