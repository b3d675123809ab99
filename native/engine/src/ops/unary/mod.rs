//! Elementwise functions of one operand.

mod float;
mod int;

use crate::cpu::{self, for_float, for_number};
use crate::error::Result;
use crate::ops::{Call, cast};
use crate::program::Unary;
use crate::types::{TensorType, Type};
use crate::value::Value;

pub(super) use float::apply;

pub(super) fn run(op: Unary, mut call: Call<'_>) -> Result<Value> {
    let [x] = call.args()?;
    let out = call.out()?.dtype;
    if x.dtype().burn().is_none() || out.burn().is_none() {
        return Err(call.unsupported());
    }
    match op {
        Unary::IsNan | Unary::IsInfinity | Unary::LogicalNot => cast(predicate(op, &x.untracked())?, out),
        Unary::Conjugate | Unary::Real => cast(x, out),
        Unary::Imag => Value::full(&TensorType::new(out, x.shape()), 0.0, call.device),
        _ if out.is_float() => float::run(op, cast(x, out)?),
        _ if x.dtype().is_int() => cast(int::run(op, &x)?, out),
        _ => Err(call.unsupported()),
    }
}

/// 0 or 1 as u8.
fn predicate(op: Unary, x: &Value) -> Result<Value> {
    match op {
        Unary::IsNan if x.dtype().is_float() => for_float!(x.dtype(), T => cpu::map(x, |x: T| u8::from(x.is_nan()))),
        Unary::IsInfinity if x.dtype().is_float() => {
            for_float!(x.dtype(), T => cpu::map(x, |x: T| u8::from(x.is_infinite())))
        }
        Unary::LogicalNot => for_number!(x.dtype(), T => cpu::map(x, |x: T| u8::from(x == T::default()))),
        _ => Value::full(&TensorType::new(Type::U8, x.shape()), 0.0, &x.device()),
    }
}
