//! Sorting.

use crate::error::Result;
use crate::ops::Call;
use crate::program::{Sort, TopK};
use crate::value::Value;

pub(super) fn sort(_attrs: &Sort, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn argsort(_attrs: &Sort, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn top_k(_attrs: &TopK, call: Call<'_>) -> Result<Vec<Value>> {
    Err(call.unsupported())
}
