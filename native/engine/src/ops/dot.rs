//! Tensor contraction.

use crate::error::Result;
use crate::ops::Call;
use crate::program::Dot;
use crate::value::Value;

pub(super) fn dot(_attrs: &Dot, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}
