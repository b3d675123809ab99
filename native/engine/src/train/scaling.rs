//! Scaling of a loss whose gradients would be too small for numbers of 16 bits.

use super::job::expect;
use crate::device::Device;
use crate::error::Result;
use crate::types::{TensorType, Type};
use crate::value::Value;

/// The factor does not grow beyond this, so that the loss times it is a number of `f32`.
const LARGEST: f64 = 16_777_216.0;

/// What a loss is multiplied by before the way back; gradients are divided by it before they are used.
///
/// Source: Micikevicius et al., Mixed Precision Training, arXiv:1710.03740, section 3.2; the rule by which it changes is that of
/// PyTorch's `GradScaler`.
///
/// ```
/// use ex_burn_engine::train::LossScale;
///
/// let mut scale = LossScale { factor: 4.0, good: 0, interval: Some(2) };
/// assert!(scale.overflowed());
/// scale.stepped();
/// assert_eq!((scale.factor, scale.good), (2.0, 1));
/// scale.stepped();
/// assert_eq!((scale.factor, scale.good), (4.0, 0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScale {
    /// The factor.
    pub factor: f64,
    /// Steps in a row since it has changed.
    pub good: u64,
    /// After so many steps in a row it doubles, and a gradient that is not finite halves it; `None` where it stays as it is.
    pub interval: Option<u64>,
}

impl LossScale {
    pub(super) fn check(&self) -> Result<()> {
        let factor = self.factor;
        // One over it is a number of `f32` too.
        let least = f64::from(f32::MIN_POSITIVE);
        let good = factor.is_finite() && factor >= least;
        expect(good, format!("the loss scale is {factor}; it must be finite and at least {least:e}"))?;
        expect(self.interval != Some(0), "the loss scale grows after 0 steps; it must be at least 1")
    }

    /// A step was taken.
    pub fn stepped(&mut self) {
        self.good += 1;
        if self.interval.is_some_and(|interval| self.good >= interval) {
            *self = Self { factor: (self.factor * 2.0).min(LARGEST.max(self.factor)), good: 0, ..*self };
        }
    }

    /// A gradient is not finite. False where the factor can't be the reason.
    pub fn overflowed(&mut self) -> bool {
        if self.interval.is_none() || self.factor <= 1.0 {
            return false;
        }
        *self = Self { factor: self.factor / 2.0, good: 0, ..*self };
        true
    }
}

/// A scale with its factor as programs take it.
#[derive(Clone, Debug)]
pub(super) struct Scaling {
    state: LossScale,
    factor: Value,
    device: Device,
}

impl Scaling {
    /// The type of the factor.
    pub(super) fn ty() -> TensorType {
        TensorType::new(Type::F32, [])
    }

    pub(super) fn new(state: LossScale, device: &Device) -> Result<Self> {
        state.check()?;
        let factor = Value::full(&Self::ty(), state.factor, &Device::Cpu)?.to_device(device)?;
        Ok(Self { state, factor, device: device.clone() })
    }

    pub(super) fn state(&self) -> LossScale {
        self.state
    }

    pub(super) fn factor(&self) -> &Value {
        &self.factor
    }

    /// See [`LossScale::stepped`].
    pub(super) fn stepped(&mut self) -> Result<()> {
        let mut next = self.state;
        next.stepped();
        self.put(next)
    }

    /// See [`LossScale::overflowed`].
    pub(super) fn overflowed(&mut self) -> Result<bool> {
        let mut next = self.state;
        let overflowed = next.overflowed();
        self.put(next)?;
        Ok(overflowed)
    }

    fn put(&mut self, next: LossScale) -> Result<()> {
        if next.factor == self.state.factor {
            self.state = next;
        } else {
            *self = Self::new(next, &self.device)?;
        }
        Ok(())
    }
}
