//! Reductions and scans.

use crate::error::Result;
use crate::ops::Call;
use crate::program::{ArgReduce, Cumulative, Reduce};
use crate::value::Value;

pub(super) fn reduce(_attrs: &Reduce, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn arg_reduce(_attrs: &ArgReduce, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}

pub(super) fn cumulative(_attrs: &Cumulative, call: Call<'_>) -> Result<Value> {
    Err(call.unsupported())
}
