//! Functions of floats that answer floats of the same type, and their derivatives.

use std::f64::consts::PI;

use crate::cpu::{Kernel, Map, single, special};
use crate::error::{Error, Result};
use crate::ops::gradient::with_gradient;
use crate::ops::real::{Real, Test};
use crate::ops::{cast, unsupported};
use crate::program::Unary;
use crate::types::Type;
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
    let missing = || unsupported(op, &x);
    match x.dtype() {
        Type::F64 => double(op).ok_or_else(missing)?.update(x),
        Type::F32 => single(op).ok_or_else(missing)?.update(x),
        dtype => cast(single(op).ok_or_else(missing)?.update(cast(x, Type::F32)?)?, dtype),
    }
}

/// The loop over the function `op`, for an operand of `dtype`; 16-bit floats are computed in 32 bits.
pub(super) fn kernel(op: Unary, dtype: Type) -> Option<Kernel> {
    Some(if dtype == Type::F64 { double(op)?.kernel() } else { single(op)?.kernel() })
}

/// Functions of `f64` that are no vector instructions: the standard library's where it has good ones.
fn standard(op: Unary) -> Option<fn(f64) -> f64> {
    Some(match op {
        Unary::Acos => f64::acos,
        Unary::Acosh => |x| special::acosh(x),
        Unary::Asin => f64::asin,
        Unary::Asinh => |x| special::asinh(x),
        Unary::Atan => f64::atan,
        Unary::Atanh => |x| special::atanh(x),
        Unary::Cbrt => f64::cbrt,
        Unary::Cos => f64::cos,
        Unary::Cosh => f64::cosh,
        Unary::Erf => |x| special::erf(x),
        Unary::ErfInv => special::erf_inv,
        Unary::Erfc => |x| special::erfc(x),
        Unary::Exp => f64::exp,
        Unary::Expm1 => f64::exp_m1,
        Unary::Log => f64::ln,
        Unary::Log1p => special::ln_1p,
        // The angle of a real number: pi below zero.
        Unary::Phase => |x| 0f64.atan2(x),
        Unary::Sigmoid => special::sigmoid,
        Unary::Sin => f64::sin,
        Unary::Sinh => f64::sinh,
        Unary::Tan => f64::tan,
        Unary::Tanh => f64::tanh,
        _ => return None,
    })
}

fn double(op: Unary) -> Option<Map<f64, f64>> {
    Some(match op {
        Unary::Abs => Map::new(f64::abs),
        Unary::Ceil => Map::new(f64::ceil),
        Unary::Floor => Map::new(f64::floor),
        Unary::Negate => Map::new(|x: f64| -x),
        Unary::Round => Map::new(f64::round),
        Unary::Rsqrt => Map::new(|x: f64| x.sqrt().recip()),
        Unary::Sign => Map::new(|x: f64| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
        Unary::Sqrt => Map::new(f64::sqrt),
        _ => Map::new(standard(op)?),
    })
}

/// Functions of `f32`: exact ones, and else such as are good to the last digit and fast.
fn single(op: Unary) -> Option<Map<f32, f32>> {
    Some(match op {
        Unary::Abs => Map::new(f32::abs),
        Unary::Acos => Map::new(single::acos),
        Unary::Acosh => Map::new(single::acosh),
        Unary::Asin => Map::new(single::asin),
        Unary::Asinh => Map::new(single::asinh),
        Unary::Atan => Map::new(single::atan),
        Unary::Atanh => Map::new(single::atanh),
        Unary::Cbrt => Map::new(single::cbrt),
        Unary::Ceil => Map::new(f32::ceil),
        Unary::Cos => angle(single::cos, f64::cos),
        Unary::Cosh => Map::new(single::cosh),
        Unary::Erf => Map::new(single::erf),
        Unary::ErfInv => Map::new(single::erf_inv),
        Unary::Erfc => Map::new(single::erfc),
        Unary::Exp => Map::new(single::exp),
        Unary::Expm1 => Map::new(single::exp_m1),
        Unary::Floor => Map::new(f32::floor),
        Unary::Log => Map::mostly(single::ln_normal, single::is_not_normal, single::ln),
        Unary::Log1p => Map::new(single::ln_1p),
        Unary::Negate => Map::new(|x: f32| -x),
        Unary::Round => Map::new(f32::round),
        Unary::Rsqrt => Map::new(single::rsqrt),
        Unary::Sigmoid => Map::new(single::sigmoid),
        Unary::Sign => Map::new(|x: f32| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
        Unary::Sin => angle(single::sin, f64::sin),
        Unary::Sinh => Map::new(single::sinh),
        Unary::Sqrt => Map::new(f32::sqrt),
        Unary::Tan => angle(single::tan, f64::tan),
        Unary::Tanh => Map::new(single::tanh),
        _ => wide(standard(op)?),
    })
}

/// A function computed in double precision and rounded once.
fn wide(f: impl Fn(f64) -> f64 + Send + Sync + 'static) -> Map<f32, f32> {
    Map::new(move |x: f32| f(x.into()) as f32)
}

/// A function of angles by one that takes no large ones, and one that does.
fn angle(f: impl Fn(f32) -> f32 + Send + Sync + 'static, exact: fn(f64) -> f64) -> Map<f32, f32> {
    Map::unless(f, |x: f32| x.abs() > single::LARGEST_ANGLE, move |x| exact(x.into()) as f32)
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
