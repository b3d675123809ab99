//! Reading and writing parts of a tensor.

mod gather;
mod positions;

pub(super) use gather::{gather, indexed_add, indexed_put, take, take_along_axis};
pub(super) use positions::places;

use crate::cpu;
use crate::error::Result;
use crate::ops::shape::range;
use crate::ops::{Call, cast, check};
use crate::program::{DynamicSlice, Slice};
use crate::scalar;
use crate::value::Value;

/// So many times smaller than the whole is a slice that is copied.
const SMALL: usize = 4;

/// Most elements that are put one by one where they do not lie in order; more are brought in order first, by all cores.
const MANY: usize = 128 * 1024;

pub(super) fn slice(attrs: &Slice, mut call: Call<'_>) -> Result<Value> {
    let [value] = call.args()?;
    check::one_each(&call, "start", &attrs.starts, value.rank())?;
    cut(&call, value, &attrs.starts, &attrs.lengths, &attrs.strides)
}

/// Operands: tensor, then one start for each axis, which is clamped so that the slice fits.
pub(super) fn dynamic_slice(attrs: &DynamicSlice, mut call: Call<'_>) -> Result<Value> {
    let mut operands = check::at_least(&mut call, 1)?;
    let starts = operands.split_off(1);
    let [value] = operands.try_into().map_err(|_| call.invalid("has no tensor"))?;
    check::one_each(&call, "length", &attrs.lengths, value.rank())?;
    let starts = clamped_starts(&call, &starts, &value, &attrs.lengths)?;
    let whole = value.len();
    let slice = cut(&call, value, &starts, &attrs.lengths, &attrs.strides)?;
    // One that holds the memory of a long sequence would have a loop copy all of it where it writes to it.
    Ok(if slice.len() <= whole / SMALL && !call.lends { slice.contiguous() } else { slice })
}

/// Operands: tensor, slice, then one start for each axis, which is clamped so that the slice fits.
pub(super) fn put_slice(mut call: Call<'_>) -> Result<Value> {
    let mut operands = check::at_least(&mut call, 2)?;
    let starts = operands.split_off(2);
    let [value, part] = operands.try_into().map_err(|_| call.invalid("has no slice"))?;
    let dtype = call.out()?.dtype;
    if part.rank() != value.rank() {
        return Err(call.invalid(format!("{} has not the rank of {}", part.ty(), value.ty())));
    }
    check::result_shape(&call, &value.shape())?;
    let lengths = part.shape();
    let starts = clamped_starts(&call, &starts, &value, &lengths)?;
    let (value, part) = (cast(value, dtype)?, cast(part, dtype)?);
    if part.is_empty() {
        return Ok(value);
    }
    let part = if part.len() > MANY { part.contiguous() } else { part };
    // Burn copies on one core what others hold too.
    let mut value = value.into_own();
    if cpu::put(&mut value, &part, &starts) {
        return Ok(value);
    }
    let ranges: Vec<_> = starts.iter().zip(&lengths).map(|(&start, &length)| range(start, start + length, 1)).collect();
    // Burn copies element by element what is not in order.
    Ok(value.slice_assign(&ranges, part.contiguous()))
}

fn cut(call: &Call<'_>, value: Value, starts: &[usize], lengths: &[usize], strides: &[usize]) -> Result<Value> {
    let shape = value.shape();
    check::one_each(call, "length", lengths, shape.len())?;
    check::steps(call, "strides", strides, shape.len())?;
    let fits = |axis: usize| starts[axis].checked_add(lengths[axis]).is_some_and(|end| end <= shape[axis]);
    if !(0..shape.len()).all(fits) {
        return Err(call.invalid(format!("{lengths:?} elements from {starts:?} are not all in {}", value.ty())));
    }
    let cut: Vec<usize> = lengths.iter().zip(strides).map(|(&length, &stride)| length.div_ceil(stride)).collect();
    check::result_shape(call, &cut)?;
    Ok(if cut == shape { value } else { value.cut(starts, lengths, strides) })
}

/// The start of each axis, moved so that `lengths` elements from it are inside of `value`.
fn clamped_starts(call: &Call<'_>, starts: &[Value], value: &Value, lengths: &[usize]) -> Result<Vec<usize>> {
    check::one_each(call, "start", starts, value.rank())?;
    let clamp = |(start, (&size, &length)): (&Value, (&usize, &usize))| {
        let room = size.checked_sub(length);
        let room = room.ok_or_else(|| call.invalid(format!("{lengths:?} elements do not fit in {}", value.ty())))?;
        let place = |start: i128| start.clamp(0, room as i128) as usize;
        if let Some(start) = start.element().and_then(|bytes| scalar::to_i128(start.dtype(), bytes)) {
            return Ok(place(start));
        }
        match positions::read(call, start)?[..] {
            [start] => Ok(place(start)),
            _ => Err(call.invalid(format!("a start must be a scalar, got {}", start.ty()))),
        }
    };
    starts.iter().zip(value.shape().iter().zip(lengths)).map(clamp).collect()
}
