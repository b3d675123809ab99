//! Gradients of the batches that make one step.

use super::optimizer::{blend, number, wide};
use crate::device::Device;
use crate::error::Result;
use crate::exec::{Executable, instruction};
use crate::program::Op;
use crate::types::{TensorType, Type};
use crate::value::Value;

/// How much a batch counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// The weight of its rows.
    pub(super) weight: f64,
    /// What its loss was multiplied by, and its gradients.
    pub(super) factor: f64,
}

/// The mean of the gradients of some batches, as their rows weigh. A mean and not a sum, which may be too large where each
/// gradient is not; from the second batch on in the type that optimizers compute in, as the mean of many batches in 16 bits
/// would lose what one of them adds.
#[derive(Clone, Debug, Default)]
pub(super) struct Accumulated {
    gradients: Vec<Value>,
    pub(super) batches: usize,
    weight: f64,
    /// What the mean is multiplied by: the least that a loss was, as no gradient was too large then.
    factor: f64,
}

impl Accumulated {
    /// Takes the gradients of one more batch.
    pub(super) fn add(&mut self, gradients: Vec<Value>, share: Share) -> Result<()> {
        let [old, new] = self.parts(share);
        let add = |(mean, gradient): (Value, Value)| {
            let mut mean = widened(mean)?;
            blend(&widened(gradient)?, &mut mean, new, old)?;
            Ok(mean)
        };
        let gradients = gradients.into_iter().map(Value::contiguous);
        let means = std::mem::take(&mut self.gradients).into_iter();
        self.gradients = if self.batches == 0 {
            gradients.collect()
        } else {
            means.zip(gradients).map(add).collect::<Result<_>>()?
        };
        self.count(share);
        Ok(())
    }

    /// This and the gradients of one more batch, added up by `adder`.
    pub(super) fn with(&self, gradients: &[Value], share: Share, adder: &Executable, device: &Device) -> Result<Self> {
        let mut next = Self { gradients: gradients.to_vec(), ..*self };
        if self.batches > 0 {
            let means = self.gradients.iter().cloned().map(widened);
            let gradients = gradients.iter().cloned().map(Ok);
            let parts = self.parts(share).map(|part| number(part, adder, device));
            next.gradients = adder.run(means.chain(gradients).chain(parts).collect::<Result<_>>()?, device)?;
        }
        next.count(share);
        Ok(next)
    }

    /// The gradients in the types of `params`, and how much they count.
    pub(super) fn finish(self, params: &[Value]) -> Result<(Vec<Value>, f64)> {
        let narrowed = |(gradient, param): (Value, &Value)| cast(gradient, param.dtype());
        let gradients = self.gradients.into_iter().zip(params).map(narrowed).collect::<Result<_>>()?;
        Ok((gradients, 1.0 / self.factor))
    }

    /// How much the mean so far counts and how much the next gradients do. Those of rows that weigh nothing are 0.
    fn parts(&self, next: Share) -> [f64; 2] {
        let all = self.weight + next.weight;
        let all = if all == 0.0 { 1.0 } else { all };
        let factor = self.factor_with(next);
        [self.weight / all * (factor / self.factor), next.weight / all * (factor / next.factor)]
    }

    fn factor_with(&self, next: Share) -> f64 {
        if self.batches == 0 { next.factor } else { self.factor.min(next.factor) }
    }

    fn count(&mut self, share: Share) {
        self.factor = self.factor_with(share);
        self.weight += share.weight;
        self.batches += 1;
    }
}

fn widened(value: Value) -> Result<Value> {
    let dtype = wide(value.dtype());
    cast(value, dtype)
}

/// A value in another type, wherever it is.
fn cast(value: Value, dtype: Type) -> Result<Value> {
    if value.dtype() == dtype {
        return Ok(value);
    }
    let (ty, device) = (TensorType::new(dtype, value.shape()), value.device());
    Ok(instruction(&Op::Cast, vec![value], &[ty], &device)?.remove(0))
}
