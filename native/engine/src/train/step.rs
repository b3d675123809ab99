//! One step of a run, and what becomes of one that fails.

use super::control::{Batch, Failure};
use super::event::Observer;
use super::finite::Seen;
use super::means::Means;
use super::run::Run;
use crate::error::{Error, Result};
use crate::exec::replay;
use crate::value::Value;

/// Where in the run something happens.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) epoch: usize,
    pub(super) step: usize,
}

impl<O: Observer> Run<O> {
    /// Does a step and adds what it saw to `means`.
    pub(super) fn take(&mut self, batch: Batch, place: Place, means: &mut Means) -> Result<()> {
        match self.step(&batch, place) {
            Ok((scalars, weight)) => {
                means.add(batch.rows, weight, &scalars)?;
                self.last = Some(batch);
            }
            Err(error) => {
                self.recover(error, batch, place)?;
                means.skip();
            }
        }
        Ok(())
    }

    /// Leaves good parameters after a step that failed; an error unless its batch is to be left out.
    fn recover(&mut self, error: Error, batch: Batch, place: Place) -> Result<()> {
        let skip = self.config.skip_non_finite && matches!(error, Error::NonFinite { .. });
        if !skip {
            let inputs = self.inputs(batch.tensors)?;
            self.control.fail(Failure { epoch: place.epoch, step: place.step, inputs });
        }
        if matches!(error, Error::NonFinite { parameter: None, .. }) {
            self.leave_good_parameters()?;
        }
        if skip { Ok(()) } else { Err(error) }
    }

    /// One step: the update is applied only when the loss and every gradient are finite. Answers loss and metrics, and the
    /// batch's weight.
    fn step(&mut self, batch: &Batch, place: Place) -> Result<(Vec<f64>, f64)> {
        let (rate, rows) = (self.rate(), batch.rows as f64);
        let inputs = self.inputs(batch.tensors.clone())?;
        let (params, states) = self.model.lock().counts();
        let pass = self.passes.run(&batch.executable, params, inputs)?;
        let mut scalars = pass.outputs;
        let new_states = scalars.split_off(scalars.len() - states);
        let gradients: Vec<Value> = pass.gradients.into_iter().map(Value::contiguous).collect();
        let seen = Seen::start(scalars, &gradients)?;
        // A GPU does not wait for the host to see that all is well, unless weights of several batches are to be compared.
        let compared = self.config.weighted && self.config.accumulate > 1;
        let ahead = if compared { None } else { self.model.lock().ahead(&gradients, rows, rate)? };
        let (mut scalars, bad) = seen.wait(&gradients)?;
        let weight = self.weight(&mut scalars, batch.rows);
        let mut model = self.model.lock();
        scalars.iter_mut().take(1).for_each(|loss| *loss /= model.factor());
        if let Some(loss) = scalars.first().copied().filter(|loss| !loss.is_finite()) {
            return Err(place.non_finite("loss", None, loss));
        }
        match (bad, ahead) {
            (Some(_), _) if model.overflowed()? => (),
            (Some((parameter, value)), _) => return Err(place.non_finite("gradient", Some(parameter), value)),
            (None, Some(ahead)) => model.accept(ahead, new_states)?,
            (None, None) => model.add(gradients, new_states, weight, rate)?,
        }
        Ok((scalars, weight))
    }

    /// Takes the weight of a batch from what its program answers.
    pub(super) fn weight(&self, scalars: &mut Vec<f64>, rows: usize) -> f64 {
        let weight = if self.config.weighted { scalars.pop() } else { None };
        weight.unwrap_or(rows as f64)
    }

    /// The learning rate of the optimizer's next step.
    pub(super) fn rate(&self) -> f64 {
        self.rate_of(self.updates())
    }

    /// The learning rate of the optimizer's step behind so many.
    pub(super) fn rate_of(&self, updates: u64) -> f64 {
        let last = self.rates.len().saturating_sub(1);
        let at = usize::try_from(updates).map_or(last, |at| at.min(last));
        self.rates.get(at).map_or(1.0, |rate| *rate) * self.config.learning_rate
    }

    /// Steps of the optimizer so far.
    pub(super) fn updates(&self) -> u64 {
        self.model.lock().optimizer.state().count
    }

    /// Takes the last step back if it is what made the loss no number, rather than the batch after it: good parameters
    /// have a finite loss on the batch that they were last seen with.
    fn leave_good_parameters(&mut self) -> Result<()> {
        let Some(Batch { executable, tensors, .. }) = self.last.take() else { return Ok(()) };
        let inputs = self.inputs(tensors)?;
        let device = self.model.lock().device().clone();
        let outputs = replay(|| executable.run(inputs, &device))?;
        let loss = outputs.first().map(Value::to_f64).transpose()?;
        if !loss.is_some_and(f64::is_finite) {
            self.model.lock().step_back();
        }
        Ok(())
    }

    /// Takes the last step back if a parameter is not finite behind it: no loss has seen what it made, and a checkpoint may
    /// keep it.
    pub(super) fn expect_finite(&mut self, place: Place) -> Result<()> {
        let mut model = self.model.lock();
        let Some((parameter, value)) = model.bad_parameter()? else { return Ok(()) };
        model.step_back();
        if self.config.skip_non_finite { Ok(()) } else { Err(place.non_finite("parameter", Some(parameter), value)) }
    }

    /// What the program of `batch` takes.
    pub(super) fn inputs(&self, batch: Vec<Value>) -> Result<Vec<Value>> {
        let model = self.model.lock();
        let mut inputs = model.inputs();
        for value in batch {
            inputs.push(value.to_device(model.device())?);
        }
        Ok(inputs)
    }
}

impl Place {
    pub(super) fn non_finite(self, what: &str, parameter: Option<usize>, value: f64) -> Error {
        let Place { epoch, step } = self;
        Error::NonFinite { what: what.into(), parameter, value: value.to_string(), epoch, step }
    }
}
