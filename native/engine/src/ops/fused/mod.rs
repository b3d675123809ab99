//! Regions of elementwise operations and folds of rows, run as one.
//!
//! The operation holds the region as a program, which says what it computes. On plain tensors in the CPU's memory it runs
//! as a [`Tape`](crate::cpu::tape::Tape), elsewhere as the program that it is.

mod chains;
mod compile;
mod kernel;
mod slots;

pub(crate) use compile::{compile, compile_divided};
pub(crate) use kernel::kernel;

use crate::cpu::tape::Tape;
use crate::error::Result;
use crate::ops::order::Order;
use crate::ops::{Call, broadcast_to};
use crate::program::{Extent, Fused};
use crate::value::Value;

pub(super) fn run(attrs: &Fused, call: Call<'_>) -> Result<Vec<Value>> {
    let [program] = call.nested else { return Err(call.invalid("has no region")) };
    let Some(tape) = call.tape.filter(|_| call.inputs.iter().all(|input| input.flex().is_some())) else {
        return program.run(call.inputs, call.device);
    };
    // Results that depend on the order of elements come from the operands, which the tape then leaves as they are.
    let kept = tape.may_decline().then(|| call.inputs.clone());
    let inputs = placed(attrs, call.inputs);
    if let Some(order) = order_of(attrs, tape, &inputs) {
        return in_order(&order, attrs, tape, inputs);
    }
    match tape.run(inputs)? {
        Some(results) => Ok(results),
        None => program.run(kept.unwrap_or_default(), call.device),
    }
}

/// The order in which the whole operands lie, where the region has no rows.
fn order_of(attrs: &Fused, tape: &Tape, inputs: &[Value]) -> Option<Order> {
    let whole = inputs.iter().zip(&attrs.extents).filter(|(_, extent)| **extent == Extent::Whole);
    if tape.is_flat() { Order::of_all(whole.map(|(value, _)| value)) } else { None }
}

/// The results of a region without rows, whose operands are read in this order.
fn in_order(order: &Order, attrs: &Fused, tape: &Tape, inputs: Vec<Value>) -> Result<Vec<Value>> {
    let apply = |(value, extent)| if extent == &Extent::Whole { order.apply(value) } else { value };
    let results = tape.run(inputs.into_iter().zip(&attrs.extents).map(apply).collect())?;
    let shape = order.list(&attrs.shape);
    Ok(results.unwrap_or_default().into_iter().map(|value| order.undo(value.reshape(&shape))).collect())
}

/// The operands in the shapes that the tape reads.
fn placed(attrs: &Fused, inputs: Vec<Value>) -> Vec<Value> {
    inputs.into_iter().zip(&attrs.extents).map(|(value, extent)| place(attrs, value, *extent)).collect()
}

/// An operand in the shape that the tape reads.
pub(super) fn place(attrs: &Fused, value: Value, extent: Extent) -> Value {
    match extent {
        Extent::Whole => broadcast_to(value, &attrs.shape),
        Extent::Row => value.reshape(&attrs.shape[..attrs.shape.len() - attrs.row_axes]),
        Extent::One => value.reshape(&[]),
    }
}
