//! The memory of a GPU that is taken by this process.

use burn_cubecl::cubecl::MemoryScope;

use super::Adapter;
use crate::error::{Error, Result};

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Held by tensors.
    pub in_use: u64,
    /// Taken from the GPU, for tensors that are there and for those to come.
    pub reserved: u64,
}

impl Adapter {
    /// The memory that this process has there.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the GPU does not start.
    pub fn memory(&self) -> Result<Memory> {
        let report = self.client()?.memory_report(MemoryScope::Device);
        let usage = report.streams.iter().map(|stream| stream.usage());
        Ok(usage.fold(Memory::default(), |sum, usage| Memory {
            in_use: sum.in_use + usage.bytes_in_use,
            reserved: sum.reserved + usage.bytes_reserved,
        }))
    }

    /// Gives memory back that no tensor holds, as far as it lies apart from what tensors hold.
    ///
    /// # Errors
    ///
    /// As [`Adapter::memory`], and [`Error::Invalid`] when the GPU failed.
    pub fn release_memory(&self) -> Result<()> {
        let released = self.client()?.memory_cleanup();
        released.map_err(|error| Error::invalid("device", format!("the GPU failed: {error}")))
    }
}
