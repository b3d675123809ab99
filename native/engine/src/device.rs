//! Where tensors live and programs run.

use std::sync::OnceLock;

use burn_dispatch::DispatchDevice;
use burn_flex::FlexDevice;

use crate::error::{Error, Result};

/// A device of this machine.
///
/// ```
/// use ex_burn_engine::Device;
///
/// assert_eq!(Device::named("cpu", 0), Some(Device::Cpu));
/// assert_eq!(Device::named("abacus", 0), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The CPU, through burn-flex.
    #[default]
    Cpu,
    /// A GPU, through CubeCL.
    #[cfg(feature = "gpu")]
    Gpu(crate::gpu::Adapter),
}

impl Device {
    /// Every device that this build finds: the CPU, then the GPUs by CUDA, then those by wgpu, those of software last.
    pub fn all() -> Vec<Device> {
        #[cfg(feature = "gpu")]
        let gpus = crate::gpu::Adapter::all().into_iter().map(Device::Gpu);
        #[cfg(not(feature = "gpu"))]
        let gpus = [];
        [Device::Cpu].into_iter().chain(gpus).collect()
    }

    /// The device of this kind and number among its kind.
    pub fn named(kind: &str, index: usize) -> Option<Device> {
        if kind == Device::Cpu.kind() {
            return (index == 0).then_some(Device::Cpu);
        }
        Self::all().into_iter().filter(|device| device.kind() == kind).nth(index)
    }

    /// `cpu`, or the API of a GPU: `cuda`, `vulkan` or `metal`.
    pub fn kind(&self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
            #[cfg(feature = "gpu")]
            Device::Gpu(adapter) => adapter.api(),
        }
    }

    /// Waits until all that was asked of the device is done.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when it failed.
    pub fn wait(&self) -> Result<()> {
        match self {
            Device::Cpu => Ok(()),
            #[cfg(feature = "gpu")]
            Device::Gpu(adapter) => adapter.wait(),
        }
    }

    /// Burn's handle of the device that holds what is made on the host.
    pub fn burn(&self) -> DispatchDevice {
        DispatchDevice::from(FlexDevice)
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

/// The bytes that can be allocated now: what the machine and, on Linux, the group of the process have left; more than any
/// allocation can ask for where neither tells.
pub fn available_memory() -> usize {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let group = |file| read(format!("/sys/fs/cgroup/memory.{file}"));
    let machine = field(&read("/proc/meminfo".to_string()), "MemAvailable:").unwrap_or(isize::MAX as usize);
    let limit = group("max").trim().parse::<usize>().ok();
    let used = group("current").trim().parse::<usize>().ok();
    // Files that were read are kept while nobody needs the room.
    let stat = group("stat");
    let file = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse::<usize>().ok());
    let left = limit.zip(used).map(|(limit, used)| limit.saturating_sub(used.saturating_sub(file.unwrap_or(0))));
    machine.min(left.unwrap_or(machine))
}

fn total_memory(meminfo: &str) -> Option<usize> {
    field(meminfo, "MemTotal:")
}

/// A line of `/proc/meminfo`, in bytes.
fn field(meminfo: &str, name: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind())
    }
}

/// Threads that work on one operation, the caller's among them.
///
/// ```
/// assert!(ex_burn_engine::device::threads() > 0);
/// ```
pub fn threads() -> usize {
    rayon::current_num_threads()
}

/// More threads than this are a mistake.
const MOST_THREADS: usize = 1024;

/// Sets how many [`threads`] work on one operation. Takes effect before the first operation only.
///
/// # Errors
///
/// [`Error::Invalid`] for no threads or more than 1024, and when operations have run already with another number.
pub fn set_threads(count: usize) -> Result<()> {
    if !(1..=MOST_THREADS).contains(&count) {
        return Err(Error::invalid("threads", format!("{count} threads cannot work, 1 to {MOST_THREADS} can")));
    }
    let started = rayon::ThreadPoolBuilder::new().num_threads(count).build_global();
    match started {
        Err(_) if threads() != count => {
            Err(Error::invalid("threads", format!("{} threads have begun to work, not {count}", threads())))
        }
        _ => Ok(()),
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
        assert!((1 << 20..=host_memory()).contains(&available_memory().min(host_memory())));
    }
}
