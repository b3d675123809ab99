//! How often the progress of an epoch is told.

use std::time::{Duration, Instant};

/// Least time between two reports.
const EVERY: Duration = Duration::from_millis(100);

/// When an epoch started, and its last report.
pub(super) struct Pace {
    started: Instant,
    told: Instant,
    step: usize,
}

impl Pace {
    /// Of an epoch that started at `started`, behind its first `step` steps.
    pub(super) fn new(started: Instant, step: usize) -> Self {
        Self { started, told: started, step }
    }

    /// Whether a report is due after a step: now and then, and after the `last` one, but once for each.
    pub(super) fn due(&mut self, step: usize, last: bool) -> bool {
        let due = if last { self.step != step } else { self.told.elapsed() >= EVERY };
        if due {
            (self.told, self.step) = (Instant::now(), step);
        }
        due
    }

    /// How many of `samples` there were each second.
    pub(super) fn each_second(&self, samples: usize) -> f64 {
        samples as f64 / self.started.elapsed().as_secs_f64()
    }
}
