//! Choices between elements.

use crate::error::Result;
use crate::ops::Call;
use crate::value::Value;

pub(super) fn select(call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn clip(call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}
