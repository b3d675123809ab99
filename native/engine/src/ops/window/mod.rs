//! Folds over windows.
//!
//! A window is a box, so a fold over it is a fold along each of its axes in turn.

mod element;
mod line;

use line::{Line, fold_line};

use crate::error::Result;
use crate::ops::{Call, cast, check};
use crate::program::{Fold, WindowReduce, Windows};
use crate::types::Type;
use crate::value::Value;

pub(super) fn reduce(attrs: &WindowReduce, mut call: Call<'_>) -> Result<Value> {
    let [value] = call.args()?;
    if matches!(attrs.fold, Fold::All | Fold::Any) {
        return Err(call.unsupported());
    }
    let lines = lines(&call, &attrs.windows, &value.shape())?;
    check::result_shape(&call, &lines.iter().map(|line| line.count).collect::<Vec<_>>())?;
    let out = call.out()?;
    if out.shape.contains(&0) {
        return Value::full(out, 0.0, call.device);
    }
    let mut folded = lines.into_iter().enumerate().filter(|(_, line)| !line.is_identity());
    let folded = folded.try_fold(cast(value, compute_type(out.dtype))?, |value, (axis, line)| {
        fold_line(&call, value, attrs.fold, axis, line)
    })?;
    cast(folded, out.dtype)
}

/// What the windows do along each axis of a tensor of `shape`.
fn lines(call: &Call<'_>, windows: &Windows, shape: &[usize]) -> Result<Vec<Line>> {
    let Windows { dimensions, padding, strides, dilations } = windows;
    check::steps(call, "dimensions", dimensions, shape.len())?;
    check::steps(call, "strides", strides, shape.len())?;
    check::steps(call, "dilations", dilations, shape.len())?;
    check::one_each(call, "padding", padding, shape.len())?;
    let line = |axis: usize| {
        let line = Line::new(shape[axis], dimensions[axis], padding[axis], strides[axis], dilations[axis]);
        line.ok_or_else(|| call.invalid(format!("windows {windows:?} do not fit in shape {shape:?}")))
    };
    (0..shape.len()).map(line).collect()
}

/// The type that windows are folded in.
fn compute_type(out: Type) -> Type {
    if matches!(out, Type::BF16 | Type::F16) { Type::F32 } else { out }
}
