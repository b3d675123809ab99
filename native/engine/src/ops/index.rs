//! Reading and writing at positions.

use crate::error::Result;
use crate::ops::Call;
use crate::program::{Axes, Axis, DynamicSlice, Slice};
use crate::value::Value;

pub(super) fn slice(_attrs: &Slice, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn dynamic_slice(_attrs: &DynamicSlice, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn put_slice(call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn gather(_attrs: &Axes, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn indexed_add(_attrs: &Axes, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn indexed_put(_attrs: &Axes, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn take(_attrs: &Axis, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn take_along_axis(_attrs: &Axis, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}
