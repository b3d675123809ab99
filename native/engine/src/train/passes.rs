//! How a run gets its gradients.

use std::sync::Arc;

use super::checkpointed::{Checkpointed, Checkpointing};
use super::gradient::{Pass, answered, gradients};
use super::job::Gradients;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::exec::Executable;
use crate::value::Value;

/// Forward and backward passes of the programs of one run.
#[derive(Debug)]
pub(super) struct Passes {
    gradients: Gradients,
    checkpointing: Checkpointing,
    device: Device,
    /// Programs that were cut in segments, those that are better left whole among them.
    cut: Vec<(Arc<Executable>, Option<Checkpointed>)>,
}

impl Passes {
    /// # Errors
    ///
    /// [`Error::Invalid`] for gradient checkpointing on a device that has none.
    pub(super) fn new(gradients: Gradients, checkpointing: Checkpointing, device: Device) -> Result<Self> {
        if checkpointing != Checkpointing::Off && device != Device::Cpu {
            let reason = format!("gradient_checkpointing is of models on the CPU, this one is on {device}");
            return Err(Error::invalid("fit", reason));
        }
        Ok(Self { gradients, checkpointing, device, cut: vec![] })
    }

    /// The loss with what else `program` answers, and its gradients by the first `params` inputs.
    pub(super) fn run(&mut self, program: &Arc<Executable>, params: usize, inputs: Vec<Value>) -> Result<Pass> {
        match (self.gradients, self.checkpointing) {
            (Gradients::Program, _) => answered(program, params, inputs, &self.device),
            (Gradients::Autodiff, Checkpointing::Off) => gradients(program, params, inputs, &self.device),
            _ => match self.segments(program, params)? {
                Some(segments) => segments.gradients(inputs, &Device::Cpu),
                None => gradients(program, params, inputs, &Device::Cpu),
            },
        }
    }

    fn segments(&mut self, program: &Arc<Executable>, params: usize) -> Result<Option<&Checkpointed>> {
        let found = self.cut.iter().position(|(cut, _)| Arc::ptr_eq(cut, program));
        let at = match found {
            Some(at) => at,
            None => {
                self.cut.push((program.clone(), Checkpointed::new(program, params, self.checkpointing)?));
                self.cut.len() - 1
            }
        };
        Ok(self.cut[at].1.as_ref())
    }
}

/// As [`gradients`], computing again what `checkpointing` does not keep.
///
/// # Errors
///
/// As [`gradients`]; [`Error::Invalid`](crate::Error::Invalid) for segments of no operations.
pub fn checkpointed(
    program: &Arc<Executable>,
    params: usize,
    inputs: Vec<Value>,
    checkpointing: Checkpointing,
) -> Result<Pass> {
    let device = device_of(&inputs);
    let inputs = inputs.into_iter().map(|value| value.to_device(&device)).collect::<Result<_>>()?;
    Passes::new(Gradients::Autodiff, checkpointing, device)?.run(program, params, inputs)
}

/// Where values are: on the GPU that holds one of them, else on the CPU.
pub(super) fn device_of(values: &[Value]) -> Device {
    values.iter().map(Value::device).find(|device| *device != Device::Cpu).unwrap_or_default()
}
