//! Elements that are read and written at places.

use super::builder::Builder;
use super::{Gradients, Site};
use crate::program::{Axes, Axis, DynamicSlice, Iota, Op};
use crate::types::Type;

/// The gradient among zeros, where the slice was.
pub(super) fn dynamic_slice(b: &mut Builder, attrs: &DynamicSlice, site: &Site<'_>) -> Option<Gradients> {
    if attrs.strides.iter().any(|&step| step != 1) {
        return None;
    }
    let whole = b.zeros_like(site.operand(0), site.g);
    let inputs = [&[whole, site.g], &site.instruction.inputs[1..]].concat();
    Some(vec![(0, b.emit_like(Op::PutSlice, &inputs, whole))])
}

/// What was written over gets nothing, what was written the rest.
pub(super) fn put_slice(b: &mut Builder, site: &Site<'_>) -> Gradients {
    let (part, starts) = (b.zeros_like(site.operand(1), site.g), &site.instruction.inputs[2..]);
    let rest = b.emit_like(Op::PutSlice, &[&[site.g, part], starts].concat(), site.g);
    let lengths = b.shape(part);
    let slice = Op::DynamicSlice(DynamicSlice { strides: vec![1; lengths.len()], lengths });
    vec![(0, rest), (1, b.emit_like(slice, &[&[site.g], starts].concat(), part))]
}

pub(super) fn gather(b: &mut Builder, axes: &[usize], site: &Site<'_>) -> Gradients {
    vec![(0, add_at(b, axes.to_vec(), site.operand(1), site.g, site.operand(0)))]
}

/// The axes of the indices come first where slices are added.
pub(super) fn take(b: &mut Builder, axis: usize, site: &Site<'_>) -> Gradients {
    let [x, indices] = [site.operand(0), site.operand(1)];
    let picks = b.shape(indices);
    let rank = b.shape(site.g).len();
    let moved = axis..axis + picks.len();
    let order = moved.clone().chain((0..rank).filter(|axis| !moved.contains(axis))).collect();
    let updates = b.transpose(site.g, order);
    let dtype = b.ty(indices).dtype;
    let tuples = b.emit(Op::Reshape, &[indices], dtype, &[&picks[..], &[1]].concat());
    vec![(0, add_at(b, vec![axis], tuples, updates, x))]
}

/// Each element is added at the place that it was taken from, whose other indices are its own.
pub(super) fn take_along_axis(b: &mut Builder, axis: usize, site: &Site<'_>) -> Option<Gradients> {
    let [x, indices] = [site.operand(0), site.operand(1)];
    let (shape, rank) = (b.shape(indices), b.shape(x).len());
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
    Some(vec![(0, add_at(b, (0..rank).collect(), tuples, site.g, x))])
}

pub(super) fn indexed_add(b: &mut Builder, axes: &[usize], site: &Site<'_>) -> Gradients {
    let updates = b.shape(site.operand(2));
    let (indices, whole) = (b.shape(site.operand(1)), b.shape(site.g));
    let rest = (0..whole.len()).filter(|axis| !axes.contains(axis)).map(|axis| whole[axis]);
    let taken: Vec<usize> = indices[..indices.len() - 1].iter().copied().chain(rest).collect();
    let dtype = b.ty(site.g).dtype;
    let slices = b.emit(Op::Gather(Axes { axes: axes.to_vec() }), &[site.g, site.operand(1)], dtype, &taken);
    vec![(0, site.g), (2, b.reshape(slices, &updates))]
}

/// Zeros in the shape of `like`, to which updates are added.
fn add_at(b: &mut Builder, axes: Vec<usize>, indices: usize, updates: usize, like: usize) -> usize {
    let updates = b.real(updates);
    let whole = b.zeros_like(like, updates);
    b.emit_like(Op::IndexedAdd(Axes { axes }), &[whole, indices, updates], whole)
}
