//! Changes of shape and order folded into each other and into the operations that read them, and parts into what they are
//! parts of.

use super::parts;
use super::writer::{Writer, rewrite};
use crate::program::{Axes, Dot, Instruction, Iota, Op, Program, Reduce};
use crate::types::TensorType;

/// The program with fewer reshapes, transposes and broadcasts.
pub(super) fn fold(program: &Program) -> Program {
    rewrite(program, folded)
}

fn folded(writer: &mut Writer, instruction: &Instruction) -> Option<usize> {
    let [out] = instruction.outputs.as_slice() else { return None };
    match (&instruction.op, instruction.inputs.as_slice()) {
        (Op::Reshape, &[x]) => reshape(writer, x, out),
        (Op::Transpose(attrs), &[x]) => transpose(writer, &attrs.axes, x, out),
        (Op::Broadcast(attrs), &[x]) => broadcast(writer, &attrs.axes, x, out),
        (Op::Iota(attrs), []) => iota(writer, attrs, out),
        (Op::Dot(attrs), &[left, right]) => dot(writer, attrs, left, right, out),
        (Op::Reduce(attrs), &[x]) => reduce(writer, attrs, x, out),
        (Op::Slice(attrs), &[x]) => parts::slice(writer, attrs, x, out),
        (Op::DynamicSlice(attrs), inputs) => parts::dynamic_slice(writer, attrs, inputs, out),
        (Op::Pad(attrs), &[x, _]) => parts::pad(writer, attrs, x, out),
        _ => None,
    }
}

/// One reshape for two, and none to the same shape.
fn reshape(writer: &mut Writer, x: usize, out: &TensorType) -> Option<usize> {
    let source = match writer.maker(x) {
        Some(Instruction { op: Op::Reshape, inputs, .. }) => inputs[0],
        _ => x,
    };
    if writer.ty(source).shape == out.shape {
        return Some(source);
    }
    (source != x).then(|| writer.one(Op::Reshape, vec![source], out))
}

/// One transpose for two, none that changes nothing, and a reshape where only axes of length 1 move.
fn transpose(writer: &mut Writer, axes: &[usize], x: usize, out: &TensorType) -> Option<usize> {
    let (axes, source) = match transposed(writer, x) {
        Some((inner, source)) => (axes.iter().map(|&axis| inner[axis]).collect(), source),
        None => (axes.to_vec(), x),
    };
    if axes.is_sorted() {
        return Some(source);
    }
    if let Some(swapped) = swapped(writer, &axes, source, out) {
        return Some(swapped);
    }
    let shape = &writer.ty(source).shape;
    if axes.iter().filter(|&&axis| shape[axis] != 1).is_sorted() {
        return Some(writer.one(Op::Reshape, vec![source], out));
    }
    (source != x).then(|| writer.one(Op::Transpose(Axes { axes }), vec![source], out))
}

/// A transposed product as the product of the exchanged operands, whose free axes then come the other way round.
fn swapped(writer: &mut Writer, axes: &[usize], product: usize, out: &TensorType) -> Option<usize> {
    let Some(Instruction { op: Op::Dot(dot), inputs, .. }) = writer.maker(product) else { return None };
    let [left, right] = inputs[..] else { return None };
    let batch = dot.lhs_batch.len();
    let free = writer.ty(left).shape.len() - batch - dot.lhs_contract.len();
    let exchanged = (0..batch).chain(batch + free..axes.len()).chain(batch..batch + free);
    if !writer.is_read_once(product) || !exchanged.eq(axes.iter().copied()) {
        return None;
    }
    let dot = dot.clone();
    let dot = Dot {
        lhs_contract: dot.rhs_contract,
        lhs_batch: dot.rhs_batch,
        rhs_contract: dot.lhs_contract,
        rhs_batch: dot.lhs_batch,
    };
    Some(writer.one(Op::Dot(dot), vec![right, left], out))
}

/// One broadcast for two, and none to the same shape.
fn broadcast(writer: &mut Writer, axes: &[usize], x: usize, out: &TensorType) -> Option<usize> {
    if writer.ty(x).shape == out.shape && axes.is_sorted() {
        return Some(x);
    }
    let Some(Instruction { op: Op::Broadcast(inner), inputs, .. }) = writer.maker(x) else { return None };
    let composed = inner.axes.iter().map(|&axis| axes[axis]).collect();
    let source = inputs[0];
    Some(writer.one(Op::Broadcast(Axes { axes: composed }), vec![source], out))
}

/// Numbers along one axis as a line, which is repeated along the others without memory.
fn iota(writer: &mut Writer, attrs: &Iota, out: &TensorType) -> Option<usize> {
    let axis = attrs.axis.filter(|_| out.shape.len() > 1)?;
    let line = TensorType::new(out.dtype, [out.shape[axis]]);
    let line = writer.one(Op::Iota(Iota { axis: Some(0) }), vec![], &line);
    Some(writer.one(Op::Broadcast(Axes { axes: vec![axis] }), vec![line], out))
}

/// What a transpose was applied to, and its axes.
fn transposed(writer: &Writer, id: usize) -> Option<(Vec<usize>, usize)> {
    match writer.maker(id) {
        Some(Instruction { op: Op::Transpose(attrs), inputs, .. }) => Some((attrs.axes.clone(), inputs[0])),
        _ => None,
    }
}

/// A contraction of what was transposed, where the free axes stay in their order.
fn dot(writer: &mut Writer, attrs: &Dot, left: usize, right: usize, out: &TensorType) -> Option<usize> {
    let (mut attrs, mut operands) = (attrs.clone(), [left, right]);
    if let Some((axes, source)) = transposed(writer, left)
        && keeps_free_axes(&axes, &attrs.lhs_contract, &attrs.lhs_batch)
    {
        attrs.lhs_contract.iter_mut().chain(&mut attrs.lhs_batch).for_each(|axis| *axis = axes[*axis]);
        operands[0] = source;
    }
    if let Some((axes, source)) = transposed(writer, right)
        && keeps_free_axes(&axes, &attrs.rhs_contract, &attrs.rhs_batch)
    {
        attrs.rhs_contract.iter_mut().chain(&mut attrs.rhs_batch).for_each(|axis| *axis = axes[*axis]);
        operands[1] = source;
    }
    (operands != [left, right]).then(|| writer.one(Op::Dot(attrs), operands.to_vec(), out))
}

fn keeps_free_axes(axes: &[usize], contract: &[usize], batch: &[usize]) -> bool {
    let free = axes.iter().enumerate().filter(|(axis, _)| !contract.contains(axis) && !batch.contains(axis));
    free.map(|(_, from)| from).is_sorted()
}

/// A reduction of what was transposed, where the axes that stay keep their order.
fn reduce(writer: &mut Writer, attrs: &Reduce, x: usize, out: &TensorType) -> Option<usize> {
    let (order, source) = transposed(writer, x)?;
    let axes = attrs.axes.clone().unwrap_or_else(|| (0..order.len()).collect());
    if attrs.keep_axes || !keeps_free_axes(&order, &axes, &[]) {
        return None;
    }
    let axes = Some(axes.into_iter().map(|axis| order[axis]).collect());
    Some(writer.one(Op::Reduce(Reduce { axes, ..attrs.clone() }), vec![source], out))
}
