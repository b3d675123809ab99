//! Functions of floats that answer floats of the same type, and their derivatives.

use std::f64::consts::PI;

use crate::cpu::{self, single, special};
use crate::error::{Error, Result};
use crate::ops::cast;
use crate::ops::gradient::with_gradient;
use crate::ops::real::{Real, Test};
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
    match x.dtype() {
        Type::F64 => double(op, x),
        Type::F32 => single(op, x),
        dtype => cast(single(op, cast(x, Type::F32)?)?, dtype),
    }
}

/// Functions of `f64`: the standard library's where it has good ones.
fn double(op: Unary, x: Value) -> Result<Value> {
    match op {
        Unary::Abs => cpu::update(x, f64::abs),
        Unary::Acos => cpu::update(x, f64::acos),
        Unary::Acosh => cpu::update(x, special::acosh),
        Unary::Asin => cpu::update(x, f64::asin),
        Unary::Asinh => cpu::update(x, |x| special::asinh(x)),
        Unary::Atan => cpu::update(x, f64::atan),
        Unary::Atanh => cpu::update(x, |x| special::atanh(x)),
        Unary::Cbrt => cpu::update(x, f64::cbrt),
        Unary::Ceil => cpu::update(x, f64::ceil),
        Unary::Cos => cpu::update(x, f64::cos),
        Unary::Cosh => cpu::update(x, f64::cosh),
        Unary::Erf => cpu::update(x, |x| special::erf(x)),
        Unary::ErfInv => cpu::update(x, special::erf_inv),
        Unary::Erfc => cpu::update(x, |x| special::erfc(x)),
        Unary::Exp => cpu::update(x, f64::exp),
        Unary::Expm1 => cpu::update(x, f64::exp_m1),
        Unary::Floor => cpu::update(x, f64::floor),
        Unary::Log => cpu::update(x, f64::ln),
        Unary::Log1p => cpu::update(x, special::ln_1p),
        Unary::Negate => cpu::update(x, |x: f64| -x),
        // The angle of a real number: pi below zero.
        Unary::Phase => cpu::update(x, |x: f64| 0f64.atan2(x)),
        Unary::Round => cpu::update(x, f64::round),
        Unary::Rsqrt => cpu::update(x, |x: f64| x.sqrt().recip()),
        Unary::Sigmoid => cpu::update(x, special::sigmoid),
        Unary::Sign => cpu::update(x, |x: f64| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
        Unary::Sin => cpu::update(x, f64::sin),
        Unary::Sinh => cpu::update(x, f64::sinh),
        Unary::Sqrt => cpu::update(x, f64::sqrt),
        Unary::Tan => cpu::update(x, f64::tan),
        Unary::Tanh => cpu::update(x, f64::tanh),
        _ => Err(unsupported(op, &x)),
    }
}

/// Functions of `f32`: exact ones, and else such as are good to the last digit and fast.
fn single(op: Unary, x: Value) -> Result<Value> {
    match op {
        Unary::Abs => cpu::update(x, f32::abs),
        Unary::Ceil => cpu::update(x, f32::ceil),
        Unary::Cos => angle(x, single::cos, f64::cos),
        Unary::Erf => cpu::update(x, single::erf),
        Unary::ErfInv => cpu::update(x, |x: f32| special::erf_inv(x.into()) as f32),
        Unary::Exp => cpu::update(x, single::exp),
        Unary::Expm1 => cpu::update(x, single::exp_m1),
        Unary::Floor => cpu::update(x, f32::floor),
        Unary::Log => cpu::update(x, single::ln),
        Unary::Log1p => cpu::update(x, single::ln_1p),
        Unary::Negate => cpu::update(x, |x: f32| -x),
        Unary::Round => cpu::update(x, f32::round),
        Unary::Rsqrt => cpu::update(x, single::rsqrt),
        Unary::Sigmoid => cpu::update(x, single::sigmoid),
        Unary::Sign => cpu::update(x, |x: f32| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
        Unary::Sin => angle(x, single::sin, f64::sin),
        Unary::Sqrt => cpu::update(x, f32::sqrt),
        Unary::Tan => angle(x, single::tan, f64::tan),
        Unary::Tanh => cpu::update(x, single::tanh),
        Unary::Acos
        | Unary::Acosh
        | Unary::Asin
        | Unary::Asinh
        | Unary::Atan
        | Unary::Atanh
        | Unary::Cbrt
        | Unary::Cosh
        | Unary::Erfc
        | Unary::Phase
        | Unary::Sinh => cast(double(op, cast(x, Type::F64)?)?, Type::F32),
        _ => Err(unsupported(op, &x)),
    }
}

fn unsupported(op: Unary, x: &Value) -> Error {
    Error::Unsupported { op: <&str>::from(op).into(), dtype: x.dtype(), device: x.device().to_string() }
}

/// A function of angles by one that takes no large ones, and one that does.
fn angle(x: Value, f: impl Fn(f32) -> f32 + Sync, exact: fn(f64) -> f64) -> Result<Value> {
    cpu::update_unless(x, f, |x| x.abs() > single::LARGEST_ANGLE, |x| exact(x.into()) as f32)
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
