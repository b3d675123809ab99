//! Parts of what was put together from parts: the parts themselves.

use super::writer::Writer;
use crate::program::{Axes, Axis, Binary, Constant, DynamicSlice, Instruction, Iota, Op, Pad, Slice};
use crate::scalar;
use crate::types::TensorType;

/// A slice of neighbours as what it was before it became a part of a larger tensor.
pub(super) fn slice(writer: &mut Writer, attrs: &Slice, x: usize, out: &TensorType) -> Option<usize> {
    if attrs.strides.iter().any(|&stride| stride != 1) {
        return None;
    }
    let Instruction { op, inputs, .. } = writer.maker(x)?;
    let (part, starts) = match op {
        Op::Constant(constant) => {
            let constant = constant.clone();
            return Some(writer.one(Op::Constant(constant), vec![], out));
        }
        Op::Iota(Iota { axis: None }) => return of_numbers(writer, attrs, x, out),
        Op::Stack(Axis { axis }) => {
            let part = of_stack(writer, attrs, *axis, inputs, out)?;
            return Some(writer.one(Op::Reshape, vec![part], out));
        }
        Op::Concatenate(Axis { axis }) => of_joined(writer, attrs, *axis, inputs)?,
        Op::PutSlice => {
            let (&[base, part], places) = inputs.split_first_chunk::<2>()?;
            let starts = starts(writer, &writer.ty(base).shape, &writer.ty(part).shape, places)?;
            match place(attrs, &starts, &writer.ty(part).shape)? {
                Place::Beside => (base, attrs.starts.clone()),
                Place::Inside(starts) => (part, starts),
            }
        }
        Op::Pad(Pad { config }) => {
            let &[part, around] = inputs.as_slice() else { return None };
            match place(attrs, &padded(config)?, &writer.ty(part).shape)? {
                Place::Beside => return repeated(writer, around, out),
                Place::Inside(starts) => (part, starts),
            }
        }
        _ => return None,
    };
    cut(writer, attrs, starts, part, out)
}

/// A slice of which it is known where it starts.
pub(super) fn dynamic_slice(
    writer: &mut Writer,
    attrs: &DynamicSlice,
    inputs: &[usize],
    out: &TensorType,
) -> Option<usize> {
    let (&x, places) = inputs.split_first()?;
    let starts = starts(writer, &writer.ty(x).shape, &attrs.lengths, places)?;
    let attrs = Slice { starts, lengths: attrs.lengths.clone(), strides: attrs.strides.clone() };
    slice(writer, &attrs, x, out).or_else(|| Some(writer.one(Op::Slice(attrs), vec![x], out)))
}

/// What a pad of no width is put around.
pub(super) fn pad(writer: &Writer, attrs: &Pad, x: usize, out: &TensorType) -> Option<usize> {
    (attrs.config.iter().all(|width| *width == [0, 0, 0]) && *writer.ty(x) == *out).then_some(x)
}

fn of_stack(writer: &Writer, attrs: &Slice, axis: usize, parts: &[usize], out: &TensorType) -> Option<usize> {
    let part = *parts.get(attrs.starts[axis]).filter(|_| attrs.lengths[axis] == 1)?;
    let others = [&attrs.lengths[..axis], &attrs.lengths[axis + 1..]].concat();
    (writer.ty(part).shape == others && writer.ty(part).dtype == out.dtype).then_some(part)
}

/// Some of the first axis's lines of numbers that count all elements: they count from the first one on.
fn of_numbers(writer: &mut Writer, attrs: &Slice, x: usize, out: &TensorType) -> Option<usize> {
    let (first, rest) = attrs.starts.split_first()?;
    let line: usize = out.shape[1..].iter().product();
    if rest.iter().any(|&start| start != 0) || writer.ty(x).shape[1..] != out.shape[1..] || !out.dtype.is_int() {
        return None;
    }
    let count = (first * line) as f64;
    let bytes = scalar::from_f64(out.dtype, count);
    if scalar::to_f64(out.dtype, &bytes)? != count {
        return None;
    }
    // As a line, which is what is left where the first axis is dropped.
    let flat = TensorType::new(out.dtype, vec![out.shape.iter().product()]);
    let mut numbers = writer.one(Op::Iota(Iota { axis: None }), vec![], &flat);
    if count > 0.0 {
        let before = writer.one(Op::Constant(Constant { bytes }), vec![], &TensorType::new(out.dtype, vec![]));
        numbers = writer.one(Op::Binary(Binary::Add), vec![numbers, before], &flat);
    }
    Some(writer.one(Op::Reshape, vec![numbers], out))
}

/// The part that holds a slice, and where the slice starts in it.
fn of_joined(writer: &Writer, attrs: &Slice, axis: usize, parts: &[usize]) -> Option<(usize, Vec<usize>)> {
    let mut starts = attrs.starts.clone();
    for &part in parts {
        let length = writer.ty(part).shape[axis];
        if starts[axis] < length {
            return (starts[axis] + attrs.lengths[axis] <= length).then_some((part, starts));
        }
        starts[axis] -= length;
    }
    None
}

/// Where a part of these lengths starts at places that are known: it is moved to where there is room for it.
pub(super) fn starts(writer: &Writer, whole: &[usize], lengths: &[usize], places: &[usize]) -> Option<Vec<usize>> {
    let start = |(axis, &place): (usize, &usize)| {
        let place = scalar::to_i128(writer.ty(place).dtype, &writer.constant(place)?.bytes)?;
        let room = whole[axis].checked_sub(lengths[axis])?;
        usize::try_from(place.clamp(0, room as i128)).ok()
    };
    places.iter().enumerate().map(start).collect()
}

/// Where a part starts that lies among others, its elements side by side.
fn padded(config: &[[i64; 3]]) -> Option<Vec<usize>> {
    let start = |&[low, high, interior]: &[i64; 3]| usize::try_from(low).ok().filter(|_| high >= 0 && interior == 0);
    config.iter().map(start).collect()
}

/// Where a slice lies that is not of both a part and what is around it.
enum Place {
    Beside,
    /// In the part, from there on.
    Inside(Vec<usize>),
}

fn place(attrs: &Slice, starts: &[usize], lengths: &[usize]) -> Option<Place> {
    let end = |axis: usize| attrs.starts[axis] + attrs.lengths[axis];
    let is_beside = |axis: usize| end(axis) <= starts[axis] || attrs.starts[axis] >= starts[axis] + lengths[axis];
    let is_inside = |axis: usize| attrs.starts[axis] >= starts[axis] && end(axis) <= starts[axis] + lengths[axis];
    let mut axes = 0..starts.len();
    if axes.clone().any(is_beside) {
        return Some(Place::Beside);
    }
    let from = axes.clone().map(|axis| attrs.starts[axis].saturating_sub(starts[axis])).collect();
    axes.all(is_inside).then_some(Place::Inside(from))
}

/// A tensor of one number.
fn repeated(writer: &mut Writer, number: usize, out: &TensorType) -> Option<usize> {
    if writer.ty(number).dtype != out.dtype {
        return None;
    }
    let op = match writer.constant(number) {
        Some(constant) => return Some(writer.one(Op::Constant(constant.clone()), vec![], out)),
        None => Op::Broadcast(Axes { axes: vec![] }),
    };
    Some(writer.one(op, vec![number], out))
}

/// The slice of a value that starts there, itself where that is all of it.
fn cut(writer: &mut Writer, attrs: &Slice, starts: Vec<usize>, x: usize, out: &TensorType) -> Option<usize> {
    if writer.ty(x).dtype != out.dtype {
        return None;
    }
    if writer.ty(x).shape == attrs.lengths {
        return Some(x);
    }
    let attrs = Slice { starts, ..attrs.clone() };
    match slice(writer, &attrs, x, out) {
        Some(found) => Some(found),
        None => Some(writer.one(Op::Slice(attrs), vec![x], out)),
    }
}
