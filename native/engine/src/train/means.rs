//! Running means of a step's scalars, weighted by batch size.

use crate::error::{Error, Result};

/// Means of the loss and the metrics over an epoch's batches so far. They say where in the epoch a run stands, too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Means {
    /// Of the loss and of each metric, each weighted by the rows of its batch.
    pub sums: Vec<f64>,
    /// Rows seen.
    pub samples: usize,
    /// Batches that count.
    pub batches: usize,
    /// Batches left out.
    pub skipped: usize,
}

impl Means {
    /// Adds the scalars of a batch of `rows` rows: the loss, then the metrics.
    pub(super) fn add(&mut self, rows: usize, scalars: &[f64]) -> Result<()> {
        if self.batches == 0 {
            self.sums = vec![0.0; scalars.len()];
        }
        if self.sums.len() != scalars.len() {
            let (before, now) = (self.sums.len(), scalars.len());
            let reason = format!("a program answers a loss and {} metrics, one before {}", now - 1, before - 1);
            return Err(Error::invalid("fit", reason));
        }
        self.sums.iter_mut().zip(scalars).for_each(|(sum, scalar)| *sum += scalar * rows as f64);
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

    /// The mean loss and the mean metrics; the loss is NaN when nothing was added.
    pub(super) fn split(&self) -> (f64, Vec<f64>) {
        let mean = |sum: &f64| sum / self.samples as f64;
        match self.sums.split_first() {
            Some((loss, metrics)) => (mean(loss), metrics.iter().map(mean).collect()),
            None => (f64::NAN, vec![]),
        }
    }
}
