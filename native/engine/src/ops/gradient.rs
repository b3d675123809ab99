//! Operations with the gradients of Nx.
//!
//! An operation computes its result from plain values, whether autodiff tracks its operands or not, and says how the
//! gradient of the result becomes the gradient of each operand. So a result never depends on being tracked, and a
//! gradient is the rule of `Nx.Defn.grad` rather than the one that falls out of a composition.

use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::ops::autodiff::{Pullback, is_tracked, record};
use crate::ops::reduce::sum_to;
use crate::ops::{broadcast_to, cast};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// The gradient of one operand, from its number and the gradient of the result. It may be of any float type, and
/// broadcast to the result's shape or not.
pub(super) type Rule = Box<dyn Fn(usize, Value) -> Result<Value> + Send + Sync>;

/// The result of `forward` on the plain operands, with gradients by the rule that `backward` makes of the plain operands
/// and the result. Integers get no gradient.
pub(super) fn with_gradient<const N: usize>(
    operands: [Value; N],
    forward: impl FnOnce([Value; N]) -> Result<Value>,
    backward: impl FnOnce(&[Value; N], &Value) -> Rule,
) -> Result<Value> {
    let wants_gradient = |operand: &Value| operand.dtype().is_float() && is_tracked(operand);
    if !operands.iter().any(wants_gradient) {
        // Kernels work in place where nobody else holds the operand.
        return forward(operands);
    }
    let plain = operands.each_ref().map(Value::untracked);
    let result = forward(plain.clone())?;
    if !result.dtype().is_float() {
        return Ok(result);
    }
    let types = plain.each_ref().map(Value::ty);
    let by_rule = ByRule { types, rule: Arc::new(backward(&plain, &result)) };
    let nothing = Value::full(&TensorType::new(Type::F32, [0]), 0.0, &result.device())?;
    record(operands.map(|v| if wants_gradient(&v) { v } else { nothing.clone() }), result, by_rule)
}

/// Applies a rule to the operands that want a gradient.
#[derive(Clone)]
struct ByRule<const N: usize> {
    types: [TensorType; N],
    rule: Arc<Rule>,
}

impl<const N: usize> Pullback<N> for ByRule<N> {
    fn pull(self, upstream: Value, wanted: [bool; N]) -> Result<[Option<Value>; N]> {
        let mut gradients = [const { None }; N];
        for i in (0..N).filter(|&i| wanted[i]) {
            gradients[i] = Some(fit((self.rule)(i, upstream.clone())?, &self.types[i])?);
        }
        Ok(gradients)
    }
}

impl<const N: usize> fmt::Debug for ByRule<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByRule").field("types", &self.types).finish_non_exhaustive()
    }
}

/// The gradient of an operand of type `ty` from the one of what it was broadcast and cast to.
fn fit(gradient: Value, ty: &TensorType) -> Result<Value> {
    let gradient = cast(gradient, ty.dtype)?;
    let gradient = if gradient.rank() < ty.shape.len() { broadcast_to(gradient, &ty.shape) } else { gradient };
    sum_to(gradient, &ty.shape)
}
