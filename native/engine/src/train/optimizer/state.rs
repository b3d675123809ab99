//! What optimizers remember between steps.

use super::element::wide;
use super::{Rule, expect};
use crate::device::Device;
use crate::error::Result;
use crate::train::passes::device_of;
use crate::types::TensorType;
use crate::value::Value;

/// What an optimizer remembers between steps.
#[derive(Clone, Debug, Default)]
pub struct OptimizerState {
    /// Steps done.
    pub count: u64,
    /// For each moment that the rule keeps, one tensor for each parameter: `f64` for `f64` parameters, else `f32`.
    pub slots: Vec<Vec<Value>>,
}

impl OptimizerState {
    pub(super) fn fresh(rule: &Rule, params: &[Value]) -> Result<Self> {
        let moments = rule.moments().into_iter().enumerate();
        let slot = |(moment, start): (usize, f64)| {
            let full = |param| Value::full(&moment_type(rule, moment, param), start, &Device::Cpu);
            params.iter().map(full).collect::<Result<_>>()
        };
        Self { count: 0, slots: moments.map(slot).collect::<Result<_>>()? }.beside(params)
    }

    /// This in the memory of the device that `params` are on.
    pub(super) fn beside(mut self, params: &[Value]) -> Result<Self> {
        let device = device_of(params);
        for value in self.slots.iter_mut().flatten() {
            *value = value.clone().to_device(&device)?.contiguous();
        }
        Ok(self)
    }

    /// This, for the optimizer of `params` by `rule`.
    pub(super) fn resumed(self, rule: &Rule, params: &[Value]) -> Result<Self> {
        let moments = rule.moments().len();
        let fits = |(moment, slot): (usize, &Vec<Value>)| {
            let types = params.iter().map(|param| moment_type(rule, moment, param));
            slot.len() == params.len() && slot.iter().zip(types).all(|(value, ty)| value.ty() == ty)
        };
        let reason = "the optimizer's state belongs to another optimizer or to other parameters";
        expect(self.slots.len() == moments && self.slots.iter().enumerate().all(fits), reason)?;
        self.beside(params)
    }
}

fn moment_type(rule: &Rule, moment: usize, param: &Value) -> TensorType {
    TensorType::new(wide(param.dtype()), rule.moment_shape(moment, &param.shape()))
}
