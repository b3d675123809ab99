//! A value whose gradient a program gives.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Pullback, is_tracked, record};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::exec::Plan;
use crate::ops::Call;
use crate::value::Value;

/// The first operand; the gradients of the next `inputs` operands come from the nested program.
///
/// Burn's tape wants the number of operands at compile time. So the value passes through a chain of links, one for each
/// input: a link hands the upstream gradient on to the link before and its own gradient to its input.
pub(super) fn custom_grad(inputs: usize, mut call: Call<'_>) -> Result<Value> {
    let [backward] = call.nested else { return Err(call.invalid("has no backward program")) };
    let mut operands = std::mem::take(&mut call.inputs).into_iter();
    let Some(value) = operands.next() else { return Err(call.invalid("has no value")) };
    if operands.len() < inputs {
        return Err(call.invalid(format!("takes {inputs} inputs, got {}", operands.len())));
    }
    let inputs: Vec<Value> = operands.by_ref().take(inputs).collect();
    let value = value.untracked();
    if !value.dtype().is_float() || !inputs.iter().any(is_tracked) {
        return Ok(value);
    }
    let captures = operands.map(|capture| capture.untracked()).collect();
    let program = Arc::new(Gradient {
        backward: backward.clone(),
        captures,
        device: call.device.clone(),
        answer: Mutex::new(None),
    });
    inputs.into_iter().enumerate().filter(|(_, input)| is_tracked(input)).try_fold(value, |value, (index, input)| {
        let output = value.untracked();
        let link = Link { program: program.clone(), index, input: input.ty() };
        record([value, input], output, link)
    })
}

/// The program, which runs once for all links: they all get the same upstream gradient.
#[derive(Debug)]
struct Gradient {
    backward: Plan,
    captures: Vec<Value>,
    device: Device,
    answer: Mutex<Option<Vec<Value>>>,
}

impl Gradient {
    fn of_input(&self, index: usize, upstream: Value) -> Result<Value> {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        if answer.is_none() {
            let operands = [vec![upstream], self.captures.clone()].concat();
            *answer = Some(self.backward.run(operands, &self.device)?);
        }
        let gradient = answer.as_ref().and_then(|gradients| gradients.get(index)).cloned();
        gradient.ok_or_else(|| Error::invalid("custom_grad", format!("has no gradient of input {index}")))
    }
}

#[derive(Clone, Debug)]
struct Link {
    program: Arc<Gradient>,
    index: usize,
    input: crate::types::TensorType,
}

impl Pullback<2> for Link {
    fn pull(self, upstream: Value, _wanted: [bool; 2]) -> Result<[Option<Value>; 2]> {
        let gradient = self.program.of_input(self.index, upstream.clone())?;
        let gradient = crate::ops::cast(gradient, self.input.dtype)?;
        if gradient.shape() != self.input.shape {
            return Err(Error::Mismatch { op: "custom_grad".into(), expected: self.input, got: gradient.ty() });
        }
        Ok([Some(upstream), Some(gradient)])
    }
}
