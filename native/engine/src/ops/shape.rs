//! Reshaping and rearranging.

use crate::error::Result;
use crate::ops::Call;
use crate::program::{Axes, Axis, Pad};
use crate::value::Value;

pub(super) fn reshape(call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn broadcast(_attrs: &Axes, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn transpose(_attrs: &Axes, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn reverse(_attrs: &Axes, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn pad(_attrs: &Pad, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn concatenate(_attrs: &Axis, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn stack(_attrs: &Axis, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

/// `value` repeated to `shape`, its axes aligned with the last ones, as NumPy broadcasts.
pub fn broadcast_to(value: Value, shape: &[usize]) -> Value {
    let mut line = vec![1; shape.len() - value.rank()];
    line.extend(value.shape());
    value.reshape(&line).expand(shape)
}
