//! LAMB.

use serde::{Deserialize, Serialize};

use super::adam::{Adam, AdamStep};
use super::element::Wide;
use super::expect_positive;
use super::sweep::Step;
use super::update::Update;
use crate::error::Result;
use crate::train::Prepare;

/// LAMB (You et al., Large Batch Optimization for Deep Learning, <https://arxiv.org/abs/1904.00962>), as
/// `Polaris.Optimizers.lamb/1`.
///
/// With `u` what [`Adam`] divides by the learning rate, plus `decay * p`: `p <- p - lr * u * |p| / |u|`, where the norms are
/// Euclidean, of the whole tensor and at least `min_norm`; `p <- p - lr * u` when one of them is 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lamb {
    /// As [`Adam::b1`].
    pub b1: f64,
    /// As [`Adam::b2`].
    pub b2: f64,
    /// As [`Adam::eps`].
    pub eps: f64,
    /// As [`Adam::eps_root`].
    pub eps_root: f64,
    /// Share of a parameter that joins its step.
    pub decay: f64,
    /// Smaller norms count as this.
    pub min_norm: f64,
}

impl Default for Lamb {
    /// Adam's defaults, no decay, any norm.
    fn default() -> Self {
        let Adam { b1, b2, eps, eps_root } = Adam::default();
        Self { b1, b2, eps, eps_root, decay: 0.0, min_norm: 0.0 }
    }
}

impl Lamb {
    pub(super) fn adam(&self) -> Adam {
        Adam { b1: self.b1, b2: self.b2, eps: self.eps, eps_root: self.eps_root }
    }

    pub(super) fn check(&self) -> Result<()> {
        self.adam().check()?;
        expect_positive("decay", self.decay)?;
        expect_positive("min_norm", self.min_norm)
    }

    pub(super) fn apply(&self, mut update: Update<'_>, count: u64, learning_rate: f64) -> Result<()> {
        let changes = update.change(LambStep { adam: self.adam().at(count, -1.0), decay: self.decay })?;
        let norm = |value: &_| Ok(Prepare::norm(std::slice::from_ref(value), 1.0, f64::INFINITY)?.max(self.min_norm));
        let (param, change) = (norm(update.param)?, norm(&changes)?);
        let trust = if param == 0.0 || change == 0.0 { 1.0 } else { param / change };
        update.mix(changes, 1.0, -learning_rate * trust)
    }
}

#[derive(Clone, Copy, Debug)]
struct LambStep {
    adam: AdamStep,
    decay: f64,
}

impl Step<2> for LambStep {
    const CHANGE_ONLY: bool = true;

    #[inline(always)]
    fn change<W: Wide>(self, param: W, gradient: W, moments: &mut [W; 2]) -> W {
        self.adam.change(param, gradient, moments) + W::of(self.decay) * param
    }
}
