//! Where tensors live and programs run.

use burn_dispatch::DispatchDevice;
use burn_flex::FlexDevice;

/// A device of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The CPU, through burn-flex.
    #[default]
    Cpu,
}

impl Device {
    /// Every device that this build can use.
    pub fn all() -> Vec<Device> {
        vec![Device::Cpu]
    }

    /// Name in messages and options.
    pub fn name(&self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
        }
    }

    /// Burn's handle of the device.
    pub fn burn(&self) -> DispatchDevice {
        match self {
            Device::Cpu => DispatchDevice::from(FlexDevice),
        }
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
