//! Whether two tensors are close.

use std::ops::{Add, Mul};

use num_complex::Complex;

use crate::cpu::{self, Cell, Int, for_int};
use crate::error::Result;
use crate::ops::promote::{joint_shape, merge, operand};
use crate::ops::{Call, binary, cast};
use crate::program::{AllClose, Binary};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// 1 when `|a - b| <= atol + rtol * |b|` everywhere, else 0. Infinities are close when they are equal. As in Nx, the
/// difference of integers wraps.
pub(super) fn all_close(attrs: &AllClose, mut call: Call<'_>) -> Result<Value> {
    let [a, b] = call.args()?.map(|operand| operand.untracked());
    let shape = joint_shape(&a.shape(), &b.shape());
    let close = if a.dtype().is_int() && b.dtype().is_int() {
        integers(attrs, a, b, &shape)?
    } else {
        let dtype = merge(a.dtype(), b.dtype());
        let place = |value, dtype| operand("all_close", value, dtype, &shape);
        match dtype {
            Type::F64 => numbers::<f64>(attrs, &place(a, dtype)?, &place(b, dtype)?)?,
            Type::C64 => numbers::<Complex<f32>>(attrs, &place(a, dtype)?, &place(b, dtype)?)?,
            Type::C128 => numbers::<Complex<f64>>(attrs, &place(a, dtype)?, &place(b, dtype)?)?,
            _ => numbers::<f32>(attrs, &place(a, Type::F32)?, &place(b, Type::F32)?)?,
        }
    };
    let close = !cpu::any(&close, |close: u8| close == 0)?;
    cast(Value::full(&TensorType::new(Type::U8, []), f64::from(u8::from(close)), call.device)?, call.out()?.dtype)
}

/// 1 for each pair of integers that is close.
fn integers(attrs: &AllClose, a: Value, b: Value, shape: &[usize]) -> Result<Value> {
    let ty = TensorType::new(merge(a.dtype(), b.dtype()), shape);
    let size = operand("all_close", cast(b.clone(), Type::F64)?, Type::F64, shape)?;
    let difference = binary::compute(Binary::Subtract, a, b, &ty)?;
    for_int!(ty.dtype, T => cpu::zip(&difference, &size, |difference: T, size: f64| {
        let distance = T::wrap(difference.widen().abs()).widen();
        u8::from(distance as f64 <= attrs.atol + attrs.rtol * size.abs())
    }))
}

/// 1 for each pair of floats or complex numbers that is close.
fn numbers<T: Distance>(attrs: &AllClose, a: &Value, b: &Value) -> Result<Value> {
    let (rtol, atol) = (T::real(attrs.rtol), T::real(attrs.atol));
    cpu::zip(a, b, |a: T, b: T| {
        u8::from(if attrs.equal_nan && a.is_nan() && b.is_nan() {
            true
        } else if a.is_infinite() || b.is_infinite() {
            a == b
        } else {
            a.distance(b) <= atol + rtol * b.distance(T::default())
        })
    })
}

/// Numbers with a distance.
trait Distance: Cell {
    type Real: Copy + PartialOrd + Add<Output = Self::Real> + Mul<Output = Self::Real> + Sync;

    fn real(number: f64) -> Self::Real;
    fn distance(self, other: Self) -> Self::Real;
    fn is_nan(self) -> bool;
    fn is_infinite(self) -> bool;
}

macro_rules! distances {
    ($($real:ident)*) => {$(
        impl Distance for $real {
            type Real = $real;

            fn real(number: f64) -> $real {
                number as $real
            }

            fn distance(self, other: $real) -> $real {
                (self - other).abs()
            }

            fn is_nan(self) -> bool {
                $real::is_nan(self)
            }

            fn is_infinite(self) -> bool {
                $real::is_infinite(self)
            }
        }

        impl Distance for Complex<$real> {
            type Real = $real;

            fn real(number: f64) -> $real {
                number as $real
            }

            fn distance(self, other: Self) -> $real {
                (self - other).norm()
            }

            fn is_nan(self) -> bool {
                self.re.is_nan() || self.im.is_nan()
            }

            fn is_infinite(self) -> bool {
                self.re.is_infinite() || self.im.is_infinite()
            }
        }
    )*};
}

distances! { f32 f64 }
