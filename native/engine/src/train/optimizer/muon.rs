//! Muon.

use serde::{Deserialize, Serialize};

use super::adamw::Adamw;
use super::element::Wide;
use super::sweep::Step;
use super::update::{Update, blend};
use super::{Prepare, expect, expect_decay, expect_positive};
use crate::cpu;
use crate::error::Result;
use crate::types::Type;
use crate::value::Value;

/// Coefficients of the polynomial `a * x + b * x^3 + c * x^5` that brings singular values near 1.
pub(super) const A: f64 = 3.4445;
pub(super) const B: f64 = -4.775;
pub(super) const C: f64 = 2.0315;

/// How long a step of a matrix is beside one of Adam, for each row or column.
const LIKE_ADAM: f64 = 0.2;

/// Muon (Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024,
/// <https://kellerjordan.github.io/posts/muon/>), with steps as long as Adam's (Liu et al., Muon is Scalable for LLM Training,
/// <https://arxiv.org/abs/2502.16982>, equation 4), so that one learning rate does for all parameters.
///
/// A tensor of two or more axes is a matrix `P` of as many columns as its last axis is long. Its trace is
/// `T <- momentum * T + (1 - momentum) * G`, from 0, and `D` is `T`, or with `nesterov` `momentum * T + (1 - momentum) * G`.
/// `O` is near the orthogonal matrix closest to `D`: `D / (|D| + eps)` after `steps` of the Newton-Schulz iteration
/// `X <- 3.4445 X + (-4.775 X X' + 2.0315 (X X')^2) X`. Then `P <- P - lr * (0.2 * sqrt(max(rows, columns)) * O + decay * P)`.
/// Vectors and scalars take [`Adamw`]'s step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Muon {
    /// Decay of the trace, from 0 up to 1.
    pub momentum: f64,
    /// Whether to look one step ahead along the trace.
    pub nesterov: bool,
    /// Newton-Schulz iterations.
    pub steps: usize,
    /// Added to the norm.
    pub eps: f64,
    /// Share of a parameter that goes with each step, times the learning rate.
    pub decay: f64,
    /// [`Adam::b1`](super::Adam::b1) of vectors.
    pub b1: f64,
    /// [`Adam::b2`](super::Adam::b2) of vectors.
    pub b2: f64,
}

impl Default for Muon {
    /// 0.95 with Nesterov's look, 5 iterations, 1e-7, no decay; 0.9 and 0.999 for vectors.
    fn default() -> Self {
        Self { momentum: 0.95, nesterov: true, steps: 5, eps: 1e-7, decay: 0.0, b1: 0.9, b2: 0.999 }
    }
}

impl Muon {
    pub(super) fn check(&self) -> Result<()> {
        expect_decay("momentum", self.momentum)?;
        expect((1..=100).contains(&self.steps), format!("steps is {}; it must be from 1 to 100", self.steps))?;
        expect_positive("eps", self.eps)?;
        self.vectors().check()
    }

    pub(super) fn is_matrix(shape: &[usize]) -> bool {
        shape.len() >= 2
    }

    pub(super) fn vectors(&self) -> Adamw {
        Adamw { b1: self.b1, b2: self.b2, decay: self.decay, ..Adamw::default() }
    }

    pub(super) fn apply(&self, mut update: Update<'_>, count: u64, learning_rate: f64) -> Result<()> {
        if !Self::is_matrix(update.param.shape().as_slice()) {
            return update.run(self.vectors().at(count, learning_rate));
        }
        let direction = update.change(MuonStep { momentum: self.momentum, nesterov: self.nesterov })?;
        let shape = update.param.shape();
        let columns = shape[shape.len() - 1];
        let rows = update.param.len() / columns.max(1);
        let change = self.orthogonal(direction.reshape(&[rows, columns]))?.reshape(&shape).into_own();
        let length = length(rows, columns);
        update.mix(change, 1.0 - learning_rate * self.decay, -learning_rate * length)
    }

    /// Near the orthogonal matrix that is closest to `x`.
    fn orthogonal(&self, x: Value) -> Result<Value> {
        let is_tall = x.shape()[0] > x.shape()[1];
        let turn = |x: Value| if is_tall { x.permute(&[1, 0]).contiguous() } else { x };
        let norm = Prepare::norm(std::slice::from_ref(&x), 1.0, f64::INFINITY)?;
        let given = turn(x);
        let mut x = given.clone();
        blend(&given, &mut x, 1.0 / (norm + self.eps), 0.0)?;
        for _ in 0..self.steps {
            let mut factor = product(&x, &x.clone().permute(&[1, 0]))?;
            let square = product(&factor, &factor)?;
            blend(&square, &mut factor, C, B)?;
            blend(&product(&factor, &x)?, &mut x, 1.0, A)?;
        }
        Ok(turn(x))
    }
}

/// How long a step is of a matrix of this size.
pub(super) fn length(rows: usize, columns: usize) -> f64 {
    LIKE_ADAM * (rows.max(columns) as f64).sqrt()
}

fn product(lhs: &Value, rhs: &Value) -> Result<Value> {
    if lhs.dtype() == Type::F64 { cpu::matmul::<f64>(lhs, rhs) } else { cpu::matmul::<f32>(lhs, rhs) }
}

#[derive(Clone, Copy, Debug)]
struct MuonStep {
    momentum: f64,
    nesterov: bool,
}

impl Step<1> for MuonStep {
    const CHANGE_ONLY: bool = true;

    #[inline(always)]
    fn change<W: Wide>(self, _param: W, gradient: W, [trace]: &mut [W; 1]) -> W {
        let (old, new) = (W::of(self.momentum), W::of(1.0 - self.momentum));
        *trace = (old * *trace + new * gradient).or_zero(W::TINY);
        if self.nesterov { old * *trace + new * gradient } else { *trace }
    }
}
