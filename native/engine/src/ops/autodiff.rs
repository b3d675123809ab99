//! Annotations that only the gradient sees.

use crate::error::Result;
use crate::ops::Call;
use crate::program::CustomGrad;
use crate::value::Value;

pub(super) fn stop_grad(call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn custom_grad(_attrs: &CustomGrad, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}
