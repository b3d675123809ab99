//! Values that programs hold, in the memory of the device that runs them.

use std::sync::{Arc, OnceLock};

use crate::device::Device;
use crate::error::Result;
use crate::value::Value;

/// Values that stay as they are. Those that a GPU reads are brought there once.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    values: Vec<Value>,
    away: Arc<OnceLock<(Device, Vec<Value>)>>,
}

impl Held {
    pub(super) fn new(values: Vec<Value>) -> Self {
        Self { values, away: Arc::default() }
    }

    /// As they were given.
    pub(super) fn values(&self) -> &[Value] {
        &self.values
    }

    /// On `device`, which are kept for the first one that is not the CPU.
    pub(super) fn on(&self, device: &Device) -> Result<Vec<Value>> {
        if self.values.is_empty() || *device == Device::Cpu {
            return Ok(self.values.clone());
        }
        if let Some((known, values)) = self.away.get()
            && known == device
        {
            return Ok(values.clone());
        }
        let there: Vec<Value> =
            self.values.iter().map(|value| value.clone().to_device(device)).collect::<Result<_>>()?;
        self.away.get_or_init(|| (device.clone(), there.clone()));
        Ok(there)
    }
}
