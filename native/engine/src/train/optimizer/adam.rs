//! Adam.

use serde::{Deserialize, Serialize};

use super::element::Wide;
use super::sweep::Step;
use super::{expect_decay, expect_positive};
use crate::error::Result;

/// Adam (Kingma and Ba, <https://arxiv.org/abs/1412.6980>), as `Polaris.Optimizers.adam/1`.
///
/// At step `t`, from 1: `m <- b1 * m + (1 - b1) * g`, `v <- b2 * v + (1 - b2) * g^2`, both from 0, and
/// `p <- p - lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t) + eps_root) + eps)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adam {
    /// Decay of the mean of gradients, from 0 up to 1.
    pub b1: f64,
    /// Decay of the mean of squared gradients, from 0 up to 1.
    pub b2: f64,
    /// Added to the root.
    pub eps: f64,
    /// Added below the root.
    pub eps_root: f64,
}

impl Default for Adam {
    /// Polaris' defaults: 0.9, 0.999, 1e-8 and 1e-15.
    fn default() -> Self {
        Self { b1: 0.9, b2: 0.999, eps: 1e-8, eps_root: 1e-15 }
    }
}

impl Adam {
    pub(super) fn check(&self) -> Result<()> {
        expect_decay("b1", self.b1)?;
        expect_decay("b2", self.b2)?;
        expect_positive("eps", self.eps)?;
        expect_positive("eps_root", self.eps_root)
    }

    pub(super) fn at(&self, count: u64, learning_rate: f64) -> AdamStep {
        let correction = |decay: f64| 1.0 - decay.powf(count as f64);
        AdamStep { adam: *self, scale: -learning_rate / correction(self.b1), v_scale: 1.0 / correction(self.b2) }
    }
}

/// One step: the constants of all elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdamStep {
    adam: Adam,
    scale: f64,
    v_scale: f64,
}

impl Step<2> for AdamStep {
    #[inline(always)]
    fn change<W: Wide>(self, _param: W, gradient: W, [m, v]: &mut [W; 2]) -> W {
        let Adam { b1, b2, eps, eps_root } = self.adam;
        let squared = gradient.or_zero(W::TINY_ROOT).powi(2);
        *m = (W::of(1.0 - b1) * gradient + W::of(b1) * *m).or_zero(W::TINY);
        *v = (W::of(1.0 - b2) * squared + W::of(b2) * *v).or_zero(W::min_positive_value());
        let root = (*v * W::of(self.v_scale) + W::of(eps_root)).sqrt();
        W::of(self.scale) * *m / (root + W::of(eps))
    }
}
