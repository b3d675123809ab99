//! Programs that run by blocks of rows, so that what a core makes of its rows stays in its own cache.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use burn_backend::Slice;

use crate::cpu::apart;
use crate::error::Result;
use crate::exec::{Plan, stop_flag, stoppable};
use crate::ops::Call;
use crate::program::{Blocked, Dot, Instruction, Op, Program, Rows};
use crate::value::Value;

/// By blocks on plain tensors in the CPU's memory, elsewhere all rows at once.
pub(super) fn run(attrs: &Rows, call: Call<'_>) -> Result<Vec<Value>> {
    let [whole, plans @ ..] = call.nested else { return Err(call.invalid("has no programs")) };
    if plans.is_empty() || call.inputs.iter().any(|input| input.flex().is_none()) {
        return whole.run(call.inputs, call.device);
    }
    let stop = stop_flag();
    let operands = ordered(&attrs.block, call.inputs);
    let block = |number| {
        let plan = &plans[number % plans.len()];
        Block { plan, operands: part(attrs, &operands, number), results: Ok(vec![]) }
    };
    let mut blocks: Vec<Block<'_>> = (0..attrs.blocks).map(block).collect();
    let device = call.device;
    drop(operands);
    apart(&mut blocks, &|_, block| {
        let operands = std::mem::take(&mut block.operands);
        block.results = stopping(stop.as_ref(), || block.plan.run(operands, device));
    });
    let results = blocks.into_iter().map(|block| block.results).collect::<Result<Vec<_>>>()?;
    Ok(joined(attrs, results))
}

/// The operands, with matrices in the order in which products read them: otherwise each product would bring them in order.
fn ordered(program: &Program, mut operands: Vec<Value>) -> Vec<Value> {
    let only = if let [only] = &program.instructions[..] { Some(&only.op) } else { None };
    let program = if let Some(Op::While(attrs)) = only { &attrs.body } else { program };
    for (dot, matrix) in program.instructions.iter().filter_map(product) {
        if let (&[contract @ 0..=1], Some(value)) = (&dot.rhs_contract[..], operands.get_mut(matrix))
            && value.rank() == 2
        {
            *value = in_rows(value.clone(), contract);
        }
    }
    operands
}

/// The product of an instruction, alone or with what follows it, and its right operand.
fn product(instruction: &Instruction) -> Option<(&Dot, usize)> {
    match &instruction.op {
        Op::Dot(dot) => Some((dot, *instruction.inputs.get(1)?)),
        Op::Blocked(Blocked { body }) => {
            let (dot, matrix) = product(body.instructions.first()?)?;
            Some((dot, *instruction.inputs.get(matrix)?))
        }
        _ => None,
    }
}

/// A matrix whose elements along the axis that is not contracted are neighbours in memory.
fn in_rows(matrix: Value, contract: usize) -> Value {
    let is_ordered = matrix.flex().is_some_and(|tensor| tensor.layout().strides()[1 - contract] == 1);
    let order = [contract, 1 - contract];
    if is_ordered { matrix } else { matrix.permute(&order).contiguous().permute(&order) }
}

/// What runs for a block, what goes in, and what came out.
struct Block<'a> {
    plan: &'a Plan,
    operands: Vec<Value>,
    results: Result<Vec<Value>>,
}

/// Runs `body` so that it ends with the run that it is a part of.
fn stopping<T>(stop: Option<&Arc<AtomicBool>>, body: impl FnOnce() -> T) -> T {
    match stop {
        Some(stop) => stoppable(stop, body),
        None => body(),
    }
}

/// The operands of a block.
fn part(attrs: &Rows, operands: &[Value], number: usize) -> Vec<Value> {
    let cut = |(value, axis): (&Value, &Option<usize>)| {
        let Some(axis) = *axis else { return value.apart() };
        let mut slices: Vec<Slice> = value.shape().into_iter().map(|length| Slice::from(0..length)).collect();
        let length = value.shape()[axis] / attrs.blocks;
        slices[axis] = Slice::from(number * length..(number + 1) * length);
        value.clone().slice(&slices)
    };
    operands.iter().zip(&attrs.operands).map(cut).collect()
}

/// The results of all blocks, each joined along its rows.
fn joined(attrs: &Rows, blocks: Vec<Vec<Value>>) -> Vec<Value> {
    let mut blocks: Vec<_> = blocks.into_iter().map(Vec::into_iter).collect();
    let join = |axis: &Option<usize>| {
        let mut parts: Vec<Value> = blocks.iter_mut().filter_map(Iterator::next).collect();
        match *axis {
            Some(axis) => Value::cat(parts.into_iter().map(Value::contiguous).collect(), axis),
            None => parts.swap_remove(0),
        }
    };
    attrs.results.iter().map(join).collect()
}
