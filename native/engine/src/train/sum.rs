//! Gradients of the batches that make one step.

use super::optimizer::{blend, number};
use crate::device::Device;
use crate::error::Result;
use crate::exec::Executable;
use crate::value::Value;

/// How much a batch counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// The weight of its rows.
    pub(super) weight: f64,
    /// What its loss was multiplied by, and its gradients.
    pub(super) factor: f64,
}

impl Share {
    fn each(self) -> f64 {
        self.weight / self.factor
    }
}

/// Gradients of some batches, each counted as much as its share over that of the first batch that counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    pub(super) gradients: Vec<Value>,
    pub(super) batches: usize,
    first: f64,
    weight: f64,
}

impl Sum {
    pub(super) fn add(&mut self, gradients: Vec<Value>, share: Share) -> Result<()> {
        if self.is_empty() {
            self.gradients = gradients.into_iter().map(Value::contiguous).collect();
            self.first = share.each();
        } else {
            let weight = share.each() / self.first;
            for (sum, gradient) in self.gradients.iter_mut().zip(gradients) {
                blend(&gradient.contiguous(), sum, weight, 1.0)?;
            }
        }
        self.batches += 1;
        self.weight += share.weight;
        Ok(())
    }

    /// This and the gradients of one more batch, added up by `adder`.
    pub(super) fn with(&self, gradients: &[Value], share: Share, adder: &Executable, device: &Device) -> Result<Self> {
        let (batches, weight) = (self.batches + 1, self.weight + share.weight);
        if self.is_empty() {
            return Ok(Self { gradients: gradients.to_vec(), batches, first: share.each(), weight });
        }
        let each = number(share.each() / self.first, adder, device)?;
        let inputs = self.gradients.iter().chain(gradients).cloned().chain([each]).collect();
        Ok(Self { gradients: adder.run(inputs, device)?, batches, first: self.first, weight })
    }

    /// Whether there is nothing yet that the next batch could be added to.
    fn is_empty(&self) -> bool {
        self.batches == 0 || self.first == 0.0
    }

    /// How much the sum counts, so that it is the gradient of all rows as one batch. The gradients of rows that weigh nothing are 0.
    pub(super) fn scale(&self) -> f64 {
        if self.weight == 0.0 { 1.0 } else { self.first / self.weight }
    }
}
