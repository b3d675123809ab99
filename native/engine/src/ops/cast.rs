//! Changes of element type.

use burn_backend::ops::{FloatTensorOps, IntTensorOps};
use burn_dispatch::Dispatch;

use crate::cpu::{self, Float, Int, for_float, for_int};
use crate::device::Device;
use crate::error::Result;
use crate::ops::Call;
use crate::ops::gradient::with_gradient;
use crate::types::Type;
use crate::value::{Value, burn_type, float_type};

pub(super) fn as_type(mut call: Call<'_>) -> Result<Value> {
    let [value] = call.args()?;
    cast(value, call.out()?.dtype)
}

/// The same bits as elements of another type of the same width.
pub(super) fn bitcast(mut call: Call<'_>) -> Result<Value> {
    let [value] = call.args()?;
    let out = call.out()?;
    if value.dtype().bits() != out.dtype.bits() {
        return Err(call.invalid(format!("{} has not the width of {}", out.dtype, value.dtype())));
    }
    burn_type("bitcast", out.dtype, call.device)?;
    let reread = |[value]: [Value; 1]| cpu::reinterpret(&value, out.dtype);
    match value.dtype().is_float() && out.dtype.is_float() {
        true => with_gradient([value], reread, |_, _| Box::new(|_, g| Ok(g))),
        false => reread([value.untracked()]),
    }
}

/// `value` in another element type: floats round to nearest; integers wrap; a float becomes an integer by truncation,
/// NaN as zero, infinities as the extremes of the type, finite numbers out of range by wrapping. The gradient passes
/// between floats and stops at integers.
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
/// [`Error::Unsupported`](crate::Error::Unsupported) when the device lacks the type.
pub fn cast(value: Value, dtype: Type) -> Result<Value> {
    if value.dtype() == dtype {
        return Ok(value);
    }
    let device = Device::Cpu;
    burn_type("as_type", dtype, &device)?;
    match (value.dtype().is_float(), dtype.is_float()) {
        (true, true) => {
            let float = float_type("as_type", dtype, &device)?;
            let forward = |[x]: [Value; 1]| Ok(Value::new(dtype, Dispatch::float_cast(x.into_tensor(), float)));
            with_gradient([value], forward, |_, _| Box::new(|_, g| Ok(g)))
        }
        (true, false) => {
            let x = value.untracked();
            for_float!(x.dtype(), F => for_int!(dtype, I => cpu::map(&x, truncate::<F, I>)))
        }
        (false, true) => {
            let float = float_type("as_type", dtype, &device)?;
            Ok(Value::new(dtype, Dispatch::int_into_float(value.untracked().into_tensor(), float)))
        }
        (false, false) => {
            let x = value.untracked();
            for_int!(x.dtype(), I => for_int!(dtype, J => cpu::map(&x, |x: I| J::wrap(x.widen()))))
        }
    }
}

fn truncate<F: Float, I: Int>(x: F) -> I {
    /// From here on, a float is a multiple of 2^64: all of its low bits are zero.
    const COARSE: f64 = (1u128 << 117) as f64;
    const SMALL: f64 = (1u64 << 63) as f64;
    let x = x.to_f64();
    match x {
        f64::INFINITY => I::max_value(),
        f64::NEG_INFINITY => I::min_value(),
        _ if x.abs() < SMALL => I::wrap((x as i64).into()),
        _ if x.abs() < COARSE => I::wrap(x as i128),
        _ => I::zero(),
    }
}
