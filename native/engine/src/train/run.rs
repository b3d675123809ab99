//! The loop: epochs of steps, validation, and the talk with the owner between epochs.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::control::{Answer, Batch, Control, DEPTH, Next};
use super::data::order;
use super::event::{Ending, EpochReport, Event, Observer, Progress};
use super::finite::Seen;
use super::job::{Config, Rows};
use super::means::Means;
use super::model::Model;
use super::pace::Pace;
use super::passes::Passes;
use super::step::Place;
use crate::error::{Error, Result};

/// Everything the thread needs.
pub(super) struct Run<O> {
    pub(super) config: Config,
    pub(super) model: Arc<Mutex<Model>>,
    pub(super) control: Arc<Control>,
    pub(super) data: Option<Rows>,
    pub(super) validation: Vec<Rows>,
    /// Where in the first epoch a resumed run goes on.
    pub(super) means: Option<Means>,
    /// Learning rates of the optimizer's steps, if they depend on these.
    pub(super) rates: Vec<f64>,
    pub(super) observer: O,
    pub(super) passes: Passes,
    /// The batch of the last step.
    pub(super) last: Option<Batch>,
}

/// The batches of one epoch.
enum Batches {
    Memory { order: Vec<i64>, at: usize },
    Fed,
}

impl<O: Observer> Run<O> {
    /// Runs all epochs.
    pub(super) fn epochs(&mut self) -> Result<Ending> {
        for epoch in self.config.first_epoch..=self.config.epochs {
            let Some(report) = self.epoch(epoch)? else { return Ok(Ending::Stopped) };
            if let Some(ending) = self.ask(Event::Epoch(report)) {
                return Ok(ending);
            }
        }
        Ok(Ending::Finished)
    }

    /// Tells the owner something and waits for the answer, which may end the run.
    fn ask(&mut self, event: Event) -> Option<Ending> {
        self.control.expect_answer();
        self.observer.event(event);
        match self.control.wait_answer() {
            Some(Answer::Continue) => None,
            Some(Answer::LearningRate(rate)) => {
                self.config.learning_rate = rate;
                None
            }
            Some(Answer::Halt) => Some(Ending::Halted),
            None => Some(Ending::Stopped),
        }
    }

    /// `None` when stopped.
    fn epoch(&mut self, epoch: usize) -> Result<Option<EpochReport>> {
        let started = Instant::now();
        let Some(means) = self.steps(epoch, started)? else { return Ok(None) };
        let Some(validation) = self.validate()? else { return Ok(None) };
        let (loss, metrics) = means.split();
        let updates = self.updates();
        Ok(Some(EpochReport {
            epoch,
            loss,
            metrics,
            validation: (!self.validation.is_empty()).then(|| validation.split()),
            learning_rate: self.rate_of(updates.saturating_sub(1)),
            updates,
            seconds: started.elapsed().as_secs_f64(),
            steps: means.batches(),
            samples: means.samples(),
            skipped: means.skipped(),
        }))
    }

    /// Means over the steps of an epoch; `None` when stopped.
    fn steps(&mut self, epoch: usize, started: Instant) -> Result<Option<Means>> {
        let mut means = self.means.take().unwrap_or_default();
        let mut pace = Pace::new(started, means.done());
        let mut due = false;
        let mut batches = self.batches(epoch, means.done());
        loop {
            let place = Place { epoch, step: means.done() + 1 };
            match self.next(&mut batches)? {
                Next::Batch(batch) => {
                    self.take(batch, place, &mut means)?;
                    self.tell_progress(epoch, &means, &mut pace, false);
                    if self.pauses(place, &mut due) {
                        self.expect_finite(place)?;
                        if self.ask(Event::Pause { epoch, means: means.clone() }).is_some() {
                            return Ok(None);
                        }
                    }
                }
                Next::End if means.batches() > 0 => {
                    self.tell_progress(epoch, &means, &mut pace, true);
                    let rate = self.rate();
                    self.model.lock().step(rate)?;
                    self.expect_finite(Place { epoch, step: means.done() })?;
                    return Ok(Some(means));
                }
                Next::End if means.skipped() > 0 => {
                    let last = Place { epoch, step: means.done() };
                    return Err(last.non_finite("loss or gradient of every batch", None, f64::NAN));
                }
                Next::End => {
                    return Err(Error::invalid("fit", format!("epoch {epoch} got no batches; feed at least one")));
                }
                Next::Stopped => return Ok(None),
            }
        }
    }

    /// Whether to pause behind the batch at `place`; `due` says whether that was put off.
    fn pauses(&self, place: Place, due: &mut bool) -> bool {
        *due |= self.config.pause_every.is_some_and(|every| place.step.is_multiple_of(every));
        let now = *due && self.model.lock().settled();
        *due &= !now;
        now
    }

    /// Means over the validation rows; `None` when stopped.
    fn validate(&self) -> Result<Option<Means>> {
        let mut means = Means::default();
        for part in &self.validation {
            for batch in order(part.dataset.rows(), None, 0).chunks(self.config.batch_size) {
                if self.control.stopped() {
                    return Ok(None);
                }
                self.evaluate(part.batch(batch)?, &mut means)?;
            }
        }
        Ok(Some(means))
    }

    /// Adds the scalars of a batch to `means`.
    fn evaluate(&self, batch: Batch, means: &mut Means) -> Result<()> {
        let Batch { executable, tensors, rows } = batch;
        let inputs = self.inputs(tensors)?;
        let device = self.model.lock().device().clone();
        let (mut scalars, _) = Seen::start(executable.run(inputs, &device)?, &[])?.wait(&[])?;
        let weight = self.weight(&mut scalars, rows);
        means.add(rows, weight, &scalars)
    }

    /// Those of an epoch behind the first `done`.
    fn batches(&mut self, epoch: usize, done: usize) -> Batches {
        match &self.data {
            Some(rows) => {
                let seed = self.config.shuffle.then_some(self.config.seed);
                let at = rows.dataset.rows().min(done * self.config.batch_size);
                Batches::Memory { order: order(rows.dataset.rows(), seed, epoch), at }
            }
            None => {
                self.control.open_feed();
                self.observer.event(Event::WantBatches(DEPTH));
                Batches::Fed
            }
        }
    }

    fn next(&mut self, batches: &mut Batches) -> Result<Next> {
        match (batches, &self.data) {
            (Batches::Memory { order, at }, Some(rows)) => {
                if self.control.stopped() {
                    return Ok(Next::Stopped);
                }
                let Some(batch) = order[*at..].chunks(self.config.batch_size).next() else { return Ok(Next::End) };
                *at += batch.len();
                rows.batch(batch).map(Next::Batch)
            }
            _ => {
                let next = self.control.wait_batch();
                if matches!(next, Next::Batch(_)) && self.control.feeding() {
                    self.observer.event(Event::WantBatches(1));
                }
                Ok(next)
            }
        }
    }

    /// Tells where `epoch` stands if that is due.
    fn tell_progress(&mut self, epoch: usize, means: &Means, pace: &mut Pace, last: bool) {
        let step = means.done();
        if !self.config.progress || !pace.due(step, last) {
            return;
        }
        let steps = self.data.as_ref().map(|rows| rows.dataset.rows().div_ceil(self.config.batch_size));
        let (loss, metrics) = means.split();
        let samples_per_second = pace.each_second(means.samples());
        self.observer.event(Event::Progress(Progress { epoch, step, steps, loss, metrics, samples_per_second }));
    }
}
