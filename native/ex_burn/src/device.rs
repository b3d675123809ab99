//! Devices of this machine.

use ex_burn_engine::{Device, device};

use crate::boundary::guard;
use crate::error::NifError;

/// Names of the devices that this build can use.
#[rustler::nif]
fn device_names() -> Vec<&'static str> {
    Device::all().iter().map(Device::name).collect()
}

/// How many threads work on one operation.
#[rustler::nif]
fn threads() -> usize {
    device::threads()
}

/// Sets how many threads work on one operation, before the first one.
#[rustler::nif(schedule = "DirtyCpu")]
fn set_threads(count: usize) -> Result<(), NifError> {
    guard("threads", || device::set_threads(count))
}
