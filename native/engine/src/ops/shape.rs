//! Reshaping and rearranging.

use burn_backend::Slice;

use crate::error::Result;
use crate::ops::{Call, cast, check};
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
    check::one_each(&call, "padding", &attrs.config, value.rank())?;
    if with.len() != 1 {
        return Err(call.invalid(format!("pads with a scalar, got {}", with.ty())));
    }
    let lengths: Option<Vec<usize>> =
        value.shape().iter().zip(&attrs.config).map(|(&length, config)| padded_length(length, config)).collect();
    let Some(lengths) = lengths else {
        return Err(call.invalid(format!("{} cannot be padded by {:?}", value.ty(), attrs.config)));
    };
    check::result_shape(&call, &lengths)?;
    Ok(pad_with(cast(value, dtype)?, cast(with, dtype)?, &attrs.config))
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
    let mut line = vec![1; shape.len() - value.rank()];
    line.extend(value.shape());
    value.reshape(&line).expand(shape)
}

/// `value` with its axes in another order; nothing is done when they already are in that order.
pub(super) fn permute(value: Value, axes: &[usize]) -> Value {
    if axes.is_sorted() { value } else { value.permute(axes) }
}

/// Length of an axis of `length` elements after padding, `None` when it is negative or larger than memory.
pub(super) fn padded_length(length: usize, &[low, high, interior]: &[i64; 3]) -> Option<usize> {
    let dilated = i128::from(dilated_length(length, interior)?);
    usize::try_from(dilated + i128::from(low) + i128::from(high)).ok().filter(|&n| n <= isize::MAX as usize)
}

fn dilated_length(length: usize, interior: i64) -> Option<i64> {
    let gaps = i64::try_from(length.saturating_sub(1)).ok()?.checked_mul(interior)?;
    (interior >= 0).then(|| i64::try_from(length).ok()?.checked_add(gaps))?
}

/// `value` with the elements of `with`, a scalar of its type, between and around its own. `config` must be one that
/// [`padded_length`] accepts.
pub(super) fn pad_with(value: Value, with: Value, config: &[[i64; 3]]) -> Value {
    let crops: Vec<bool> = config.iter().zip(&value.shape()).map(|(c, &n)| crops_first(n, c)).collect();
    let negative = |first: bool| -> Vec<[i64; 2]> {
        let edges = |(&[low, high, _], &crops): (&[i64; 3], &bool)| {
            if crops == first { [low.min(0), high.min(0)] } else { [0, 0] }
        };
        config.iter().zip(&crops).map(edges).collect()
    };
    let value = crop(value, &negative(true));
    let grown: Vec<[i64; 3]> =
        config.iter().map(|&[low, high, interior]| [low.max(0), high.max(0), interior]).collect();
    crop(grow(value, with, &grown), &negative(false))
}

/// Whether the negative edges of an axis can be cut off before anything is copied.
fn crops_first(length: usize, &[low, high, interior]: &[i64; 3]) -> bool {
    interior == 0 && -(i128::from(low.min(0)) + i128::from(high.min(0))) <= length as i128
}

fn grow(value: Value, with: Value, config: &[[i64; 3]]) -> Value {
    let shape = value.shape();
    let lengths: Vec<usize> = shape.iter().zip(config).filter_map(|(&n, c)| padded_length(n, c)).collect();
    if lengths == shape {
        return value;
    }
    let base = with.reshape(&vec![1; shape.len()]).expand(&lengths);
    if value.is_empty() { base } else { base.slice_assign(&places(&shape, config), value) }
}

fn crop(value: Value, edges: &[[i64; 2]]) -> Value {
    if edges.iter().flatten().all(|&edge| edge == 0) {
        return value;
    }
    let shape = value.shape();
    let keep = |(&[low, high], &length): (&[i64; 2], &usize)| range(-low as usize, (length as i64 + high) as usize, 1);
    value.slice(&edges.iter().zip(&shape).map(keep).collect::<Vec<_>>())
}

/// Where the elements of a tensor of `shape` are found after padding that only grows it.
fn places(shape: &[usize], config: &[[i64; 3]]) -> Vec<Slice> {
    let place = |(&length, &[low, _, interior]): (&usize, &[i64; 3])| {
        let (low, step) = (low as usize, interior as usize + 1);
        range(low, low + (length - 1) * step + 1, step)
    };
    shape.iter().zip(config).map(place).collect()
}

/// Burn's slice of `start..end` by `step`.
pub(super) fn range(start: usize, end: usize, step: usize) -> Slice {
    Slice::new(start as isize, Some(end as isize), step as isize)
}
