//! Operations that move elements: each is a region without steps, whose operand is read by other strides.

use super::formula::Formula;
use super::functions::{Reread, rereading};
use super::launch::{Operand, Work};
use super::{Adapter, transfer};
use crate::error::Result;
use crate::program::{Op, Slice};
use crate::types::TensorType;
use crate::value::{Value, stored_shape};

/// The strides of a contiguous tensor.
pub(super) fn strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis] as isize;
    }
    strides
}

/// The result of an operation that moves elements of `x`; `None` for other operations.
pub(super) fn run(op: &Op, x: &Value, out: &TensorType, adapter: Adapter) -> Result<Option<Value>> {
    if matches!(op, Op::Reshape) {
        return Ok(transfer::reshaped(x, x.dtype(), &out.shape));
    }
    if matches!(op, Op::Bitcast) {
        return bitcast(x, out, adapter);
    }
    let Some((start, steps)) = placed(op, &x.shape(), &out.shape) else { return Ok(None) };
    let Some(tensor) = x.cube() else { return Ok(None) };
    let mut operand = Operand { tensor: tensor.clone(), start, strides: steps };
    if out.dtype.is_complex() {
        operand.start *= 2;
        operand.strides.iter_mut().for_each(|stride| *stride *= 2);
        operand.strides.push(1);
    }
    let shape = stored_shape(out.dtype, &out.shape).to_vec();
    let types = std::slice::from_ref(out);
    let work = Work { adapter, shape, operands: vec![operand], steps: vec![], results: vec![0], types };
    Ok(work.run()?.into_iter().next())
}

/// The same bits as another type, of which narrower ones are held in 32 bits.
fn bitcast(x: &Value, out: &TensorType, adapter: Adapter) -> Result<Option<Value>> {
    let (from, to) = (x.dtype(), out.dtype);
    if from.bits() != to.bits() || from.bits() > 32 || from.is_complex() || to.is_complex() {
        return Ok(None);
    }
    if from.bits() == 32 {
        return Ok(transfer::reshaped(x, to, &out.shape));
    }
    let Some(operand) = Operand::broadcast(x, &out.shape) else { return Ok(None) };
    let mut formula = Formula::new(1);
    let mut result = 0;
    for step in rereading(from, to) {
        result = match step {
            Reread::One(function) => formula.one(function, result),
            Reread::By16(shift) => {
                let half = formula.literal(16);
                formula.two(shift, result, half)
            }
        };
    }
    let types = std::slice::from_ref(out);
    let work = Work {
        adapter,
        shape: out.shape.clone(),
        operands: vec![operand],
        steps: formula.steps,
        results: vec![result],
        types,
    };
    Ok(work.run()?.pop())
}

/// Where the first element of the result comes from, and how many elements each of its axes steps.
fn placed(op: &Op, shape: &[usize], out: &[usize]) -> Option<(usize, Vec<isize>)> {
    let own = strides(shape);
    match op {
        Op::Broadcast(attrs) => {
            let mut steps = vec![0; out.len()];
            for (axis, &to) in attrs.axes.iter().enumerate() {
                steps[to] = if shape[axis] == 1 { 0 } else { own[axis] };
            }
            Some((0, steps))
        }
        Op::Transpose(attrs) => Some((0, attrs.axes.iter().map(|&axis| own[axis]).collect())),
        Op::Reverse(attrs) => {
            let mut steps = own;
            let mut start = 0;
            for &axis in &attrs.axes {
                start += steps[axis] as usize * shape[axis].saturating_sub(1);
                steps[axis] = -steps[axis];
            }
            Some((start, steps))
        }
        Op::Slice(Slice { starts, strides, .. }) => {
            let start = starts.iter().zip(&own).map(|(&start, &step)| start * step as usize).sum();
            Some((start, own.iter().zip(strides).map(|(&own, &step)| own * step as isize).collect()))
        }
        _ => None,
    }
}
