//! What changes from step to step.

use super::optimizer::{Clip, Optimizer, Prepare, blend};
use crate::error::Result;
use crate::value::Value;

/// Parameters, states and what leads them on.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) params: Vec<Value>,
    pub(super) states: Vec<Value>,
    pub(super) optimizer: Optimizer,
    clip: Clip,
    /// Batches whose gradients make one step.
    accumulate: usize,
    sum: Sum,
    /// Parameters and states before the last step, and memory for the next one.
    before: (Vec<Value>, Vec<Value>),
}

/// Gradients of some batches, each weighted by the rows of its batch over those of the first one.
#[derive(Clone, Debug, Default)]
struct Sum {
    gradients: Vec<Value>,
    batches: usize,
    first: usize,
    rows: usize,
}

impl Model {
    pub(super) fn new(
        params: Vec<Value>,
        states: Vec<Value>,
        optimizer: Optimizer,
        clip: Clip,
        accumulate: usize,
    ) -> Self {
        let before = (params.clone(), states.clone());
        Self { params, states, optimizer, clip, accumulate, sum: Sum::default(), before }
    }

    /// Takes the `gradients` and the new `states` of a batch, and a step when there are enough of them.
    pub(super) fn add(
        &mut self,
        gradients: Vec<Value>,
        states: Vec<Value>,
        rows: usize,
        learning_rate: f64,
    ) -> Result<()> {
        self.before.1 = std::mem::replace(&mut self.states, states);
        self.sum.add(gradients, rows)?;
        if self.sum.batches < self.accumulate { Ok(()) } else { self.step(learning_rate) }
    }

    /// Takes a step down along the gradients so far, if there are some.
    pub(super) fn step(&mut self, learning_rate: f64) -> Result<()> {
        if self.sum.batches == 0 {
            return Ok(());
        }
        let Sum { gradients, first, rows, .. } = std::mem::take(&mut self.sum);
        let prepare = Prepare::new(self.clip, first as f64 / rows as f64, &gradients)?;
        let (next, _) = &mut self.before;
        self.optimizer.step(&self.params, next, gradients, &prepare, learning_rate)?;
        std::mem::swap(&mut self.params, next);
        Ok(())
    }

    /// Whether no gradients wait for a step.
    pub(super) fn settled(&self) -> bool {
        self.sum.batches == 0
    }

    /// Takes the last step back; the optimizer's memory stays where it is.
    pub(super) fn step_back(&mut self) {
        let (params, states) = &mut self.before;
        std::mem::swap(&mut self.params, params);
        std::mem::swap(&mut self.states, states);
        self.sum = Sum::default();
    }
}

impl Sum {
    fn add(&mut self, gradients: Vec<Value>, rows: usize) -> Result<()> {
        if self.batches == 0 {
            *self = Self {
                gradients: gradients.into_iter().map(Value::contiguous).collect(),
                first: rows,
                ..Self::default()
            };
        } else {
            let weight = rows as f64 / self.first as f64;
            for (sum, gradient) in self.gradients.iter_mut().zip(gradients) {
                blend(&gradient.contiguous(), sum, weight, 1.0)?;
            }
        }
        self.batches += 1;
        self.rows += rows;
        Ok(())
    }
}
