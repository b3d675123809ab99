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

/// The sum of the gradients of some batches, as their rows weigh, over a unit that is no less than all weights together: so it
/// is not too large where no gradient is. From the second batch on it is in the type that optimizers compute in, as a sum of
/// many batches in 16 bits would lose what one of them adds.
#[derive(Clone, Debug, Default)]
pub(super) struct Accumulated {
    gradients: Vec<Value>,
    pub(super) batches: usize,
    weight: f64,
    /// The weight of the first batch that has one, doubled as often as is needed: what cancels does so exactly.
    unit: f64,
    /// What the sum is multiplied by: the least that a loss was, as no gradient was too large then.
    factor: f64,
}

impl Accumulated {
    /// Takes the gradients of one more batch.
    pub(super) fn add(&mut self, gradients: Vec<Value>, share: Share) -> Result<()> {
        let [old, new] = self.parts(share);
        let add = |(sum, gradient): (Value, Value)| {
            let mut sum = widened(sum)?;
            blend(&widened(gradient)?, &mut sum, new, old)?;
            Ok(sum)
        };
        let gradients = gradients.into_iter().map(Value::contiguous);
        let sums = std::mem::take(&mut self.gradients).into_iter();
        self.gradients = if self.batches == 0 {
            gradients.collect()
        } else {
            sums.zip(gradients).map(add).collect::<Result<_>>()?
        };
        self.count(share);
        Ok(())
    }

    /// This and the gradients of one more batch, added up by `adder`.
    pub(super) fn with(&self, gradients: &[Value], share: Share, adder: &Executable, device: &Device) -> Result<Self> {
        let mut next = Self { gradients: gradients.to_vec(), ..*self };
        if self.batches > 0 {
            let sums = self.gradients.iter().cloned().map(widened);
            let gradients = gradients.iter().cloned().map(Ok);
            let parts = self.parts(share).map(|part| number(part, adder, device));
            next.gradients = adder.run(sums.chain(gradients).chain(parts).collect::<Result<_>>()?, device)?;
        }
        next.count(share);
        Ok(next)
    }

    /// The gradients, in the type that optimizers compute in where it `widens` them, and how much they count.
    pub(super) fn finish(self, widens: bool) -> Result<(Vec<Value>, f64)> {
        let gradients = self.gradients.into_iter();
        let gradients = if widens { gradients.map(widened).collect::<Result<_>>()? } else { gradients.collect() };
        let mean = if self.weight == 0.0 { 1.0 } else { self.unit / self.weight };
        Ok((gradients, mean / self.factor))
    }

    /// How much the sum so far counts and how much the next gradients do. Those of rows that weigh nothing are 0.
    fn parts(&self, next: Share) -> [f64; 2] {
        let (unit, factor) = (self.unit_with(next), self.factor_with(next));
        let part = |of: f64| if unit == 0.0 { 0.0 } else { of / unit };
        [part(self.unit) * (factor / self.factor), part(next.weight) * (factor / next.factor)]
    }

    fn unit_with(&self, next: Share) -> f64 {
        let mut unit = if self.weight == 0.0 { next.weight } else { self.unit };
        // Weights are not below 0, where doubling would not end.
        while unit > 0.0 && unit < self.weight + next.weight {
            unit *= 2.0;
        }
        unit
    }

    fn factor_with(&self, next: Share) -> f64 {
        if self.batches == 0 { next.factor } else { self.factor.min(next.factor) }
    }

    fn count(&mut self, share: Share) {
        (self.unit, self.factor) = (self.unit_with(share), self.factor_with(share));
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
