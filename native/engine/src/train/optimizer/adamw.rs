//! Adam with decoupled weight decay.

use serde::{Deserialize, Serialize};

use super::adam::AdamStep;
use super::element::Wide;
use super::sweep::Step;
use super::{Adam, expect_positive};
use crate::error::Result;

/// AdamW (Loshchilov and Hutter, <https://arxiv.org/abs/1711.05101>), as `Polaris.Optimizers.adamw/1`.
///
/// [`Adam`]'s step and `-lr * decay * p` besides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adamw {
    /// As [`Adam::b1`].
    pub b1: f64,
    /// As [`Adam::b2`].
    pub b2: f64,
    /// As [`Adam::eps`].
    pub eps: f64,
    /// As [`Adam::eps_root`].
    pub eps_root: f64,
    /// Share of a parameter that goes with each step, times the learning rate.
    pub decay: f64,
}

impl Default for Adamw {
    /// Adam's defaults and a decay of 0.01.
    fn default() -> Self {
        let Adam { b1, b2, eps, eps_root } = Adam::default();
        Self { b1, b2, eps, eps_root, decay: 0.01 }
    }
}

impl Adamw {
    pub(super) fn adam(&self) -> Adam {
        Adam { b1: self.b1, b2: self.b2, eps: self.eps, eps_root: self.eps_root }
    }

    pub(super) fn check(&self) -> Result<()> {
        self.adam().check()?;
        expect_positive("decay", self.decay)
    }

    pub(super) fn at(&self, count: u64, learning_rate: f64) -> AdamwStep {
        AdamwStep { adam: self.adam().at(count, learning_rate), decay: -learning_rate * self.decay }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AdamwStep {
    adam: AdamStep,
    decay: f64,
}

impl Step<2> for AdamwStep {
    #[inline(always)]
    fn change<W: Wide>(self, param: W, gradient: W, moments: &mut [W; 2]) -> W {
        self.adam.change(param, gradient, moments) + W::of(self.decay) * param
    }
}
