//! Running means of a step's scalars: of the loss by the weights of batches, of the metrics by their rows.

use crate::error::{Error, Result};

/// Means of the loss and the metrics over an epoch's batches so far. They say where in the epoch a run stands, too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Means {
    /// Of the loss, weighted as its batch, and of each metric, weighted by the batch's rows.
    pub sums: Vec<f64>,
    /// The weights of the batches.
    pub weight: f64,
    /// Rows seen.
    pub samples: usize,
    /// Batches that count.
    pub batches: usize,
    /// Batches left out.
    pub skipped: usize,
}

impl Means {
    /// Adds the scalars of a batch of `rows` rows: the loss, which counts `weight` times, then the metrics.
    pub(super) fn add(&mut self, rows: usize, weight: f64, scalars: &[f64]) -> Result<()> {
        if self.batches == 0 {
            self.sums = vec![0.0; scalars.len()];
        }
        if self.sums.len() != scalars.len() {
            let (before, now) = (self.sums.len(), scalars.len());
            let reason = format!("a program answers a loss and {} metrics, one before {}", now - 1, before - 1);
            return Err(Error::invalid("fit", reason));
        }
        let times = [weight].into_iter().chain(std::iter::repeat(rows as f64));
        self.sums.iter_mut().zip(scalars).zip(times).for_each(|((sum, scalar), times)| *sum += scalar * times);
        self.weight += weight;
        self.samples += rows;
        self.batches += 1;
        Ok(())
    }

    /// Counts a batch that was left out.
    pub(super) fn skip(&mut self) {
        self.skipped += 1;
    }

    /// Batches left out.
    pub(super) fn skipped(&self) -> usize {
        self.skipped
    }

    pub(super) fn samples(&self) -> usize {
        self.samples
    }

    pub(super) fn batches(&self) -> usize {
        self.batches
    }

    /// Batches that the epoch is past.
    pub(super) fn done(&self) -> usize {
        self.batches + self.skipped
    }

    /// The mean loss and the mean metrics; the loss is NaN when nothing was added, and 0 when no row has a weight.
    pub(super) fn split(&self) -> (f64, Vec<f64>) {
        let mean = |sum: &f64| sum / self.samples as f64;
        match self.sums.split_first() {
            Some((_, metrics)) if self.weight == 0.0 => (0.0, metrics.iter().map(mean).collect()),
            Some((loss, metrics)) => (loss / self.weight, metrics.iter().map(mean).collect()),
            None => (f64::NAN, vec![]),
        }
    }
}
