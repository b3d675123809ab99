//! What a run is asked to do, and the checks before it starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::checkpointed::Checkpointing;
use super::data::{Dataset, leading};
use super::means::Means;
use super::model::Model;
use super::optimizer::{Adam, Clip, Optimizer, OptimizerState, Rule};
use super::passes::device_of;
use super::scaling::{LossScale, Scaling};
use crate::error::{Error, Result};
use crate::exec::Executable;
use crate::types::TensorType;
use crate::value::Value;

/// Where gradients come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gradients {
    /// From the loss, by autodiff.
    Autodiff,
    /// Step programs answer them, after the new states.
    Program,
}

/// How to train.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Number of the last epoch.
    pub epochs: usize,
    /// Number of the first epoch: 1, or where a resumed run goes on.
    pub first_epoch: usize,
    /// Rows of a batch.
    pub batch_size: usize,
    /// Whether each epoch sees the rows in another order.
    pub shuffle: bool,
    /// Seed of the orders.
    pub seed: u64,
    /// Learning rate, until an answer changes it; with rates by steps what these are multiplied by.
    pub learning_rate: f64,
    /// The optimizer; `None` when the job has an update program.
    pub optimizer: Option<Rule>,
    /// Where gradients come from.
    pub gradients: Gradients,
    /// What autodiff keeps.
    pub checkpointing: Checkpointing,
    /// Bound of every element of a gradient.
    pub clip_value: Option<f64>,
    /// Bound of the norm of all gradients together.
    pub clip_norm: Option<f64>,
    /// Share of each parameter that is added to its gradient.
    pub weight_decay: f64,
    /// Whether programs answer the weight of a batch behind loss and metrics; else a batch counts as many times as it has rows.
    pub weighted: bool,
    /// Batches whose gradients make one step; the last step of an epoch takes what is left.
    pub accumulate: usize,
    /// Whether a batch whose loss or gradient is not finite is left out; else it ends the run.
    pub skip_non_finite: bool,
    /// After each so many batches of an epoch [`Event::Pause`](super::Event::Pause) is told, as soon as no gradients wait for
    /// a step.
    pub pause_every: Option<usize>,
    /// Whether [`Event::Progress`](super::Event::Progress) is told.
    pub progress: bool,
}

impl Default for Config {
    /// One epoch of batches of 32 in their order, Adam at 0.001, no progress.
    fn default() -> Self {
        Self {
            epochs: 1,
            first_epoch: 1,
            batch_size: 32,
            shuffle: false,
            seed: 0,
            learning_rate: 1e-3,
            optimizer: Some(Rule::Adam(Adam::default())),
            gradients: Gradients::Autodiff,
            checkpointing: Checkpointing::Off,
            clip_value: None,
            clip_norm: None,
            weight_decay: 0.0,
            weighted: false,
            accumulate: 1,
            skip_non_finite: false,
            pause_every: None,
            progress: false,
        }
    }
}

/// What to train, and on what.
///
/// A *step program* takes `params ++ states ++ batch` and answers `[loss | metrics] ++ new states`; an *evaluation program*
/// takes the same and answers `[loss | metrics]`. With a loss scale both take it behind the states, and a step program's loss is
/// multiplied by it. Programs that know weights answer that of the batch as the last scalar. The length of the batch tensors' first axis is the batch size: there is
/// one program for each size that occurs, the one of the short last batch among them.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Step programs; none when batches are fed.
    pub steps: Vec<Arc<Executable>>,
    /// Parameters, which are float tensors.
    pub params: Vec<Value>,
    /// States.
    pub states: Vec<Value>,
    /// Rows to train on, along the first axis; `None` when batches are fed.
    pub data: Option<Vec<Value>>,
    /// What to validate on.
    pub validation: Vec<Validation>,
    /// The optimizer as a program, see [`Optimizer::program`].
    pub update: Option<Arc<Executable>>,
    /// The optimizer's memory from an earlier run, or the one that an update program starts from.
    pub optimizer_state: Option<OptimizerState>,
    /// Where in the first epoch a resumed run goes on; batches that are fed are those that follow.
    pub means: Option<Means>,
    /// Learning rates of the optimizer's steps, the last one of all that follow; empty where they don't depend on the step.
    pub rates: Vec<f64>,
    /// What losses are multiplied by.
    pub loss_scale: Option<LossScale>,
}

/// Rows of one shape to validate on.
#[derive(Clone, Debug)]
pub struct Validation {
    /// Evaluation programs.
    pub programs: Vec<Arc<Executable>>,
    /// Tensors whose first axis is the rows.
    pub rows: Vec<Value>,
}

/// Types of the parameters and the states, which every program takes first.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    params: Vec<TensorType>,
    states: Vec<TensorType>,
    /// The type of the loss scale where programs take it.
    scale: Option<TensorType>,
    gradients: Gradients,
    weighted: bool,
}

/// Rows with a program for each size of batch that they are cut into.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub(super) dataset: Dataset,
    pub(super) programs: BTreeMap<usize, Arc<Executable>>,
}

/// A job that has passed every check.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) signature: Signature,
    pub(super) model: Model,
    pub(super) data: Option<Rows>,
    pub(super) validation: Vec<Rows>,
    pub(super) means: Option<Means>,
    pub(super) rates: Vec<f64>,
}

impl Config {
    fn check(&self) -> Result<()> {
        let Self { epochs, first_epoch, batch_size, learning_rate, .. } = *self;
        expect(epochs > 0, "epochs is 0; it must be at least 1")?;
        expect(first_epoch > 0, "the first epoch is 0; they count from 1")?;
        expect(first_epoch <= epochs, format!("the first epoch is {first_epoch}, but the last one is {epochs}"))?;
        expect(batch_size > 0, "the batch size is 0; it must be at least 1")?;
        expect(self.pause_every != Some(0), "pause_every is 0; it must be at least 1")?;
        expect(self.accumulate > 0, "accumulate is 0; a step takes at least 1 batch")?;
        let off = self.checkpointing == Checkpointing::Off || self.gradients == Gradients::Autodiff;
        expect(off, "checkpointing is of autodiff; programs that answer their gradients have none")?;
        check_learning_rate(learning_rate)?;
        self.clip().check()
    }

    fn clip(&self) -> Clip {
        Clip { value: self.clip_value, norm: self.clip_norm, decay: self.weight_decay }
    }
}

pub(super) fn check_learning_rate(rate: f64) -> Result<()> {
    let good = rate.is_finite() && rate >= 0.0;
    expect(good, format!("the learning rate is {rate}; it must be at least 0 and finite"))
}

impl Job {
    pub(super) fn check(self, config: Config) -> Result<Checked> {
        config.check()?;
        let params: Vec<Value> = self.params.into_iter().map(Value::contiguous).collect();
        let device = device_of(&params);
        expect(!params.is_empty(), "there are no parameters to train")?;
        if let Some((index, param)) = params.iter().enumerate().find(|(_, param)| !param.dtype().is_float()) {
            let reason = format!("parameter {index} is {}; only float parameters can be trained", param.ty());
            return Err(Error::invalid("fit", reason));
        }
        let states = self.states.into_iter().map(|state| state.to_device(&device)).collect::<Result<Vec<_>>>()?;
        self.rates.iter().try_for_each(|&rate| check_learning_rate(rate))?;
        let signature = Signature {
            params: types(&params),
            states: types(&states),
            scale: self.loss_scale.map(|_| Scaling::ty()),
            gradients: config.gradients,
            weighted: config.weighted,
        };
        let rows = |name, tensors, programs: &[_], answers: &[_]| {
            signature.rows(name, tensors, programs, config.batch_size, answers)
        };
        let answers = signature.step_answers();
        let data = self.data.map(|tensors| rows("data", tensors, &self.steps, &answers)).transpose()?;
        let validation = |part: Validation| rows("validation data", part.rows, &part.programs, &[]);
        let validation = self.validation.into_iter().map(validation).collect::<Result<_>>()?;
        let optimizer = optimizer(config.optimizer, self.update, &params, self.optimizer_state)?;
        let model = Model::new(params, states, optimizer, config.clip(), config.accumulate, device)?;
        let model = model.scaled(self.loss_scale)?;
        Ok(Checked { model, data, validation, means: self.means, rates: self.rates, signature })
    }
}

fn optimizer(
    rule: Option<Rule>,
    update: Option<Arc<Executable>>,
    params: &[Value],
    state: Option<OptimizerState>,
) -> Result<Optimizer> {
    match (rule, update) {
        (Some(rule), None) => Optimizer::new(rule, params, state),
        (None, Some(program)) => Optimizer::program(program, params, state.unwrap_or_default()),
        _ => Err(Error::invalid("fit", "there must be an optimizer or an update program, and not both")),
    }
}

impl Signature {
    fn rows(
        &self,
        name: &str,
        tensors: Vec<Value>,
        programs: &[Arc<Executable>],
        batch_size: usize,
        answers: &[TensorType],
    ) -> Result<Rows> {
        let dataset = Dataset::new(name, tensors)?;
        let mut by_size = BTreeMap::new();
        for program in programs {
            let size = self.batch_size(program)?;
            self.check(program, &dataset.batch_types(size), answers)?;
            by_size.insert(size, program.clone());
        }
        let (rows, short) = (dataset.rows(), dataset.rows() % batch_size);
        let whole = (rows >= batch_size).then_some(batch_size);
        for size in whole.into_iter().chain((short > 0).then_some(short)) {
            let reason = format!("there is no program for batches of {size} of the {name}, which has {rows} rows");
            expect(by_size.contains_key(&size), reason)?;
        }
        Ok(Rows { dataset, programs: by_size })
    }

    /// The batch of a run that is fed.
    pub(super) fn fed(&self, program: &Executable, batch: &[Value]) -> Result<usize> {
        let batch = types(batch);
        self.check(program, &batch, &self.step_answers())?;
        leading("batch", &batch)
    }

    /// What a step program answers after the scalars.
    fn step_answers(&self) -> Vec<TensorType> {
        let gradients = match self.gradients {
            Gradients::Autodiff => &[][..],
            Gradients::Program => &self.params,
        };
        [&self.states, gradients].concat()
    }

    /// What programs take before the batch.
    fn before(&self) -> impl Iterator<Item = &TensorType> {
        self.params.iter().chain(&self.states).chain(&self.scale)
    }

    fn batch_size(&self, program: &Executable) -> Result<usize> {
        let batch = program.input_types().get(self.before().count()..).unwrap_or_default();
        leading("batch of a program", batch)
    }

    /// Whether `program` takes what comes before and `batch` and answers scalars and then `more`.
    fn check(&self, program: &Executable, batch: &[TensorType], more: &[TensorType]) -> Result<()> {
        let wanted: Vec<&TensorType> = self.before().chain(batch).collect();
        let taken = program.input_types();
        let reason = format!("a program takes {} inputs, given are {}", taken.len(), wanted.len());
        expect(taken.len() == wanted.len(), reason)?;
        if let Some((expected, got)) = taken.iter().zip(wanted).find(|(taken, wanted)| taken != wanted) {
            return Err(Error::Mismatch { op: "fit".into(), expected: expected.clone(), got: got.clone() });
        }
        check_outputs(&program.program().output_types(), more, self.weighted)
    }
}

fn check_outputs(outputs: &[TensorType], more: &[TensorType], weighted: bool) -> Result<()> {
    let scalars = outputs.len().saturating_sub(more.len());
    let (scalars, rest) = outputs.split_at(scalars);
    let scalar = |ty: &TensorType| ty.shape.is_empty() && (ty.dtype.is_float() || ty.dtype.is_int());
    let loss = scalars.first().is_some_and(|loss| loss.dtype.is_float());
    let enough = scalars.len() > usize::from(weighted);
    if loss && enough && scalars.iter().all(scalar) && rest == more {
        return Ok(());
    }
    let list = |types: &[TensorType]| types.iter().map(|ty| ty.to_string()).collect::<Vec<_>>().join(", ");
    let (got, more) = (list(outputs), list(more));
    Err(Error::invalid(
        "fit",
        format!("a program answers ({got}); it must answer a float scalar, further scalars, then the states ({more})"),
    ))
}

fn types(values: &[Value]) -> Vec<TensorType> {
    values.iter().map(Value::ty).collect()
}

pub(super) fn expect(holds: bool, reason: impl std::fmt::Display) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::invalid("fit", reason)) }
}
