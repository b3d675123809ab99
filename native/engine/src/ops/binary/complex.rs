//! Functions of two complex numbers. They are computed in 64 bits.

use num_complex::Complex64;

use crate::cpu::{self, Cell, for_complex};
use crate::error::{Error, Result};
use crate::ops::promote::operand;
use crate::program::Binary;
use crate::types::TensorType;
use crate::value::Value;

pub(super) fn run(op: Binary, left: Value, right: Value, out: &TensorType) -> Result<Value> {
    let name = <&str>::from(op);
    let (left, right) = (operand(name, left, out.dtype, &out.shape)?, operand(name, right, out.dtype, &out.shape)?);
    if op == Binary::Atan2 {
        return atan2(&left, &right, out);
    }
    let Some(f) = function(op) else {
        return Err(Error::Unsupported { op: name.into(), dtype: out.dtype, device: left.device().to_string() });
    };
    for_complex!(out.dtype, T => cpu::zip(&left, &right, |a: T, b: T| T::from_total(f(a.total(), b.total()))))
}

fn function(op: Binary) -> Option<fn(Complex64, Complex64) -> Complex64> {
    Some(match op {
        Binary::Add => |a, b| a + b,
        Binary::Subtract => |a, b| a - b,
        Binary::Multiply => |a, b| a * b,
        Binary::Divide => divide,
        Binary::Pow => pow,
        _ => return None,
    })
}

/// R. L. Smith, "Algorithm 116: Complex division", Communications of the ACM 5 (1962): no overflow where the quotient
/// has none.
fn divide(a: Complex64, b: Complex64) -> Complex64 {
    if b.re.abs() >= b.im.abs() {
        let ratio = b.im / b.re;
        let scale = b.re + b.im * ratio;
        Complex64::new((a.re + a.im * ratio) / scale, (a.im - a.re * ratio) / scale)
    } else {
        let ratio = b.re / b.im;
        let scale = b.re * ratio + b.im;
        Complex64::new((a.re * ratio + a.im) / scale, (a.im * ratio - a.re) / scale)
    }
}

/// The principal value; 0 to the power of 0 is 1, to any other power 0.
fn pow(base: Complex64, exponent: Complex64) -> Complex64 {
    let (zero, one) = (Complex64::ZERO, Complex64::ONE);
    match (base, exponent) {
        (_, b) if b == zero => one,
        (a, _) if a == zero => zero,
        (a, b) if b == one => a,
        (a, b) if b == -one => divide(one, a),
        (a, b) => a.powc(b),
    }
}

/// The angle of real numbers.
fn atan2(left: &Value, right: &Value, out: &TensorType) -> Result<Value> {
    let has_imaginary = |x: &Value| for_complex!(out.dtype, T => cpu::any(x, |z: T| z.im != 0.0));
    if has_imaginary(left)? || has_imaginary(right)? {
        return Err(Error::invalid(
            "atan2",
            "the angle of complex numbers is not defined, got one with an imaginary part",
        ));
    }
    let of = |a: Complex64, b: Complex64| Complex64::new(a.re.atan2(b.re), 0.0);
    for_complex!(out.dtype, T => cpu::zip(left, right, |a: T, b: T| T::from_total(of(a.total(), b.total()))))
}
