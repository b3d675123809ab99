//! Elementwise functions of one operand.

use crate::error::Result;
use crate::ops::Call;
use crate::program::Unary;
use crate::value::Value;

pub(super) fn run(_op: Unary, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}
