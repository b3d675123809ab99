//! Elementwise functions of one operand.

mod complex;
mod float;
mod int;

use crate::cpu::{self, for_cell, for_complex, for_float};
use crate::error::Result;
use crate::ops::{Call, cast};
use crate::program::Unary;
use crate::types::{TensorType, Type};
use crate::value::Value;

pub(super) use float::apply;

pub(super) fn run(op: Unary, mut call: Call<'_>) -> Result<Value> {
    let [x] = call.args()?;
    let out = call.out()?.dtype;
    match op {
        Unary::IsNan | Unary::IsInfinity | Unary::LogicalNot => cast(predicate(op, &x.untracked())?, out),
        Unary::CountLeadingZeros | Unary::PopulationCount if x.dtype().is_int() => cast(int::count_bits(op, x)?, out),
        _ if x.dtype().is_complex() || out.is_complex() => complex::run(op, x, out),
        Unary::Real => cast(x, out),
        Unary::Imag => Value::full(&TensorType::new(out, x.shape()), 0.0, call.device),
        _ if out.is_float() => float::run(op, cast(x, out)?),
        _ if x.dtype().is_int() => cast(int::run(op, &x)?, out),
        _ => Err(call.unsupported()),
    }
}

/// 0 or 1 as u8.
fn predicate(op: Unary, x: &Value) -> Result<Value> {
    let dtype = x.dtype();
    match op {
        Unary::LogicalNot => for_cell!(dtype, T => cpu::map(x, |x: T| u8::from(x == T::default()))),
        Unary::IsNan if dtype.is_complex() => for_complex!(dtype, T => cpu::map(x, |x: T| u8::from(x.is_nan()))),
        Unary::IsNan if dtype.is_float() => for_float!(dtype, T => cpu::map(x, |x: T| u8::from(x.is_nan()))),
        Unary::IsInfinity if dtype.is_complex() => {
            for_complex!(dtype, T => cpu::map(x, |x: T| u8::from(x.re.is_infinite() || x.im.is_infinite())))
        }
        Unary::IsInfinity if dtype.is_float() => {
            for_float!(dtype, T => cpu::map(x, |x: T| u8::from(x.is_infinite())))
        }
        _ => Value::full(&TensorType::new(Type::U8, x.shape()), 0.0, &x.device()),
    }
}
