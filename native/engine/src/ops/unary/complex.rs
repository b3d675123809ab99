//! Functions of complex numbers. They are computed in 64 bits and answer principal values.

use num_complex::{Complex, Complex64};

use crate::cpu::complex::{acos, acosh, asin, asinh, atan, atanh, cbrt, divide, log1p, sqrt};
use crate::cpu::hyperbolic::{cos, cosh, exp, expm1, sigmoid, sin, sinh, tan, tanh};
use crate::cpu::{self, Cell, for_complex};
use crate::error::Result;
use crate::ops::{cast, unsupported};
use crate::program::Unary;
use crate::types::Type;
use crate::value::Value;

/// The function `op` of `x`, one of which is complex: the operand or the result, whose type is `out`.
pub(super) fn run(op: Unary, x: Value, out: Type) -> Result<Value> {
    let dtype = x.dtype();
    match op {
        Unary::Real => cast(x.part(0), out),
        Unary::Imag => cast(x.part(1), out),
        Unary::Abs => cast(for_complex!(dtype, T => cpu::map(&x, |z: T| z.total().norm()))?, out),
        Unary::Phase => cast(for_complex!(dtype, T => cpu::map(&x, |z: T| z.total().arg()))?, out),
        _ => {
            let x = cast(x, out)?;
            let Some(f) = function(op) else {
                return Err(unsupported(op, &x));
            };
            for_complex!(out, T => cpu::map(&x, |z: T| T::from_total(f(z.total()))))
        }
    }
}

fn function(op: Unary) -> Option<fn(Complex64) -> Complex64> {
    Some(match op {
        Unary::Acos => acos,
        Unary::Acosh => acosh,
        Unary::Asin => asin,
        Unary::Asinh => asinh,
        Unary::Atan => atan,
        Unary::Atanh => atanh,
        Unary::Cbrt => cbrt,
        Unary::Conjugate => |z| z.conj(),
        Unary::Cos => cos,
        Unary::Cosh => cosh,
        Unary::Exp => exp,
        Unary::Expm1 => expm1,
        Unary::Log => Complex::ln,
        Unary::Log1p => log1p,
        Unary::Negate => |z| -z,
        Unary::Rsqrt => |z| divide(Complex::ONE, sqrt(z)),
        Unary::Sign => direction,
        Unary::Sigmoid => sigmoid,
        Unary::Sin => sin,
        Unary::Sinh => sinh,
        Unary::Sqrt => sqrt,
        Unary::Tan => tan,
        Unary::Tanh => tanh,
        _ => return None,
    })
}

/// The number of size 1 in the direction of z, or zero. Scaled first, so that the size is a normal number.
fn direction(z: Complex64) -> Complex64 {
    let scale = z.re.abs().max(z.im.abs());
    let scaled = z / scale;
    if scale == 0.0 { z } else { scaled / scaled.norm() }
}
