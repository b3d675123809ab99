//! What the gradient sees: annotations of programs, and gradients of operations that Burn does not know.

mod custom;
mod record;
mod seed;

pub(super) use record::{Pullback, is_tracked, record};
pub(crate) use seed::seeded;

use crate::error::Result;
use crate::ops::Call;
use crate::program::CustomGrad;
use crate::value::Value;

pub(super) fn stop_grad(mut call: Call<'_>) -> Result<Value> {
    let [value] = call.args()?;
    Ok(value.untracked())
}

pub(super) fn custom_grad(attrs: &CustomGrad, call: Call<'_>) -> Result<Value> {
    custom::custom_grad(attrs.inputs, call)
}
