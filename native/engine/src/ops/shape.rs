//! Reshaping and rearranging.

use std::ops::Range;

use burn_backend::Slice;

use crate::error::Result;
use crate::ops::{Call, cast, check, memory};
use crate::program::{Axes, Axis, Pad};
use crate::value::Value;

pub(super) fn reshape(mut call: Call<'_>) -> Result<Value> {
    let [value] = call.args()?;
    let out = call.out()?;
    if out.checked_len() != Some(value.len()) {
        return Err(call.invalid(format!("{} has not the elements of {out}", value.ty())));
    }
    Ok(value.reshape(&out.shape))
}

/// Axis `i` of the operand becomes axis `attrs.axes[i]` of the result.
pub(super) fn broadcast(attrs: &Axes, mut call: Call<'_>) -> Result<Value> {
    let [value] = call.args()?;
    let out = call.out()?;
    check::one_each(&call, "axis", &attrs.axes, value.rank())?;
    let mut order: Vec<usize> = (0..value.rank()).collect();
    order.sort_by_key(|&i| attrs.axes[i]);
    let mut line = vec![1; out.shape.len()];
    for (&axis, &length) in attrs.axes.iter().zip(&value.shape()) {
        match out.shape.get(axis) {
            Some(&to) if length == 1 || length == to => line[axis] = length,
            _ => return Err(call.invalid(format!("{} does not broadcast to {out} by {:?}", value.ty(), attrs.axes))),
        }
    }
    if order.windows(2).any(|pair| attrs.axes[pair[0]] == attrs.axes[pair[1]]) {
        return Err(call.invalid(format!("axes {:?} repeat an axis", attrs.axes)));
    }
    Ok(permute(value, &order).reshape(&line).expand(&out.shape))
}

pub(super) fn transpose(attrs: &Axes, mut call: Call<'_>) -> Result<Value> {
    let [value] = call.args()?;
    check::one_each(&call, "axis", &attrs.axes, value.rank())?;
    check::axes(&call, &attrs.axes, &value)?;
    Ok(permute(value, &attrs.axes))
}

pub(super) fn reverse(attrs: &Axes, mut call: Call<'_>) -> Result<Value> {
    let [value] = call.args()?;
    check::axes(&call, &attrs.axes, &value)?;
    if attrs.axes.is_empty() || value.is_empty() { Ok(value) } else { Ok(value.flip(&attrs.axes)) }
}

pub(super) fn pad(attrs: &Pad, mut call: Call<'_>) -> Result<Value> {
    let [value, with] = call.args()?;
    let dtype = call.out()?.dtype;
    if with.len() != 1 {
        return Err(call.invalid(format!("pads with a scalar, got {}", with.ty())));
    }
    let axes = padded_axes(&call, &value.shape(), &attrs.config)?;
    check::result_shape(&call, &axes.iter().map(|axis| axis.length).collect::<Vec<_>>())?;
    Ok(pad_with(cast(value, dtype)?, cast(with, dtype)?, &axes))
}

/// What `[low, high, interior]` padding of each axis makes of a tensor of `shape`.
pub(super) fn padded_axes(call: &Call<'_>, shape: &[usize], config: &[[i64; 3]]) -> Result<Vec<PaddedAxis>> {
    check::one_each(call, "padding", config, shape.len())?;
    let axes = shape.iter().zip(config).map(|(&length, config)| PaddedAxis::new(length, config));
    let axes: Option<Vec<PaddedAxis>> = axes.collect();
    let axes = axes.ok_or_else(|| call.invalid(format!("shape {shape:?} cannot be padded by {config:?}")))?;
    let lengths: Vec<usize> = axes.iter().map(|axis| axis.length).collect();
    memory::ensure(call, memory::bytes(&lengths, call.out()?.dtype.size()))?;
    Ok(axes)
}

pub(super) fn concatenate(attrs: &Axis, mut call: Call<'_>) -> Result<Value> {
    let parts = check::at_least(&mut call, 1)?;
    check::axes(&call, &[attrs.axis], &parts[0])?;
    join(call, parts, attrs.axis)
}

pub(super) fn stack(attrs: &Axis, mut call: Call<'_>) -> Result<Value> {
    let parts = check::at_least(&mut call, 1)?;
    let with_axis = |part: Value| {
        let mut shape = part.shape();
        if attrs.axis > shape.len() {
            return Err(call.invalid(format!("{} has no place for axis {}", part.ty(), attrs.axis)));
        }
        shape.insert(attrs.axis, 1);
        Ok(part.reshape(&shape))
    };
    let parts = parts.into_iter().map(with_axis).collect::<Result<_>>()?;
    join(call, parts, attrs.axis)
}

fn join(call: Call<'_>, parts: Vec<Value>, axis: usize) -> Result<Value> {
    let out = call.out()?;
    let mut shape = parts[0].shape();
    shape[axis] = 0;
    for part in &parts {
        let mut rest = part.shape();
        let length = if axis < rest.len() { std::mem::replace(&mut rest[axis], shape[axis]) } else { 0 };
        if rest != shape {
            return Err(call.invalid(format!("{} does not fit {} along axis {axis}", part.ty(), parts[0].ty())));
        }
        shape[axis] += length;
    }
    check::result_shape(&call, &shape)?;
    let parts = parts.into_iter().map(|part| cast(part, out.dtype)).collect::<Result<_>>()?;
    Ok(Value::cat(parts, axis))
}

/// `value` repeated to `shape`, its axes aligned with the last ones, as NumPy broadcasts.
pub fn broadcast_to(value: Value, shape: &[usize]) -> Value {
    if value.has_shape(shape) {
        return value;
    }
    let mut line = vec![1; shape.len() - value.rank()];
    line.extend(value.shape());
    value.reshape(&line).expand(shape)
}

/// `value` with its axes in another order; nothing is done when they already are in that order.
pub(super) fn permute(value: Value, axes: &[usize]) -> Value {
    if axes.is_sorted() { value } else { value.permute(axes) }
}

/// `value` with the elements of `with`, a scalar of its type, between and around its own.
pub(super) fn pad_with(value: Value, with: Value, axes: &[PaddedAxis]) -> Value {
    let shape = value.shape();
    let kept: Vec<Slice> = axes.iter().map(|axis| range(axis.kept.start, axis.kept.end, 1)).collect();
    let kept_shape: Vec<usize> = axes.iter().map(|axis| axis.kept.len()).collect();
    let padded: Vec<usize> = axes.iter().map(|axis| axis.length).collect();
    let value = if kept_shape == shape { value } else { value.slice(&kept) };
    if kept_shape == padded {
        return value;
    }
    let base = with.reshape(&vec![1; shape.len()]).expand(&padded);
    if value.is_empty() {
        return base;
    }
    let places: Vec<Slice> = axes.iter().map(PaddedAxis::places).collect();
    base.slice_assign(&places, value)
}

/// Where the elements of an axis are found after padding.
#[derive(Clone)]
pub(super) struct PaddedAxis {
    /// Elements after padding.
    pub(super) length: usize,
    /// The elements that were not cropped.
    kept: Range<usize>,
    /// Place of the first of them.
    first: usize,
    /// Distance of neighbours.
    step: usize,
}

impl PaddedAxis {
    /// The axis of `length` elements after padding; `None` when its length becomes negative or larger than memory.
    fn new(length: usize, &[low, high, interior]: &[i64; 3]) -> Option<Self> {
        let (low, step, length) = (i128::from(low), i128::from(interior) + 1, length as i128);
        let dilated = if length == 0 { 0 } else { (length - 1) * step + 1 };
        let padded = dilated + low + i128::from(high);
        if step < 1 || !(0..=isize::MAX as i128).contains(&padded) {
            return None;
        }
        // Element `i` goes to the place `low + i * step`.
        let elements_before = |place: i128| (place - low + step - 1).div_euclid(step).clamp(0, length) as usize;
        let kept = elements_before(0)..elements_before(padded);
        let first = if kept.is_empty() { 0 } else { (low + kept.start as i128 * step) as usize };
        let step = if kept.len() < 2 { 1 } else { step as usize };
        Some(Self { length: padded as usize, kept, first, step })
    }

    fn places(&self) -> Slice {
        range(self.first, self.first + (self.kept.len() - 1) * self.step + 1, self.step)
    }
}

/// Burn's slice of `start..end` by `step`.
pub(super) fn range(start: usize, end: usize, step: usize) -> Slice {
    Slice::new(start as isize, Some(end as isize), step as isize)
}
