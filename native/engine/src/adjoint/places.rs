//! Elements that are read and written at places.

use super::builder::Builder;
use super::{Gradients, Site};
use crate::program::{Axes, Axis, Binary, DynamicSlice, Iota, Op};
use crate::types::Type;

/// The gradient among zeros, where the slice was.
pub(super) fn dynamic_slice(b: &mut Builder, attrs: &DynamicSlice, site: &Site) -> Option<Gradients> {
    if attrs.strides.iter().any(|&step| step != 1) {
        return None;
    }
    let whole = b.zeros_like(site.operand(0), site.g);
    let inputs = [&[whole, site.g], &site.instruction.inputs[1..]].concat();
    Some(vec![(0, b.emit_like(Op::PutSlice, &inputs, whole))])
}

/// What was written over gets nothing, what was written the rest. That is taken first, so that the whole can be written over.
pub(super) fn put_slice(b: &mut Builder, site: &Site) -> Gradients {
    let (zeros, starts) = (b.zeros_like(site.operand(1), site.g), &site.instruction.inputs[2..]);
    let lengths = b.shape(zeros);
    let slice = Op::DynamicSlice(DynamicSlice { strides: vec![1; lengths.len()], lengths });
    let part = b.emit_like(slice, &[&[site.g], starts].concat(), zeros);
    let rest = b.emit_like(Op::PutSlice, &[&[site.g, zeros], starts].concat(), site.g);
    vec![(0, rest), (1, part)]
}

/// The gradient of what elements are read from, added to the `sum` that it has so far: nothing else than those is written.
/// `None` for other operations, and where the sum is of a type that is too narrow.
pub(super) fn add_to(b: &mut Builder, sum: usize, site: &Site) -> Option<usize> {
    if !matches!(b.ty(sum).dtype, Type::F32 | Type::F64) {
        return None;
    }
    match &site.instruction.op {
        Op::DynamicSlice(attrs) if attrs.strides.iter().all(|&step| step == 1) => {
            let starts = &site.instruction.inputs[1..];
            let g = b.cast(site.g, b.ty(sum).dtype);
            let part = b.emit_like(site.instruction.op.clone(), &[&[sum], starts].concat(), g);
            let part = b.sum_of(part, g);
            Some(b.emit_like(Op::PutSlice, &[&[sum, part], starts].concat(), sum))
        }
        Op::Gather(attrs) => Some(add_at(b, attrs.axes.clone(), site.operand(1), site.g, sum)),
        Op::Take(attrs) => Some(add_taken(b, attrs.axis, site, sum)),
        Op::TakeAlongAxis(attrs) => add_taken_along_axis(b, attrs.axis, site, sum),
        _ => None,
    }
}

pub(super) fn gather(b: &mut Builder, axes: &[usize], site: &Site) -> Gradients {
    let whole = zeros(b, site);
    vec![(0, add_at(b, axes.to_vec(), site.operand(1), site.g, whole))]
}

pub(super) fn take(b: &mut Builder, axis: usize, site: &Site) -> Gradients {
    let whole = zeros(b, site);
    vec![(0, add_taken(b, axis, site, whole))]
}

/// The axes of the indices come first where slices are added.
fn add_taken(b: &mut Builder, axis: usize, site: &Site, whole: usize) -> usize {
    let indices = site.operand(1);
    let picks = b.shape(indices);
    let rank = b.shape(site.g).len();
    let moved = axis..axis + picks.len();
    let order = moved.clone().chain((0..rank).filter(|axis| !moved.contains(axis))).collect();
    let updates = b.transpose(site.g, order);
    let dtype = b.ty(indices).dtype;
    let tuples = b.emit(Op::Reshape, &[indices], dtype, &[&picks[..], &[1]].concat());
    add_at(b, vec![axis], tuples, updates, whole)
}

pub(super) fn take_along_axis(b: &mut Builder, axis: usize, site: &Site) -> Option<Gradients> {
    if let Some(gradient) = one_along_axis(b, axis, site) {
        return Some(vec![(0, gradient)]);
    }
    let whole = zeros(b, site);
    Some(vec![(0, add_taken_along_axis(b, axis, site, whole)?)])
}

/// Where one element was taken of each line along an axis, which is how a loss takes its targets: the gradient at its place, and
/// else 0. No two were taken from one place, and such a choice joins the operations around it.
fn one_along_axis(b: &mut Builder, axis: usize, site: &Site) -> Option<usize> {
    let (index, shape) = (site.operand(1), b.shape(site.operand(0)));
    let picks = b.shape(index);
    if picks.len() != shape.len() || picks[axis] != 1 || b.ty(index).dtype.bits() > 64 {
        return None;
    }
    let dtype = if b.ty(index).dtype == Type::S32 { Type::S32 } else { Type::S64 };
    let index = b.cast(index, dtype);
    let axes: Vec<usize> = (0..shape.len()).collect();
    let (index, g) = (b.broadcast(index, axes.clone(), &shape), b.broadcast(site.g, axes, &shape));
    let place = b.emit(Op::Iota(Iota { axis: Some(axis) }), &[], dtype, &shape);
    let is_there = b.emit(Op::Binary(Binary::Equal), &[place, index], Type::U8, &shape);
    Some(b.keep(is_there, g))
}

/// Each element is added at the place that it was taken from, whose other indices are its own.
fn add_taken_along_axis(b: &mut Builder, axis: usize, site: &Site, whole: usize) -> Option<usize> {
    let indices = site.operand(1);
    let (shape, rank) = (b.shape(indices), b.shape(whole).len());
    if shape.len() != rank || b.ty(indices).dtype.bits() > 64 {
        return None;
    }
    let columns: Vec<usize> = (0..rank)
        .map(|own| {
            let index = match own == axis {
                true => b.cast(indices, Type::S64),
                false => b.emit(Op::Iota(Iota { axis: Some(own) }), &[], Type::S64, &shape),
            };
            b.emit(Op::Reshape, &[index], Type::S64, &[&shape[..], &[1]].concat())
        })
        .collect();
    let tuples = match columns[..] {
        [column] => column,
        _ => b.emit(Op::Concatenate(Axis { axis: rank }), &columns, Type::S64, &[&shape[..], &[rank]].concat()),
    };
    Some(add_at(b, (0..rank).collect(), tuples, site.g, whole))
}

pub(super) fn indexed_add(b: &mut Builder, axes: &[usize], site: &Site) -> Gradients {
    let updates = b.shape(site.operand(2));
    let (indices, whole) = (b.shape(site.operand(1)), b.shape(site.g));
    let rest = (0..whole.len()).filter(|axis| !axes.contains(axis)).map(|axis| whole[axis]);
    let taken: Vec<usize> = indices[..indices.len() - 1].iter().copied().chain(rest).collect();
    let dtype = b.ty(site.g).dtype;
    let slices = b.emit(Op::Gather(Axes { axes: axes.to_vec() }), &[site.g, site.operand(1)], dtype, &taken);
    vec![(0, site.g), (2, b.reshape(slices, &updates))]
}

/// Zeros for the gradient of what elements are read from.
fn zeros(b: &mut Builder, site: &Site) -> usize {
    b.sum_so_far(None, site.operand(0))
}

/// Adds updates to a whole.
fn add_at(b: &mut Builder, axes: Vec<usize>, indices: usize, updates: usize, whole: usize) -> usize {
    let updates = b.cast(updates, b.ty(whole).dtype);
    b.emit_like(Op::IndexedAdd(Axes { axes }), &[whole, indices, updates], whole)
}
