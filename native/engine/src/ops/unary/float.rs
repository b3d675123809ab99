//! Functions of floats that answer floats of the same type, and their derivatives.

use std::f64::consts::PI;

use burn_backend::ops::{ActivationOps, FloatTensorOps};
use burn_dispatch::{Dispatch, DispatchTensor};
use num_traits::{Float as _, Zero};

use crate::cpu::{self, Float, Special, for_float};
use crate::error::{Error, Result};
use crate::ops::gradient::with_gradient;
use crate::ops::real::{Real, Test};
use crate::program::Unary;
use crate::value::Value;

pub(super) fn run(op: Unary, x: Value) -> Result<Value> {
    if matches!(op, Unary::Floor | Unary::Ceil | Unary::Round | Unary::Sign | Unary::Phase) {
        return apply(op, x.untracked());
    }
    with_gradient(
        [x],
        |[x]| apply(op, x),
        |[x], y| {
            let (x, y) = (x.clone(), y.clone());
            Box::new(move |_, g| Ok(gradient(op, Real::new(&x)?, Real::new(&y)?, Real::new(&g)?)?.value()))
        },
    )
}

/// The function `op` of a plain value.
pub(in crate::ops) fn apply(op: Unary, x: Value) -> Result<Value> {
    match burn(op) {
        Some(f) => Ok(Value::new(x.dtype(), f(x.into_tensor()))),
        None => for_float!(x.dtype(), T => kernel::<T>(op, &x)),
    }
}

/// Burn's function, where it answers what Nx does.
fn burn(op: Unary) -> Option<fn(DispatchTensor) -> DispatchTensor> {
    Some(match op {
        Unary::Abs => Dispatch::float_abs,
        Unary::Acos => Dispatch::float_acos,
        Unary::Asin => Dispatch::float_asin,
        Unary::Atan => Dispatch::float_atan,
        Unary::Ceil => Dispatch::float_ceil,
        Unary::Cos => Dispatch::float_cos,
        Unary::Cosh => Dispatch::float_cosh,
        Unary::Erf => Dispatch::float_erf,
        Unary::Exp => Dispatch::float_exp,
        Unary::Floor => Dispatch::float_floor,
        Unary::Log => Dispatch::float_log,
        Unary::Log1p => Dispatch::float_log1p,
        Unary::Negate => Dispatch::float_neg,
        Unary::Sigmoid => Dispatch::sigmoid,
        Unary::Sin => Dispatch::float_sin,
        Unary::Sinh => Dispatch::float_sinh,
        Unary::Sqrt => Dispatch::float_sqrt,
        Unary::Tan => Dispatch::float_tan,
        Unary::Tanh => Dispatch::float_tanh,
        _ => return None,
    })
}

/// The functions that Burn lacks or computes differently.
fn kernel<T: Float>(op: Unary, x: &Value) -> Result<Value> {
    let zero = T::Math::zero();
    match op {
        Unary::Acosh => cpu::map_real::<T>(x, |x| x.inverse_cosh()),
        Unary::Asinh => cpu::map_real::<T>(x, |x| x.inverse_sinh()),
        Unary::Atanh => cpu::map_real::<T>(x, |x| x.inverse_tanh()),
        Unary::Cbrt => cpu::map_real::<T>(x, |x| x.cbrt()),
        Unary::ErfInv => cpu::map_real::<T>(x, |x| x.erf_inv()),
        Unary::Erfc => cpu::map_real::<T>(x, |x| x.erfc()),
        Unary::Expm1 => cpu::map_real::<T>(x, |x| x.exp_m1()),
        // The angle of a real number: pi below zero.
        Unary::Phase => cpu::map_real::<T>(x, |x| zero.atan2(x)),
        Unary::Round => cpu::map_real::<T>(x, |x| x.round()),
        Unary::Rsqrt => cpu::map_real::<T>(x, |x| x.sqrt().recip()),
        Unary::Sign => cpu::map_real::<T>(x, |x| if x == zero || x.is_nan() { x } else { x.signum() }),
        _ => Err(Error::Unsupported { op: <&str>::from(op).into(), dtype: x.dtype(), device: x.device().to_string() }),
    }
}

/// The gradient of x from the gradient `g` of y = op(x).
fn gradient(op: Unary, x: Real, y: Real, g: Real) -> Result<Real> {
    let squared = |x: &Real| x.clone() * x.clone();
    let bell = |x: &Real| (-squared(x)).apply(Unary::Exp);
    Ok(match op {
        Unary::Abs => {
            let positive = x.compare_number(Test::GreaterEqual, 0.0);
            (-g.clone()).replace_with(positive, g)
        }
        Unary::Acos => -(g * (-squared(&x) + 1.0).apply(Unary::Rsqrt)?),
        Unary::Acosh => g * (squared(&x) - 1.0).apply(Unary::Rsqrt)?,
        Unary::Asin => g * (-squared(&x) + 1.0).apply(Unary::Rsqrt)?,
        Unary::Asinh => g * (squared(&x) + 1.0).apply(Unary::Rsqrt)?,
        Unary::Atan => g / (squared(&x) + 1.0),
        Unary::Atanh => g / (-squared(&x) + 1.0),
        Unary::Cbrt => g / (squared(&y) * 3.0),
        Unary::Cos => -(g * x.apply(Unary::Sin)?),
        Unary::Cosh => g * x.apply(Unary::Sinh)?,
        Unary::Erf => g * bell(&x)? * (2.0 / PI.sqrt()),
        Unary::ErfInv => g * squared(&y).apply(Unary::Exp)? * (PI.sqrt() / 2.0),
        Unary::Erfc => g * bell(&x)? * (-2.0 / PI.sqrt()),
        Unary::Exp => g * y,
        Unary::Expm1 => g * (y + 1.0),
        Unary::Log => g / x,
        Unary::Log1p => g / (x + 1.0),
        Unary::Negate => -g,
        Unary::Rsqrt => g * squared(&y) * y * -0.5,
        Unary::Sigmoid => g * y.clone() * (-y + 1.0),
        Unary::Sin => g * x.apply(Unary::Cos)?,
        Unary::Sinh => g * x.apply(Unary::Cosh)?,
        Unary::Sqrt => g * 0.5 / y,
        Unary::Tan => g * (squared(&y) + 1.0),
        Unary::Tanh => g * (-squared(&y) + 1.0),
        _ => return Err(Error::invalid(<&str>::from(op), "has no gradient")),
    })
}
