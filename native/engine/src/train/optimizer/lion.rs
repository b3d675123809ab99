//! Lion.

use serde::{Deserialize, Serialize};

use super::element::Wide;
use super::sweep::Step;
use super::{expect_decay, expect_positive};
use crate::error::Result;

/// Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, <https://arxiv.org/abs/2302.06675>, program 1).
///
/// `p <- p - lr * (sign(b1 * m + (1 - b1) * g) + decay * p)`, then `m <- b2 * m + (1 - b2) * g` from 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lion {
    /// Share of the moment in the sign, from 0 up to 1.
    pub b1: f64,
    /// Decay of the moment, from 0 up to 1.
    pub b2: f64,
    /// Share of a parameter that goes with each step, times the learning rate.
    pub decay: f64,
}

impl Default for Lion {
    /// 0.9, 0.99 and no decay.
    fn default() -> Self {
        Self { b1: 0.9, b2: 0.99, decay: 0.0 }
    }
}

impl Lion {
    pub(super) fn check(&self) -> Result<()> {
        expect_decay("b1", self.b1)?;
        expect_decay("b2", self.b2)?;
        expect_positive("decay", self.decay)
    }

    pub(super) fn at(&self, learning_rate: f64) -> LionStep {
        LionStep { lion: *self, learning_rate }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LionStep {
    lion: Lion,
    learning_rate: f64,
}

impl Step<1> for LionStep {
    #[inline(always)]
    fn change<W: Wide>(self, param: W, gradient: W, [m]: &mut [W; 1]) -> W {
        let Lion { b1, b2, decay } = self.lion;
        let mixed = W::of(b1) * *m + W::of(1.0 - b1) * gradient;
        *m = (W::of(b2) * *m + W::of(1.0 - b2) * gradient).or_zero(W::TINY);
        // Float::signum answers 1 for 0.
        let sign = if mixed == W::zero() { W::zero() } else { mixed.signum() };
        W::of(-self.learning_rate) * (sign + W::of(decay) * param)
    }
}
