//! Folds over windows.
//!
//! A window is a box, so a fold over it is a fold along each of its axes in turn. The last axis comes first: then the last of
//! equal extrema along each axis is the last one of the window, to which Nx gives the gradient.

use crate::cpu::{
    self, Max, Min, Product, Share, Sum, WindowAxis, fold_windows, for_cell, for_number, window_gradient,
};
use crate::error::Result;
use crate::ops::gradient::with_gradient;
use crate::ops::order::Order;
use crate::ops::{Call, cast, check};
use crate::program::{Fold, WindowReduce, Windows};
use crate::types::Type;
use crate::value::Value;

pub(super) fn reduce(attrs: &WindowReduce, mut call: Call<'_>) -> Result<Value> {
    let [value] = call.args()?;
    if matches!(attrs.fold, Fold::All | Fold::Any) {
        return Err(call.unsupported());
    }
    let axes = window_axes(&call, &attrs.windows, &value.shape())?;
    check::result_shape(&call, &axes.iter().map(|axis| axis.count).collect::<Vec<_>>())?;
    let out = call.out()?;
    if out.shape.contains(&0) {
        return Value::full(out, 0.0, call.device);
    }
    let value = cast(value, compute_type(out.dtype))?;
    let folded = match order_of(&value, &axes) {
        Some(order) => order.undo(fold_axes(order.apply(value), attrs.fold, &order.list(&axes))?),
        None => fold_axes(value, attrs.fold, &axes)?,
    };
    cast(folded, out.dtype)
}

/// The order in which the axes of `value` lie in memory, where it is another one and means the same windows.
pub(super) fn order_of(value: &Value, axes: &[WindowAxis]) -> Option<Order> {
    Order::of(value).filter(|order| order.keeps(|axis| !axes[axis].is_identity()))
}

fn fold_axes(value: Value, fold: Fold, axes: &[WindowAxis]) -> Result<Value> {
    let mut folded: Vec<_> = axes.iter().enumerate().rev().filter(|(_, axis)| !axis.is_identity()).collect();
    if folded.is_empty() && matches!(fold, Fold::Sum | Fold::Product) && !value.dtype().is_int() {
        // A sum starts from 0 and a product from 1, which changes -0, and zeros of complex numbers.
        folded.extend(axes.iter().enumerate().next());
    }
    folded.into_iter().try_fold(value, |value, (at, axis)| fold_axis(value, fold, at, *axis))
}

fn fold_axis(value: Value, fold: Fold, at: usize, axis: WindowAxis) -> Result<Value> {
    let dtype = value.dtype();
    let forward = |[x]: [Value; 1]| match fold {
        Fold::Max => for_number!(dtype, T => fold_windows::<T, Max>(&x, at, axis)),
        Fold::Min => for_number!(dtype, T => fold_windows::<T, Min>(&x, at, axis)),
        Fold::Product => for_cell!(dtype, T => fold_windows::<T, Product>(&x, at, axis)),
        _ => for_cell!(dtype, T => fold_windows::<T, Sum>(&x, at, axis)),
    };
    let shape = value.shape();
    with_gradient([value], forward, |[x], y| {
        let share = match fold {
            Fold::Max | Fold::Min => Share::LastEqual(x.clone(), y.clone()),
            Fold::Product => Share::Others(x.clone()),
            _ => Share::Each,
        };
        Box::new(
            move |_, g| cpu::for_types!(dtype, T => window_gradient::<T>(&shape, &g, &share, (at, axis)), F32 f32, F64 f64),
        )
    })
}

/// What the windows do along each axis of a tensor of `shape`.
pub(crate) fn window_axes(call: &Call<'_>, windows: &Windows, shape: &[usize]) -> Result<Vec<WindowAxis>> {
    let Windows { dimensions, padding, strides, dilations } = windows;
    check::steps(call, "dimensions", dimensions, shape.len())?;
    check::steps(call, "strides", strides, shape.len())?;
    check::steps(call, "dilations", dilations, shape.len())?;
    check::one_each(call, "padding", padding, shape.len())?;
    let axis = |axis: usize| {
        let window = (dimensions[axis], dilations[axis]);
        let cut = WindowAxis::new((shape[axis], 1), window, padding[axis], strides[axis]);
        cut.ok_or_else(|| call.invalid(format!("windows {windows:?} do not fit in shape {shape:?}")))
    };
    (0..shape.len()).map(axis).collect()
}

/// The type that windows are folded in.
pub(super) fn compute_type(out: Type) -> Type {
    if matches!(out, Type::BF16 | Type::F16) { Type::F32 } else { out }
}
