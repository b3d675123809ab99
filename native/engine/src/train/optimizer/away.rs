//! Steps of an optimizer whose parameters are in the memory of a GPU. Nothing is changed in place, so a step can be asked for
//! before it is known whether it will be kept.

use std::sync::Arc;

use super::compiled::{Compiled, preparing};
use super::{Clip, Method, Optimizer, OptimizerState};
use crate::device::Device;
use crate::error::Result;
use crate::exec::Executable;
use crate::types::{TensorType, Type};
use crate::value::Value;

/// The programs of an optimizer.
#[derive(Clone, Debug)]
pub(super) struct Away {
    device: Device,
    programs: Programs,
}

#[derive(Clone, Debug)]
enum Programs {
    Rule(Compiled),
    /// What prepares gradients for the optimizer's own program.
    Program(Arc<Executable>),
}

impl Optimizer {
    /// Makes ready for parameters and gradients of these types on `device`, which is not the CPU.
    pub(in crate::train) fn move_to(
        &mut self,
        device: &Device,
        clip: Clip,
        params: &[TensorType],
        gradients: &[TensorType],
    ) -> Result<()> {
        let programs = match &self.method {
            Method::Rule(rule) => Programs::Rule(Compiled::new(*rule, clip, params, gradients, &self.state)?),
            Method::Program(_) => {
                Programs::Program(Arc::new(Executable::optimised(&preparing(clip, params, gradients), vec![], &[])?))
            }
        };
        self.away = Some(Away { device: device.clone(), programs });
        Ok(())
    }

    /// What `params` and the memory of them are one step down along `gradients`, which count `scale` times; `None` on the CPU.
    pub(in crate::train) fn ahead(
        &mut self,
        params: &[Value],
        gradients: Vec<Value>,
        scale: f64,
        learning_rate: f64,
    ) -> Result<Option<(Vec<Value>, OptimizerState)>> {
        let Some(Away { device, programs }) = &mut self.away else { return Ok(None) };
        let mut state = self.state.clone();
        state.count += 1;
        let next = match (programs, &self.method) {
            (Programs::Rule(rule), _) => rule.step(&mut state, params, gradients, scale, learning_rate, device)?,
            (Programs::Program(prepare), Method::Program(program)) => {
                let scale = number(scale, prepare, device)?;
                let inputs = params.iter().cloned().chain(gradients).chain([scale]).collect();
                let prepared = prepare.run(inputs, device)?;
                let inputs = params.iter().cloned().chain(prepared).chain(state.slots.concat()).collect();
                let mut next = program.run(inputs, device)?;
                state.slots = vec![next.split_off(params.len())];
                next
            }
            _ => return Ok(None),
        };
        Ok(Some((next, state)))
    }

    /// Takes the memory of a step that is kept.
    pub(in crate::train) fn accept(&mut self, state: OptimizerState) {
        self.state = state;
    }
}

/// A number as the last inputs of `program` are, in a device's memory.
pub(in crate::train) fn number(number: f64, program: &Executable, device: &Device) -> Result<Value> {
    let dtype = program.input_types().last().map_or(Type::F32, |ty| ty.dtype);
    Value::full(&TensorType::new(dtype, []), number, &Device::Cpu)?.to_device(device)
}
