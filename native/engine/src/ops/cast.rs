//! Changes of element type.

use num_complex::Complex;

use crate::cpu::{self, Float, Int, Kernel, Map, Number, for_float, for_int, for_number};
use crate::error::{Error, Result};
use crate::float8::Format;
use crate::ops::Call;
use crate::ops::autodiff::is_tracked;
use crate::ops::gradient::with_gradient;
use crate::scalar::wrap_byte;
use crate::types::{Class, Type};
use crate::value::Value;

pub(super) fn as_type(mut call: Call<'_>) -> Result<Value> {
    let [value] = call.args()?;
    cast(value, call.out()?.dtype)
}

/// The same bits as elements of another type of the same width.
pub(super) fn bitcast(mut call: Call<'_>) -> Result<Value> {
    let [value] = call.args()?;
    let out = call.out()?;
    let (from, to) = (value.dtype(), out.dtype);
    if from.bits() != to.bits() {
        return Err(call.invalid(format!("{to} has not the width of {from}")));
    }
    if from.is_complex() || to.is_complex() {
        return Err(call.invalid("complex numbers are not reread as others"));
    }
    let reread = |[value]: [Value; 1]| match to.bits() {
        // The bits of a byte that hold no number depend on the type.
        ..8 => narrow(&cpu::reinterpret(&value, from.widened())?, to),
        _ => cpu::reinterpret(&value, to),
    };
    match from.is_float() && to.is_float() {
        true => with_gradient([value], reread, |_, _| Box::new(|_, g| Ok(g))),
        false => reread([value.untracked()]),
    }
}

/// `value` in another element type: floats round to nearest; integers wrap; a float becomes an integer by truncation,
/// NaN as zero, infinities as the extremes of the type, finite numbers out of range by wrapping; of a complex number the
/// real part stays. The gradient passes between floats and stops at integers.
///
/// ```
/// use ex_burn_engine::{Device, TensorType, Type, Value, ops};
///
/// let bytes = [-1.5f32, 300.0].into_iter().flat_map(f32::to_le_bytes).collect();
/// let value = Value::from_bytes(&TensorType::new(Type::F32, [2]), bytes, &Device::Cpu)?;
/// assert_eq!(ops::cast(value, Type::U8)?.into_bytes()?, [255, 44]);
/// # Ok::<(), ex_burn_engine::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Invalid`](crate::Error::Invalid) when a gradient would have to pass through a complex number or an 8-bit float.
pub fn cast(value: Value, dtype: Type) -> Result<Value> {
    let from = value.dtype();
    if from == dtype {
        return Ok(value);
    }
    if value.is_spread() {
        let shape = value.shape();
        return Ok(cast(value.unspread(), dtype)?.expand(&shape));
    }
    if dtype.is_complex() || Format::of(dtype).is_some() {
        refuse_gradient(&value, dtype)?;
    }
    match (from, dtype) {
        _ if from.is_complex() && dtype.is_complex() => Ok(cast(value.into_parts(), dtype.part())?.relabel(dtype)),
        _ if from.is_complex() => cast(value.part(0), dtype),
        _ if dtype.is_complex() => to_complex(value, dtype),
        _ if from.is_packed() => cast(widen(value)?, dtype),
        _ if dtype.is_packed() => narrow(&value.untracked(), dtype),
        _ => cast_plain(value, dtype),
    }
}

fn refuse_gradient(value: &Value, dtype: Type) -> Result<()> {
    if !value.dtype().is_float() || !is_tracked(value) {
        return Ok(());
    }
    Err(Error::invalid("as_type", format!("autodiff follows real numbers of 16 bits and more, not {dtype}")))
}

/// Between types that are computed in. The gradient passes between floats.
fn cast_plain(value: Value, dtype: Type) -> Result<Value> {
    let run = |[x]: [Value; 1]| for_number!(x.dtype(), T => for_number!(dtype, R => conversion::<T, R>().map(&x)));
    match value.dtype().is_float() && dtype.is_float() {
        true => with_gradient([value], run, |_, _| Box::new(|_, g| Ok(g))),
        false => run([value.untracked()]),
    }
}

/// The loop that casts, between types that are computed in.
pub(super) fn kernel(from: Type, to: Type) -> Option<Kernel> {
    for_number!(from, T => for_number!(to, R => Ok(conversion::<T, R>().kernel()))).ok()
}

fn conversion<T: Number, R: Number>() -> Map<T, R> {
    Map::new(|x: T| x.convert::<R>())
}

fn to_complex(value: Value, dtype: Type) -> Result<Value> {
    let x = cast(value, dtype.part())?;
    match dtype {
        Type::C64 => cpu::map(&x, |re: f32| Complex::new(re, 0.0)),
        _ => cpu::map(&x, |re: f64| Complex::new(re, 0.0)),
    }
}

/// A packed value in the type that it is computed in.
fn widen(value: Value) -> Result<Value> {
    let dtype = value.dtype();
    match Format::of(dtype) {
        Some(format) => cpu::map(&value.relabel(Type::U8), |bits: u8| format.decode(bits)),
        None => Ok(value.relabel(dtype.widened())),
    }
}

/// A value packed into `dtype`.
fn narrow(x: &Value, dtype: Type) -> Result<Value> {
    let bytes = match Format::of(dtype) {
        Some(format) if x.dtype().is_float() => {
            for_float!(x.dtype(), F => cpu::map(x, |x: F| format.encode(x.to_f64())))
        }
        Some(_) => return narrow(&cast(x.clone(), Type::F64)?, dtype),
        None if x.dtype().is_float() => for_float!(x.dtype(), F => cpu::map(x, |x: F| truncate_byte(x, dtype))),
        None => for_int!(x.dtype(), I => cpu::map(x, |x: I| wrap_byte(dtype, x.widen() as u8))),
    };
    cpu::reinterpret(&bytes?, dtype)
}

/// The whole part of a float as a sub-byte integer.
fn truncate_byte<F: Float>(x: F, dtype: Type) -> u8 {
    let extreme = |below_zero: bool| match (dtype.class(), below_zero) {
        (Class::Signed, _) => (1u8 << (dtype.bits() - 1)).wrapping_sub(u8::from(!below_zero)),
        (_, below_zero) => {
            if below_zero {
                0
            } else {
                u8::MAX
            }
        }
    };
    let byte = match x.to_f64() {
        wide if wide.is_infinite() => extreme(wide < 0.0),
        wide => i64::from_f64(wide) as u8,
    };
    wrap_byte(dtype, byte)
}
