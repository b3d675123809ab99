//! What a run tells its owner.

use super::means::Means;
use crate::error::Error;

/// Told by a run, from its thread.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Where the epoch stands.
    Progress(Progress),
    /// An epoch is over; the run waits for an [`Answer`](super::Answer).
    Epoch(EpochReport),
    /// Within an epoch, see [`Config::pause_every`](super::Config); the run waits for an [`Answer`](super::Answer).
    Pause {
        /// Epoch, from 1.
        epoch: usize,
        /// What makes a later run go on from here.
        means: Means,
    },
    /// A program calls the host's function of this number; the run waits for the
    /// [results](super::Session::resume) of the [arguments](super::Session::arguments).
    Call(u64),
    /// The owner may feed so many batches more in this epoch.
    WantBatches(usize),
    /// The run is over. Nothing follows.
    Done(Ending),
    /// The run is over because of an error. Nothing follows.
    Failed(Error),
}

/// Means over the steps of an epoch so far, weighted by batch size.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Epoch, from 1.
    pub epoch: usize,
    /// Step within the epoch, from 1.
    pub step: usize,
    /// Steps of the epoch, when that is known.
    pub steps: Option<usize>,
    /// Mean loss.
    pub loss: f64,
    /// Mean of each metric.
    pub metrics: Vec<f64>,
    /// Rows seen each second.
    pub samples_per_second: f64,
}

/// Means over an epoch: of the loss by the weights of batches, of the metrics by their rows.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochReport {
    /// Epoch, from 1.
    pub epoch: usize,
    /// Mean loss.
    pub loss: f64,
    /// Mean of each metric.
    pub metrics: Vec<f64>,
    /// Mean loss and metrics over the validation rows.
    pub validation: Option<(f64, Vec<f64>)>,
    /// Learning rate of the last step.
    pub learning_rate: f64,
    /// Steps of the optimizer since its memory began.
    pub updates: u64,
    /// Duration, validation included.
    pub seconds: f64,
    /// Batches that count.
    pub steps: usize,
    /// Rows seen.
    pub samples: usize,
    /// Batches left out because their loss or gradient was not finite.
    pub skipped: usize,
}

/// Why a run ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// After its last epoch.
    Finished,
    /// An answer said so.
    Halted,
    /// It was stopped.
    Stopped,
}

/// Hears the events of a run, on the run's thread.
pub trait Observer: Send + 'static {
    /// Takes one event; the run goes on when this returns.
    fn event(&mut self, event: Event);
}

impl<F: FnMut(Event) + Send + 'static> Observer for F {
    fn event(&mut self, event: Event) {
        self(event);
    }
}
