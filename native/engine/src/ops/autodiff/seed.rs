//! Starts a backward pass from several values at once.

use super::{Pullback, record};
use crate::device::Device;
use crate::error::Result;
use crate::types::{TensorType, Type};
use crate::value::Value;

/// A scalar of which each value has the gradient that it is given with, so that going back from the scalar goes back from
/// all of them. Burn goes back from one tensor only, which it gives the gradient 1.
pub(crate) fn seeded(values: impl IntoIterator<Item = (Value, Value)>) -> Result<Value> {
    let root = Value::full(&TensorType::new(Type::F32, []), 0.0, &Device::Cpu)?;
    values
        .into_iter()
        .try_fold(root.clone(), |chain, (value, gradient)| record([value, chain], root.clone(), Seed { gradient }))
}

/// A link of a chain: hands what comes from the scalar on.
#[derive(Clone, Debug)]
struct Seed {
    gradient: Value,
}

impl Pullback<2> for Seed {
    fn pull(self, upstream: Value, _wanted: [bool; 2]) -> Result<[Option<Value>; 2]> {
        Ok([Some(self.gradient), Some(upstream)])
    }
}
