//! Changes of element type.

use burn_backend::ops::{FloatTensorOps, IntTensorOps};
use burn_dispatch::Dispatch;

use crate::device::Device;
use crate::error::Result;
use crate::ops::Call;
use crate::types::Type;
use crate::value::{Value, float_type, int_type};

pub(super) fn as_type(mut call: Call<'_>) -> Result<Value> {
    let [value] = call.args()?;
    cast(value, call.out()?.dtype)
}

pub(super) fn bitcast(call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

/// `value` in another element type.
///
/// # Errors
///
/// [`Error::Unsupported`](crate::Error::Unsupported) when the device lacks the type.
pub fn cast(value: Value, dtype: Type) -> Result<Value> {
    let from = value.dtype();
    if from == dtype {
        return Ok(value);
    }
    let device = Device::Cpu;
    let tensor = value.into_tensor();
    let tensor = match (from.is_float(), dtype.is_float()) {
        (true, true) => Dispatch::float_cast(tensor, float_type("as_type", dtype, &device)?),
        (true, false) => Dispatch::float_into_int(tensor, int_type("as_type", dtype, &device)?),
        (false, true) => Dispatch::int_into_float(tensor, float_type("as_type", dtype, &device)?),
        (false, false) => Dispatch::int_cast(tensor, int_type("as_type", dtype, &device)?),
    };
    Ok(Value::new(dtype, tensor))
}
