//! Elementwise functions of one operand.

mod complex;
mod float;
mod int;

use crate::cpu::{self, Cell, Float, Kernel, Map, for_cell, for_complex, for_float, for_number};
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

/// The loop over the function `op` of a real operand of `dtype`, where it needs none of the neighbours and cannot fail.
pub(super) fn kernel(op: Unary, dtype: Type, out: Type) -> Option<Kernel> {
    match op {
        Unary::IsNan | Unary::IsInfinity | Unary::LogicalNot => predicate_kernel(op, dtype),
        _ if out.is_float() => float::kernel(op, out),
        _ if dtype.is_int() => int::kernel(op, dtype),
        _ => None,
    }
}

fn predicate_kernel(op: Unary, dtype: Type) -> Option<Kernel> {
    let by_type: Result<Option<Kernel>> = match op {
        Unary::LogicalNot => for_number!(dtype, T => Ok(Some(is_zero::<T>().kernel()))),
        _ => for_float!(dtype, T => Ok(float_test::<T>(op).map(Map::kernel))),
    };
    by_type.ok().flatten()
}

/// The loop that answers 1 for each element that is not zero.
pub(super) fn truth_kernel(dtype: Type) -> Option<Kernel> {
    for_number!(dtype, T => Ok(is_not_zero::<T>().kernel())).ok()
}

/// A plain u8 as it is; of another plain real value, 1 for each element that is not zero.
pub(super) fn truth(x: Value) -> Result<Value> {
    if x.dtype() == Type::U8 {
        return Ok(x);
    }
    for_number!(x.dtype(), T => is_not_zero::<T>().map(&x))
}

fn is_not_zero<T: Cell>() -> Map<T, u8> {
    Map::new(|x: T| u8::from(x != T::default()))
}

fn is_zero<T: Cell>() -> Map<T, u8> {
    Map::new(|x: T| u8::from(x == T::default()))
}

fn float_test<T: Float>(op: Unary) -> Option<Map<T, u8>> {
    match op {
        Unary::IsNan => Some(Map::new(|x: T| u8::from(x.is_unordered()))),
        Unary::IsInfinity => Some(Map::new(|x: T| u8::from(x == T::HIGHEST || x == T::LOWEST))),
        _ => None,
    }
}

/// 0 or 1 as u8.
fn predicate(op: Unary, x: &Value) -> Result<Value> {
    let dtype = x.dtype();
    let never = || Value::full(&TensorType::new(Type::U8, x.shape()), 0.0, &x.device());
    match op {
        Unary::LogicalNot => for_cell!(dtype, T => is_zero::<T>().map(x)),
        Unary::IsNan if dtype.is_complex() => for_complex!(dtype, T => cpu::map(x, |x: T| u8::from(x.is_nan()))),
        Unary::IsInfinity if dtype.is_complex() => {
            for_complex!(dtype, T => cpu::map(x, |x: T| u8::from(x.re.is_infinite() || x.im.is_infinite())))
        }
        _ if dtype.is_float() => for_float!(dtype, T => float_test::<T>(op).map_or_else(never, |test| test.map(x))),
        _ => never(),
    }
}
