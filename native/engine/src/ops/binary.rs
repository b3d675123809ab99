//! Elementwise functions of two operands.

use crate::error::Result;
use crate::ops::Call;
use crate::program::Binary;
use crate::value::Value;

pub(super) fn run(_op: Binary, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}
