//! How a run gets its gradients.

use std::sync::Arc;

use super::checkpointed::{Checkpointed, Checkpointing};
use super::gradient::{Pass, answered, gradients};
use super::job::Gradients;
use crate::device::Device;
use crate::error::Result;
use crate::exec::Executable;
use crate::value::Value;

/// Forward and backward passes of the programs of one run.
#[derive(Debug)]
pub(super) struct Passes {
    gradients: Gradients,
    checkpointing: Checkpointing,
    /// Programs that were cut in segments, those that are better left whole among them.
    cut: Vec<(Arc<Executable>, Option<Checkpointed>)>,
}

impl Passes {
    pub(super) fn new(gradients: Gradients, checkpointing: Checkpointing) -> Self {
        Self { gradients, checkpointing, cut: vec![] }
    }

    /// The loss with what else `program` answers, and its gradients by the first `params` inputs.
    pub(super) fn run(&mut self, program: &Arc<Executable>, params: usize, inputs: Vec<Value>) -> Result<Pass> {
        match (self.gradients, self.checkpointing) {
            (Gradients::Program, _) => answered(program, params, inputs, &Device::Cpu),
            (Gradients::Autodiff, Checkpointing::Off) => gradients(program, params, inputs, &Device::Cpu),
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
    Passes::new(Gradients::Autodiff, checkpointing).run(program, params, inputs)
}
