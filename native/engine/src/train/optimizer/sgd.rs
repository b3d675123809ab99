//! Stochastic gradient descent.

use serde::{Deserialize, Serialize};

use super::element::Wide;
use super::sweep::Step;
use super::{expect, expect_decay};
use crate::error::Result;

/// Stochastic gradient descent, as `Polaris.Optimizers.sgd/1`.
///
/// Without momentum: `p <- p - lr * g`. With it the trace `t <- momentum * t + g`, from 0, takes the place of `g`; with
/// `nesterov` `momentum * t + g` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sgd {
    /// Decay of the trace, from 0 up to 1; `None` keeps no trace.
    pub momentum: Option<f64>,
    /// Whether to look one step ahead along the trace.
    pub nesterov: bool,
}

impl Sgd {
    pub(super) fn check(&self) -> Result<()> {
        expect(!self.nesterov || self.momentum.is_some(), "nesterov needs a momentum")?;
        self.momentum.map_or(Ok(()), |decay| expect_decay("momentum", decay))
    }

    pub(super) fn plain(learning_rate: f64) -> Plain {
        Plain { learning_rate }
    }

    pub(super) fn traced(&self, decay: f64, learning_rate: f64) -> Traced {
        Traced { learning_rate, decay, nesterov: self.nesterov }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    learning_rate: f64,
}

impl Step<0> for Plain {
    #[inline(always)]
    fn change<W: Wide>(self, _param: W, gradient: W, []: &mut [W; 0]) -> W {
        gradient * W::of(-self.learning_rate)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Traced {
    learning_rate: f64,
    decay: f64,
    nesterov: bool,
}

impl Step<1> for Traced {
    #[inline(always)]
    fn change<W: Wide>(self, _param: W, gradient: W, [trace]: &mut [W; 1]) -> W {
        let decay = W::of(self.decay);
        *trace = (*trace * decay + gradient).or_zero(W::TINY);
        let direction = if self.nesterov { *trace * decay + gradient } else { *trace };
        direction * W::of(-self.learning_rate)
    }
}
