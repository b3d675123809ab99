//! The terms of training: jobs in, events out.

use std::sync::Arc;

use ex_burn_engine::train::{Ending, EpochReport, Event, Job, LossScale, Means, OptimizerState, Progress, Validation};
use ex_burn_engine::{Result, Value, exec};
use rustler::{Encoder, Env, NifMap, NifTaggedEnum, NifUnitEnum, ResourceArc, Term};

use super::OP;
use crate::error::NifError;
use crate::list::List;
use crate::program::Executable;
use crate::tensor::{Tensors, values};

rustler::atoms! { infinity, nan, neg_infinity }

#[derive(NifMap)]
#[rustler(decode)]
pub(super) struct JobTerm {
    steps: List<ResourceArc<Executable>>,
    params: Tensors,
    states: Tensors,
    data: Option<Tensors>,
    validation: List<(List<ResourceArc<Executable>>, Tensors)>,
    update: Option<ResourceArc<Executable>>,
    optimizer_state: Option<(u64, List<Tensors>)>,
    means: Option<MeansTerm>,
    rates: Vec<f64>,
    loss_scale: Option<(f64, u64, Option<u64>)>,
}

/// The sums by their bits, which Erlang's floats can't hold all of.
#[derive(NifMap)]
pub(super) struct MeansTerm {
    sums: Vec<u64>,
    weight: u64,
    samples: usize,
    batches: usize,
    skipped: usize,
}

impl From<MeansTerm> for Means {
    fn from(MeansTerm { sums, weight, samples, batches, skipped }: MeansTerm) -> Self {
        let sums = sums.into_iter().map(f64::from_bits).collect();
        Self { sums, weight: f64::from_bits(weight), samples, batches, skipped }
    }
}

impl From<Means> for MeansTerm {
    fn from(Means { sums, weight, samples, batches, skipped }: Means) -> Self {
        let sums = sums.into_iter().map(f64::to_bits).collect();
        Self { sums, weight: weight.to_bits(), samples, batches, skipped }
    }
}

impl JobTerm {
    pub(super) fn job(self) -> Result<Job> {
        let validation = |(programs, rows): &(List<_>, Tensors)| {
            Ok(Validation { programs: executables(programs), rows: values(OP, rows)? })
        };
        let state = |(count, slots): (u64, List<Tensors>)| {
            let slots = slots.iter().map(|slot| values(OP, slot)).collect::<Result<Vec<Vec<Value>>>>()?;
            Ok(OptimizerState { count, slots })
        };
        Ok(Job {
            steps: executables(&self.steps),
            params: values(OP, &self.params)?,
            states: values(OP, &self.states)?,
            data: self.data.map(|tensors| values(OP, &tensors)).transpose()?,
            validation: self.validation.iter().map(validation).collect::<Result<_>>()?,
            update: self.update.map(|program| program.0.clone()),
            optimizer_state: self.optimizer_state.map(state).transpose()?,
            means: self.means.map(Means::from),
            rates: self.rates,
            loss_scale: self.loss_scale.map(|(factor, good, interval)| LossScale { factor, good, interval }),
        })
    }
}

fn executables(resources: &[ResourceArc<Executable>]) -> Vec<Arc<exec::Executable>> {
    resources.iter().map(|resource| resource.0.clone()).collect()
}

#[derive(NifTaggedEnum)]
#[rustler(encode)]
pub(super) enum EventTerm {
    Progress(ProgressTerm),
    Epoch(EpochTerm),
    Pause(PauseTerm),
    Call(u64),
    WantBatches(usize),
    Done(EndingTerm),
    Failed(NifError),
}

#[derive(NifMap)]
#[rustler(encode)]
pub(super) struct ProgressTerm {
    epoch: usize,
    step: usize,
    steps: Option<usize>,
    loss: Number,
    metrics: Vec<Number>,
    samples_per_second: Number,
}

#[derive(NifMap)]
#[rustler(encode)]
pub(super) struct EpochTerm {
    epoch: usize,
    loss: Number,
    metrics: Vec<Number>,
    val_loss: Option<Number>,
    val_metrics: Option<Vec<Number>>,
    learning_rate: Number,
    updates: u64,
    seconds: Number,
    steps: usize,
    samples: usize,
    skipped: usize,
}

#[derive(NifMap)]
#[rustler(encode)]
pub(super) struct PauseTerm {
    epoch: usize,
    means: MeansTerm,
}

#[derive(NifUnitEnum)]
#[rustler(encode)]
pub(super) enum EndingTerm {
    Finished,
    Halted,
    Stopped,
}

/// A float, or the atom that Nx gives to what Erlang's floats can't hold.
pub(super) struct Number(f64);

impl Encoder for Number {
    fn encode<'a>(&self, env: Env<'a>) -> Term<'a> {
        match self.0 {
            x if x.is_finite() => x.encode(env),
            x if x.is_nan() => nan().encode(env),
            x if x > 0.0 => infinity().encode(env),
            _ => neg_infinity().encode(env),
        }
    }
}

fn numbers(list: Vec<f64>) -> Vec<Number> {
    list.into_iter().map(Number).collect()
}

impl From<Event> for EventTerm {
    fn from(event: Event) -> Self {
        match event {
            Event::Progress(progress) => EventTerm::Progress(progress.into()),
            Event::Epoch(report) => EventTerm::Epoch(report.into()),
            Event::Pause { epoch, means } => EventTerm::Pause(PauseTerm { epoch, means: means.into() }),
            Event::Call(id) => EventTerm::Call(id),
            Event::WantBatches(count) => EventTerm::WantBatches(count),
            Event::Done(ending) => EventTerm::Done(ending.into()),
            Event::Failed(error) => EventTerm::Failed(error.into()),
        }
    }
}

impl From<Ending> for EndingTerm {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Finished => EndingTerm::Finished,
            Ending::Halted => EndingTerm::Halted,
            Ending::Stopped => EndingTerm::Stopped,
        }
    }
}

impl From<Progress> for ProgressTerm {
    fn from(progress: Progress) -> Self {
        let Progress { epoch, step, steps, loss, metrics, samples_per_second } = progress;
        let (loss, metrics) = (Number(loss), numbers(metrics));
        Self { epoch, step, steps, loss, metrics, samples_per_second: Number(samples_per_second) }
    }
}

impl From<EpochReport> for EpochTerm {
    fn from(report: EpochReport) -> Self {
        let (val_loss, val_metrics) = report.validation.unzip();
        Self {
            epoch: report.epoch,
            loss: Number(report.loss),
            metrics: numbers(report.metrics),
            val_loss: val_loss.map(Number),
            val_metrics: val_metrics.map(numbers),
            learning_rate: Number(report.learning_rate),
            updates: report.updates,
            seconds: Number(report.seconds),
            steps: report.steps,
            samples: report.samples,
            skipped: report.skipped,
        }
    }
}
