//! RMSProp.

use serde::{Deserialize, Serialize};

use super::element::Wide;
use super::sweep::Step;
use super::update::Update;
use super::{expect, expect_decay, expect_positive};
use crate::error::Result;

/// RMSProp (Tieleman and Hinton, Neural Networks for Machine Learning, lecture 6.5), as `Polaris.Optimizers.rmsprop/1`.
///
/// `v <- decay * v + (1 - decay) * g^2` and `u = -lr * g / sqrt(v + eps)`. When `centered`, the square of
/// `m <- decay * m + (1 - decay) * g` is taken from `v` below the root. With momentum the trace `t <- momentum * t + u`, from
/// 0, is the step; with `nesterov` `momentum * t + u` is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rmsprop {
    /// Decay of the means, from 0 up to 1.
    pub decay: f64,
    /// Added below the root.
    pub eps: f64,
    /// Where the mean of squares starts.
    pub initial_scale: f64,
    /// Whether the variance takes the place of the mean of squares.
    pub centered: bool,
    /// Decay of the trace, from 0 up to 1; `None` keeps no trace.
    pub momentum: Option<f64>,
    /// Whether to look one step ahead along the trace.
    pub nesterov: bool,
}

impl Default for Rmsprop {
    /// Polaris' defaults: 0.9, 1e-8, from 0, neither centered nor with momentum.
    fn default() -> Self {
        Self { decay: 0.9, eps: 1e-8, initial_scale: 0.0, centered: false, momentum: None, nesterov: false }
    }
}

impl Rmsprop {
    pub(super) fn check(&self) -> Result<()> {
        expect_decay("decay", self.decay)?;
        expect_positive("eps", self.eps)?;
        expect_positive("initial_scale", self.initial_scale)?;
        expect(!self.nesterov || self.momentum.is_some(), "nesterov needs a momentum")?;
        self.momentum.map_or(Ok(()), |decay| expect_decay("momentum", decay))
    }

    /// The mean of squares, then what is centered, then the trace.
    pub(super) fn moments(&self) -> Vec<f64> {
        let more = usize::from(self.centered) + usize::from(self.momentum.is_some());
        [vec![self.initial_scale], vec![0.0; more]].concat()
    }

    pub(super) fn apply(&self, update: Update<'_>, learning_rate: f64) -> Result<()> {
        let step = RmspropStep { rmsprop: *self, learning_rate };
        match update.moments.len() {
            1 => update.run::<_, 1>(step),
            2 => update.run::<_, 2>(step),
            _ => update.run::<_, 3>(step),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct RmspropStep {
    rmsprop: Rmsprop,
    learning_rate: f64,
}

impl<const N: usize> Step<N> for RmspropStep {
    #[inline(always)]
    fn change<W: Wide>(self, _param: W, gradient: W, moments: &mut [W; N]) -> W {
        let Rmsprop { decay, eps, centered, momentum, nesterov, .. } = self.rmsprop;
        let mean = |of: W, old: W| W::of(1.0 - decay) * of + W::of(decay) * old;
        moments[0] = mean(gradient.or_zero(W::TINY_ROOT).powi(2), moments[0]).or_zero(W::min_positive_value());
        let mut square = moments[0];
        if centered {
            moments[1] = mean(gradient, moments[1]).or_zero(W::TINY);
            square = square - moments[1] * moments[1];
        }
        let change = gradient / (square + W::of(eps)).sqrt() * W::of(-self.learning_rate);
        let Some(momentum) = momentum.map(W::of) else { return change };
        let trace = &mut moments[N - 1];
        *trace = (*trace * momentum + change).or_zero(W::min_positive_value());
        if nesterov { *trace * momentum + change } else { *trace }
    }
}
