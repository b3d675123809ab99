//! What changes from step to step.

use std::sync::Arc;

use super::finite::{Found, Seen};
use super::optimizer::{Clip, Optimizer, OptimizerState, Prepare, adding, blend, number};
use crate::device::Device;
use crate::error::Result;
use crate::exec::Executable;
use crate::types::TensorType;
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
    device: Device,
    /// Adds gradients up where they are not in the CPU's memory.
    adder: Option<Arc<Executable>>,
}

/// Gradients of some batches, each weighted by the rows of its batch over those of the first one.
#[derive(Clone, Debug, Default)]
struct Sum {
    gradients: Vec<Value>,
    batches: usize,
    first: usize,
    rows: usize,
}

/// What a batch makes of a model on a GPU, before it is known whether its loss and gradients are good.
#[derive(Debug)]
pub(super) struct Ahead {
    sum: Sum,
    moved: Option<(Vec<Value>, OptimizerState)>,
}

impl Model {
    pub(super) fn new(
        params: Vec<Value>,
        states: Vec<Value>,
        mut optimizer: Optimizer,
        clip: Clip,
        accumulate: usize,
        device: Device,
    ) -> Result<Self> {
        let before = (params.clone(), states.clone());
        let mut adder = None;
        if device != Device::Cpu {
            optimizer.move_to(&device, clip, &params)?;
            let types: Vec<TensorType> = params.iter().map(Value::ty).collect();
            adder = Some(Arc::new(Executable::optimised(&adding(&types), vec![], &[])?));
        }
        Ok(Self { params, states, optimizer, clip, accumulate, sum: Sum::default(), before, device, adder })
    }

    /// Where everything is.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Takes the `gradients` and the new `states` of a batch, and a step when there are enough of them.
    pub(super) fn add(
        &mut self,
        gradients: Vec<Value>,
        states: Vec<Value>,
        rows: usize,
        learning_rate: f64,
    ) -> Result<()> {
        if let Some(ahead) = self.ahead(&gradients, rows, learning_rate)? {
            self.accept(ahead, states);
            return Ok(());
        }
        self.before.1 = std::mem::replace(&mut self.states, states);
        self.sum.add(gradients, rows)?;
        if self.sum.batches < self.accumulate { Ok(()) } else { self.step(learning_rate) }
    }

    /// What [`add`](Self::add) would make of a batch; `None` on the CPU, where memory is used again instead.
    pub(super) fn ahead(&mut self, gradients: &[Value], rows: usize, learning_rate: f64) -> Result<Option<Ahead>> {
        let Some(adder) = &self.adder else { return Ok(None) };
        let sum = self.sum.with(gradients, rows, adder, &self.device)?;
        if sum.batches < self.accumulate {
            return Ok(Some(Ahead { sum, moved: None }));
        }
        let scale = sum.scale();
        let moved = self.optimizer.ahead(&self.params, sum.gradients, scale, learning_rate)?;
        Ok(Some(Ahead { sum: Sum::default(), moved }))
    }

    /// Takes what a batch made, and its new states.
    pub(super) fn accept(&mut self, Ahead { sum, moved }: Ahead, states: Vec<Value>) {
        self.before.1 = std::mem::replace(&mut self.states, states);
        self.sum = sum;
        self.move_on(moved);
    }

    fn move_on(&mut self, moved: Option<(Vec<Value>, OptimizerState)>) {
        if let Some((params, state)) = moved {
            self.before.0 = std::mem::replace(&mut self.params, params);
            self.optimizer.accept(state);
        }
    }

    /// Takes a step down along the gradients so far, if there are some.
    pub(super) fn step(&mut self, learning_rate: f64) -> Result<()> {
        if self.sum.batches == 0 {
            return Ok(());
        }
        let sum = std::mem::take(&mut self.sum);
        let scale = sum.scale();
        if self.device != Device::Cpu {
            let moved = self.optimizer.ahead(&self.params, sum.gradients, scale, learning_rate)?;
            self.move_on(moved);
            return Ok(());
        }
        let prepare = Prepare::new(self.clip, scale, &sum.gradients)?;
        let (next, _) = &mut self.before;
        self.optimizer.step(&self.params, next, sum.gradients, &prepare, learning_rate)?;
        std::mem::swap(&mut self.params, next);
        Ok(())
    }

    /// Whether no gradients wait for a step.
    pub(super) fn settled(&self) -> bool {
        self.sum.batches == 0
    }

    /// The first parameter that is not finite, with what is not.
    pub(super) fn bad_parameter(&self) -> Result<Option<Found>> {
        let (_, bad) = Seen::start(vec![], &self.params)?.wait(&self.params)?;
        Ok(bad)
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
            self.gradients = gradients.into_iter().map(Value::contiguous).collect();
            self.first = rows;
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

    /// This and the gradients of one more batch, added up by `adder`.
    fn with(&self, gradients: &[Value], rows: usize, adder: &Executable, device: &Device) -> Result<Self> {
        if self.batches == 0 {
            return Ok(Self { gradients: gradients.to_vec(), batches: 1, first: rows, rows });
        }
        let weight = number(rows as f64 / self.first as f64, adder, device)?;
        let inputs = self.gradients.iter().chain(gradients).cloned().chain([weight]).collect();
        let gradients = adder.run(inputs, device)?;
        Ok(Self { gradients, batches: self.batches + 1, rows: self.rows + rows, first: self.first })
    }

    /// How much the sum counts, so that all rows together count as those of the first batch.
    fn scale(&self) -> f64 {
        self.first as f64 / self.rows as f64
    }
}
