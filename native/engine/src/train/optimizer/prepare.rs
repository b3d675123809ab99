//! What is done to gradients before an optimizer sees them.

use num_traits::ToPrimitive;
use rayon::prelude::*;

use super::element::{Element, Wide};
use super::sweep::GRAIN;
use super::update::unsupported;
use super::{expect, expect_positive};
use crate::cpu::vectorized;
use crate::error::Result;
use crate::types::Type;
use crate::value::Value;

/// Sums that are kept side by side.
const LANES: usize = 16;

/// 2^-540: no square of a number that is so much smaller is infinite, nor are many of them.
const LESS: f64 = f64::from_bits((1023 - 540) << 52);

/// A factor from which on `f32` holds all of its digits, and its products with what is not tiny.
pub(super) const SMALL: f64 = 1e-30;

/// How gradients are kept small, and parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clip {
    /// No element is further from 0 than this.
    pub value: Option<f64>,
    /// The Euclidean norm of all gradients together is at most this.
    pub norm: Option<f64>,
    /// So much of each parameter is added to its gradient.
    pub decay: f64,
}

/// How the gradients of one step are prepared: `clamp(g * scale, -limit, limit) * shrink + decay * p`, where
/// `shrink` is two factors, as one may be too small for the type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prepare {
    scale: f64,
    limit: f64,
    shrink: [f64; 2],
    decay: f64,
}

impl Default for Prepare {
    /// Gradients as they are.
    fn default() -> Self {
        Self { scale: 1.0, limit: f64::INFINITY, shrink: [1.0; 2], decay: 0.0 }
    }
}

impl Clip {
    /// Refuses numbers that make no sense.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid) names the number.
    pub fn check(&self) -> Result<()> {
        for (name, bound) in [("clip_value", self.value), ("clip_norm", self.norm)] {
            let good = bound.is_none_or(|bound| bound.is_finite() && bound > 0.0);
            expect(good, format!("{name} is {}; it must be above 0", bound.unwrap_or_default()))?;
        }
        expect_positive("weight_decay", self.decay)
    }
}

impl Prepare {
    /// For gradients that count `scale` times: elements are clipped first, then the norm, then parameters decay.
    ///
    /// ```
    /// use ex_burn_engine::train::{Clip, Prepare};
    /// use ex_burn_engine::{Device, TensorType, Type, Value};
    ///
    /// let gradient = Value::full(&TensorType::new(Type::F32, [4]), 1.0, &Device::Cpu)?;
    /// assert_eq!(Prepare::norm(&[gradient.clone()], 1.0, f64::INFINITY)?, 2.0);
    /// let clip = Clip { norm: Some(4.0), ..Clip::default() };
    /// assert_eq!(Prepare::new(clip, 1.0, &[gradient])?, Prepare::default());
    /// # Ok::<(), ex_burn_engine::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`](crate::Error::Unsupported) when a gradient is not of floats in CPU memory.
    pub fn new(clip: Clip, scale: f64, gradients: &[Value]) -> Result<Self> {
        let limit = clip.value.unwrap_or(f64::INFINITY);
        let shrink = match clip.norm {
            Some(bound) => Self::shrink(bound, gradients, scale, limit)?,
            None => [1.0; 2],
        };
        Ok(Self { scale, limit, shrink, decay: clip.decay })
    }

    /// The Euclidean norm of `clamp(g * scale, -limit, limit)` over all `gradients`.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn norm(gradients: &[Value], scale: f64, limit: f64) -> Result<f64> {
        let sum = Self::squares(gradients, scale, limit)?;
        if sum.is_finite() {
            return Ok(sum.sqrt());
        }
        // Squares of what `f64` holds may be more than that.
        Ok(Self::squares(gradients, scale * LESS, limit * LESS)?.sqrt() / LESS)
    }

    /// Two factors whose product is `bound` over the norm, where that is more.
    fn shrink(bound: f64, gradients: &[Value], scale: f64, limit: f64) -> Result<[f64; 2]> {
        let norm = Self::norm(gradients, scale, limit)?;
        if norm <= bound {
            return Ok([1.0; 2]);
        }
        if norm * SMALL < bound {
            return Ok([bound / norm, 1.0]);
        }
        let root = if norm.is_finite() {
            norm.sqrt()
        } else {
            Self::norm(gradients, scale * LESS, limit * LESS)?.sqrt() / LESS.sqrt()
        };
        Ok([bound.sqrt() / root; 2])
    }

    fn squares(gradients: &[Value], scale: f64, limit: f64) -> Result<f64> {
        let squares = |value: &Value| {
            let sum = match value.dtype() {
                Type::F32 => squares::<f32>(value, scale, limit),
                Type::F64 => squares::<f64>(value, scale, limit),
                Type::F16 => squares::<half::f16>(value, scale, limit),
                Type::BF16 => squares::<half::bf16>(value, scale, limit),
                _ => None,
            };
            sum.ok_or_else(|| unsupported(value))
        };
        gradients.iter().map(squares).sum()
    }

    /// This, unless it changes nothing.
    pub(super) fn active(&self) -> Option<Self> {
        (*self != Self::default()).then_some(*self)
    }

    /// Prepares `gradients` where they are.
    pub(super) fn all(&self, params: &[Value], gradients: &mut [Value]) -> Result<()> {
        for (param, gradient) in params.iter().zip(gradients) {
            *gradient = std::mem::replace(gradient, param.clone()).contiguous();
            let done = match param.dtype() {
                Type::F32 => self.whole::<f32>(param, gradient),
                Type::F64 => self.whole::<f64>(param, gradient),
                Type::F16 => self.whole::<half::f16>(param, gradient),
                Type::BF16 => self.whole::<half::bf16>(param, gradient),
                _ => None,
            };
            done.ok_or_else(|| unsupported(param))?;
        }
        Ok(())
    }

    fn whole<P: Element>(&self, param: &Value, gradient: &mut Value) -> Option<()> {
        let given = gradient.clone();
        let (params, gradients) = (param.flex()?.storage::<P>(), given.flex()?.storage::<P>());
        self.block(params, gradients, gradient.flex_mut()?.storage_mut::<P>(), P::narrow);
        Some(())
    }

    /// Writes prepared `gradients` into `ready` as `round` makes them.
    #[inline(always)]
    pub(super) fn block<P: Element, R>(
        &self,
        params: &[P],
        gradients: &[P],
        ready: &mut [R],
        round: impl Fn(P::Wide) -> R,
    ) {
        let [scale, limit, decay] = [self.scale, self.limit, self.decay].map(P::Wide::of);
        let [shrink, again] = self.shrink.map(P::Wide::of);
        let (params, gradients) = (&params[..ready.len()], &gradients[..ready.len()]);
        for i in 0..ready.len() {
            let scaled = gradients[i].widen() * scale;
            // As Float::min and max, which mind NaN and take longer.
            let raised = if scaled < -limit { -limit } else { scaled };
            let clipped = if raised > limit { limit } else { raised };
            ready[i] = round(clipped * shrink * again + decay * params[i].widen());
        }
    }
}

fn squares<P: Element>(value: &Value, scale: f64, limit: f64) -> Option<f64> {
    let value = value.clone().contiguous();
    let parts = value.flex()?.storage::<P>().par_chunks(GRAIN);
    // Added up in their order, however many threads there are.
    let sum = |part| {
        vectorized(
            #[inline(always)]
            || lanes(part, scale, limit),
        )
    };
    let sums: Vec<f64> = parts.map(sum).collect();
    Some(sums.into_iter().sum())
}

#[inline(always)]
fn lanes<P: Element>(elements: &[P], scale: f64, limit: f64) -> f64 {
    let mut sums = [0.0; LANES];
    for chunk in elements.chunks(LANES) {
        for (sum, element) in sums.iter_mut().zip(chunk) {
            let clipped = (element.widen().to_f64().unwrap_or(f64::NAN) * scale).max(-limit).min(limit);
            *sum += clipped * clipped;
        }
    }
    sums.iter().sum()
}
