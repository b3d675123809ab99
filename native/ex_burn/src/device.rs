//! Devices of this machine.

use ex_burn_engine::Device;

/// Names of the devices that this build can use.
#[rustler::nif]
fn device_names() -> Vec<&'static str> {
    Device::all().iter().map(Device::name).collect()
}
