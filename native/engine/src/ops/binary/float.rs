//! Functions of two operands that answer floats, and their gradients.

use crate::cpu::{Float, Kernel, Zip, divide_all, for_float, single};
use crate::error::{Error, Result};
use crate::ops::gradient::{Rule, with_gradient};
use crate::ops::promote::{merge, operand};
use crate::ops::real::{Real, Test};
use crate::ops::{cast, unsupported};
use crate::program::{Binary, Unary};
use crate::types::{TensorType, Type};
use crate::value::Value;

pub(super) fn run(op: Binary, left: Value, right: Value, out: &TensorType) -> Result<Value> {
    let dtype = merge(merge(left.dtype(), right.dtype()), out.dtype);
    let place = |value| operand(op.into(), value, dtype, &out.shape);
    with_gradient(
        [left, right],
        |[left, right]| cast(apply(op, place(left)?, place(right)?)?, out.dtype),
        |[left, right], y| rule(op, left.clone(), right.clone(), y.clone()),
    )
}

/// The function `op` of two plain values of one float type and shape.
fn apply(op: Binary, left: Value, right: Value) -> Result<Value> {
    let (dtype, own) = (left.dtype(), computed_in(op, left.dtype()));
    let (left, right) = (cast(left, own)?, cast(right, own)?);
    let result = for_float!(own, T => of::<T>(op).ok_or_else(|| unsupported(op, &left))?.combine(left, right));
    cast(result?, dtype)
}

/// The loop over the function `op` of operands of these types, computed in the float type `dtype`. It may take and answer a
/// wider one, unless an operand loses digits on its way to `dtype`.
pub(super) fn kernel(op: Binary, operands: [Type; 2], dtype: Type) -> Option<Kernel> {
    let own = if operands == [dtype; 2] { computed_in(op, dtype) } else { dtype };
    for_float!(own, T => Ok(of::<T>(op)?.kernel())).ok()
}

/// Long functions become vectors where a loop does nothing else.
fn computed_in(op: Binary, dtype: Type) -> Type {
    let is_long = matches!(op, Binary::Atan2 | Binary::Pow);
    if is_long && dtype.bits() == 16 { Type::F32 } else { dtype }
}

// Of two zeros the first one is the answer of max and min, whatever their signs.
fn of<T: Float<Math: Functions>>(op: Binary) -> Option<Zip<T, T, T>> {
    Some(match op {
        Binary::Add => swift(|a, b| a + b),
        Binary::Atan2 => real::<T>(|a, b| a.angle(b)),
        Binary::Divide => swift::<T>(|a, b| a / b).with_right(divide_all),
        Binary::Max => Zip::swift(|a: T, b: T| if b > a || b.is_unordered() { b } else { a }),
        Binary::Min => Zip::swift(|a: T, b: T| if b < a || b.is_unordered() { b } else { a }),
        Binary::Multiply => swift(|a, b| a * b),
        Binary::Pow => swift::<T>(|a, b| a.power(b)),
        Binary::Remainder => real(|a, b| a % b),
        Binary::Subtract => swift(|a, b| a - b),
        _ => return None,
    })
}

/// Functions of two numbers: of `f32` such as are good to the last digit and fast, of `f64` the standard library's.
trait Functions {
    /// The angle of the point (x, self).
    fn angle(self, x: Self) -> Self;

    /// This to the power of `y`.
    fn power(self, y: Self) -> Self;
}

impl Functions for f32 {
    #[inline(always)]
    fn angle(self, x: Self) -> Self {
        single::atan2(self, x)
    }

    #[inline(always)]
    fn power(self, y: Self) -> Self {
        single::pow(self, y)
    }
}

impl Functions for f64 {
    fn angle(self, x: Self) -> Self {
        self.atan2(x)
    }

    fn power(self, y: Self) -> Self {
        self.powf(y)
    }
}

/// A function of real numbers, rounded once.
fn real<T: Float>(f: impl Fn(T::Math, T::Math) -> T::Math + Send + Sync + 'static) -> Zip<T, T, T> {
    Zip::new(move |a: T, b: T| T::round_from(f(a.math(), b.math())))
}

/// [`real`], where it takes less time than a loop over a repeated operand.
fn swift<T: Float>(f: impl Fn(T::Math, T::Math) -> T::Math + Copy + Send + Sync + 'static) -> Zip<T, T, T> {
    Zip::swift(move |a: T, b: T| T::round_from(f(a.math(), b.math())))
}

fn rule(op: Binary, left: Value, right: Value, y: Value) -> Rule {
    match op {
        Binary::Add => Box::new(|_, g| Ok(g)),
        Binary::Subtract => Box::new(|i, g| if i == 0 { Ok(g) } else { Ok((-Real::new(&g)?).value()) }),
        _ => Box::new(move |i, g| {
            let (left, right, y, g) = (Real::new(&left)?, Real::new(&right)?, Real::new(&y)?, Real::new(&g)?);
            let gradient = if i == 0 { for_left(op, left, right, y, g) } else { for_right(op, left, right, y, g) };
            Ok(gradient?.value())
        }),
    }
}

/// The gradient of the left operand from the gradient `g` of y = op(a, b).
fn for_left(op: Binary, a: Real, b: Real, y: Real, g: Real) -> Result<Real> {
    Ok(match op {
        Binary::Atan2 => g * (b.clone() / (a.clone() * a + b.clone() * b)),
        Binary::Divide => g / b,
        Binary::Max | Binary::Min => g * share(&a, &b, &y)?,
        Binary::Multiply => g * b,
        Binary::Pow => {
            let exponent = (b.clone() - 1.0).replace(b.compare_number(Test::Equal, 0.0), 1.0);
            g * (b * a.pow(exponent)?)
        }
        Binary::Remainder => g,
        _ => return Err(no_gradient(op)),
    })
}

/// The gradient of the right operand from the gradient `g` of y = op(a, b).
fn for_right(op: Binary, a: Real, b: Real, y: Real, g: Real) -> Result<Real> {
    Ok(match op {
        Binary::Atan2 => -(g * (a.clone() / (a.clone() * a + b.clone() * b))),
        Binary::Divide => -(g * (y / b)),
        Binary::Max | Binary::Min => g * share(&b, &a, &y)?,
        Binary::Multiply => g * a,
        Binary::Pow => {
            let base = a.clone().replace(a.compare_number(Test::Equal, 0.0), 1.0);
            g * (base.apply(Unary::Log)? * y)
        }
        Binary::Remainder => -(g * (a / b).apply(Unary::Floor)?),
        _ => return Err(no_gradient(op)),
    })
}

/// The part of an extremum's gradient that `own` gets: all of it, half where `other` is equal, none where it lost.
fn share(own: &Real, other: &Real, y: &Real) -> Result<Real> {
    Ok(y.ones_where_equal(own)? / (y.ones_where_equal(other)? + 1.0))
}

fn no_gradient(op: Binary) -> Error {
    Error::invalid(<&str>::from(op), "has no gradient")
}
