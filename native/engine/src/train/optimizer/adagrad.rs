//! Adagrad.

use serde::{Deserialize, Serialize};

use super::element::Wide;
use super::expect_positive;
use super::sweep::Step;
use crate::error::Result;

/// Adagrad (Duchi, Hazan and Singer, <https://www.jmlr.org/papers/v12/duchi11a.html>), as `Polaris.Optimizers.adagrad/1`.
///
/// `s <- s + g^2`, and `p <- p - lr * g / sqrt(s + eps)`, or nothing where `s` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adagrad {
    /// Added below the root.
    pub eps: f64,
    /// Where the sum of squares starts.
    pub initial_accumulator_value: f64,
}

impl Default for Adagrad {
    /// Polaris' defaults: 1e-7 and 0.1.
    fn default() -> Self {
        Self { eps: 1e-7, initial_accumulator_value: 0.1 }
    }
}

impl Adagrad {
    pub(super) fn check(&self) -> Result<()> {
        expect_positive("eps", self.eps)?;
        expect_positive("initial_accumulator_value", self.initial_accumulator_value)
    }

    pub(super) fn at(&self, learning_rate: f64) -> AdagradStep {
        AdagradStep { eps: self.eps, learning_rate }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AdagradStep {
    eps: f64,
    learning_rate: f64,
}

impl Step<1> for AdagradStep {
    #[inline(always)]
    fn change<W: Wide>(self, _param: W, gradient: W, [sum]: &mut [W; 1]) -> W {
        *sum = *sum + gradient * gradient;
        let scaled = gradient / (*sum + W::of(self.eps)).sqrt();
        if *sum > W::zero() { scaled * W::of(-self.learning_rate) } else { W::zero() }
    }
}
