//! Where tensors live and programs run.

use std::sync::OnceLock;

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

/// The most bytes that one tensor may take: the machine's memory where it tells, else what an allocation can ask for.
///
/// A larger allocation would not fail with an error but end the process.
pub fn host_memory() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        total_memory(&text).unwrap_or(isize::MAX as usize)
    })
}

fn total_memory(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_size_of_memory() {
        assert_eq!(total_memory("MemTotal:       16384 kB\nMemFree:  1 kB\n"), Some(16384 * 1024));
        assert_eq!(total_memory(""), None);
        assert!(host_memory() > 1 << 20);
    }
}
