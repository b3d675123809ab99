//! Convolution.

use crate::error::Result;
use crate::ops::Call;
use crate::program::Conv;
use crate::value::Value;

pub(super) fn conv(_attrs: &Conv, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}
