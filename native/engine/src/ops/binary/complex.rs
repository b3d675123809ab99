//! Functions of two complex numbers. They are computed in 64 bits.

use num_complex::Complex64;

use crate::cpu::complex::{divide, pow};
use crate::cpu::{self, Cell, for_complex};
use crate::error::{Error, Result};
use crate::ops::promote::operand;
use crate::ops::unsupported;
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
        return Err(unsupported(op, &left));
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

/// The angle of real numbers.
fn atan2(left: &Value, right: &Value, out: &TensorType) -> Result<Value> {
    let has_imaginary = |x: &Value| for_complex!(out.dtype, T => cpu::any(x, |z: T| z.im != 0.0));
    if has_imaginary(left)? || has_imaginary(right)? {
        return Err(Error::arithmetic("atan2", "Complex.atan2 only accepts real numbers as arguments"));
    }
    let of = |a: Complex64, b: Complex64| Complex64::new(a.re.atan2(b.re), 0.0);
    for_complex!(out.dtype, T => cpu::zip(left, right, |a: T, b: T| T::from_total(of(a.total(), b.total()))))
}
