//! Folds over windows.

use crate::error::Result;
use crate::ops::Call;
use crate::program::WindowReduce;
use crate::value::Value;

pub(super) fn reduce(_attrs: &WindowReduce, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}
