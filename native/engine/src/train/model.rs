//! What changes from step to step.

use std::sync::Arc;

use super::accumulated::{Accumulated, Share};
use super::finite::{Found, Seen};
use super::optimizer::{Clip, Optimizer, OptimizerState, Prepare, adding, widened};
use super::scaling::{LossScale, Scaling};
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
    accumulated: Accumulated,
    /// Parameters and states before the last step, and memory for the next one.
    before: (Vec<Value>, Vec<Value>),
    device: Device,
    /// Adds gradients up where they are not in the CPU's memory.
    adder: Option<Arc<Executable>>,
    /// What step programs multiply the loss by, where they do.
    scaling: Option<Scaling>,
}

/// What a batch makes of a model on a GPU, before it is known whether its loss and gradients are good.
#[derive(Debug)]
pub(super) struct Ahead {
    accumulated: Accumulated,
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
            let types: Vec<TensorType> = params.iter().map(Value::ty).collect();
            let gradients = if accumulate > 1 { widened(&types) } else { types.clone() };
            optimizer.move_to(&device, clip, &types, &gradients)?;
            adder = Some(Arc::new(Executable::optimised(&adding(&types), vec![], &[])?));
        }
        Ok(Self {
            params,
            states,
            optimizer,
            clip,
            accumulate,
            accumulated: Accumulated::default(),
            before,
            device,
            adder,
            scaling: None,
        })
    }

    /// This with programs that take a loss scale behind the states.
    pub(super) fn scaled(mut self, scale: Option<LossScale>) -> Result<Self> {
        self.scaling = scale.map(|scale| Scaling::new(scale, &self.device)).transpose()?;
        Ok(self)
    }

    /// What programs take before the batch.
    pub(super) fn inputs(&self) -> Vec<Value> {
        let factor = self.scaling.as_ref().map(Scaling::factor);
        self.params.iter().chain(&self.states).chain(factor).cloned().collect()
    }

    /// How many parameters and states there are.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.params.len(), self.states.len())
    }

    pub(super) fn loss_scale(&self) -> Option<LossScale> {
        self.scaling.as_ref().map(Scaling::state)
    }

    /// What losses are multiplied by.
    pub(super) fn factor(&self) -> f64 {
        self.loss_scale().map_or(1.0, |scale| scale.factor)
    }

    /// A batch has a gradient that is not finite. Whether that is because its loss was scaled too much, which it is less from now
    /// on.
    pub(super) fn overflowed(&mut self) -> Result<bool> {
        self.scaling.as_mut().map_or(Ok(false), Scaling::overflowed)
    }

    /// Where everything is.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Takes the `gradients` and the new `states` of a batch of this `weight`, and a step when there are enough of them.
    pub(super) fn add(
        &mut self,
        gradients: Vec<Value>,
        states: Vec<Value>,
        weight: f64,
        learning_rate: f64,
    ) -> Result<()> {
        if let Some(ahead) = self.ahead(&gradients, weight, learning_rate)? {
            return self.accept(ahead, states);
        }
        self.before.1 = std::mem::replace(&mut self.states, states);
        self.accumulated.add(gradients, Share { weight, factor: self.factor() })?;
        if self.accumulated.batches < self.accumulate { Ok(()) } else { self.step(learning_rate) }
    }

    /// What [`add`](Self::add) would make of a batch; `None` on the CPU, where memory is used again instead.
    pub(super) fn ahead(&mut self, gradients: &[Value], weight: f64, learning_rate: f64) -> Result<Option<Ahead>> {
        let Some(adder) = &self.adder else { return Ok(None) };
        let share = Share { weight, factor: self.factor() };
        let accumulated = self.accumulated.with(gradients, share, adder, &self.device)?;
        if accumulated.batches < self.accumulate {
            return Ok(Some(Ahead { accumulated, moved: None }));
        }
        let (gradients, scale) = accumulated.finish(self.widens())?;
        let moved = self.optimizer.ahead(&self.params, gradients, scale, learning_rate)?;
        Ok(Some(Ahead { accumulated: Accumulated::default(), moved }))
    }

    /// Takes what a batch made, and its new states.
    pub(super) fn accept(&mut self, Ahead { accumulated, moved }: Ahead, states: Vec<Value>) -> Result<()> {
        self.before.1 = std::mem::replace(&mut self.states, states);
        self.accumulated = accumulated;
        self.move_on(moved)
    }

    fn move_on(&mut self, moved: Option<(Vec<Value>, OptimizerState)>) -> Result<()> {
        let Some((params, state)) = moved else { return Ok(()) };
        self.before.0 = std::mem::replace(&mut self.params, params);
        self.optimizer.accept(state);
        self.stepped()
    }

    fn stepped(&mut self) -> Result<()> {
        self.scaling.as_mut().map_or(Ok(()), Scaling::stepped)
    }

    /// Takes a step down along the gradients so far, if there are some.
    pub(super) fn step(&mut self, learning_rate: f64) -> Result<()> {
        if self.settled() {
            return Ok(());
        }
        let (gradients, scale) = std::mem::take(&mut self.accumulated).finish(self.widens())?;
        if self.device != Device::Cpu {
            let moved = self.optimizer.ahead(&self.params, gradients, scale, learning_rate)?;
            return self.move_on(moved);
        }
        let prepare = Prepare::new(self.clip, scale, &gradients)?;
        let (next, _) = &mut self.before;
        self.optimizer.step(&self.params, next, gradients, &prepare, learning_rate)?;
        std::mem::swap(&mut self.params, next);
        self.stepped()
    }

    /// Whether optimizers get gradients in the type that they compute in, as the mean of several is: else it would be rounded
    /// twice.
    fn widens(&self) -> bool {
        self.accumulate > 1
    }

    /// Whether no gradients wait for a step.
    pub(super) fn settled(&self) -> bool {
        self.accumulated.batches == 0
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
        self.accumulated = Accumulated::default();
    }
}
