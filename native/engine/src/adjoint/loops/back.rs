//! The loop that goes back.

use std::ops::Range;

use super::forth::{NUMBER, Trace};
use crate::adjoint::backward::Backward;
use crate::adjoint::builder::Builder;
use crate::program::{Binary, Op, Program, While};
use crate::types::{TensorType, Type};

/// Hands the gradients of a loop's `results` on to its `operands`. Ids are those of the program.
pub(in crate::adjoint) fn back(backward: &mut Backward<'_>, trace: &Trace, operands: &[usize], results: Range<usize>) {
    let step = &trace.step;
    let mut state = vec![backward.builder.integral(0, Type::S32)];
    for &part in &step.followed {
        let gradient = backward.gradient(results.start + part);
        state.push(gradient);
    }
    for &input in &step.summed {
        let own = if input < trace.states { backward.take(results.start + input) } else { None };
        let sum = own.or_else(|| backward.take(operands[input]));
        state.push(backward.builder.sum_so_far(sum, trace.operands[input]));
    }
    let last = last(&mut backward.builder, trace);
    let kept = (trace.first + trace.states..).take(step.kept.len());
    let read = step.read.iter().map(|&input| trace.operands[input]);
    let states = state.len();
    let inputs: Vec<usize> = state.into_iter().chain([last]).chain(kept).chain(read).collect();
    let types: Vec<TensorType> = inputs.iter().map(|&id| backward.builder.ty(id).clone()).collect();
    let attrs = While { condition: goes_on(&types, states), body: body(trace, &types, states) };
    let first = backward.builder.emit_all(Op::While(attrs), inputs, types[..states].to_vec());
    let inputs = step.followed.iter().chain(&step.summed);
    inputs.zip(first + 1..).for_each(|(&input, gradient)| backward.add(operands[input], gradient));
}

/// The number of the last iteration.
fn last(b: &mut Builder, trace: &Trace) -> usize {
    if trace.counter.is_exact {
        return b.integral(trace.counter.most as i64 - 1, Type::S32);
    }
    let count = trace.counter.number(b, trace.first + trace.counter.state);
    b.int_with(Binary::Subtract, count, 1)
}

/// Whether there is an iteration left: the first part of the state counts those that are done.
fn goes_on(inputs: &[TensorType], last: usize) -> Program {
    let mut b = Builder::new(inputs);
    let less = b.emit(Op::Binary(Binary::LessEqual), &[0, last], Type::U8, &[]);
    b.finish(vec![less])
}

/// The way back through the iteration that is next from the end.
fn body(trace: &Trace, inputs: &[TensorType], last: usize) -> Program {
    let step = &trace.step;
    let mut b = Builder::new(inputs);
    let number = b.emit(Op::Binary(Binary::Subtract), &[last, 0], NUMBER.dtype, &[]);
    // Nobody asks for those that stay 0.
    let mut ids = vec![0; step.program.inputs.len()];
    if step.counts {
        ids[trace.counter.state] = trace.counter.value(&mut b, number);
    }
    for (&(_, input), whole) in step.kept.iter().zip(last + 1..) {
        ids[input] = b.row(whole, number, &step.program.inputs[input]);
    }
    step.read.iter().zip(last + 1 + step.kept.len()..).for_each(|(&input, id)| ids[input] = id);
    let parts = step.followed.len() + step.summed.len();
    let gradients = ids.len() - parts;
    ids[gradients..].iter_mut().zip(1..).for_each(|(id, state)| *id = state);
    let ids = b.append(&step.program, ids);
    let mut order: Vec<usize> = (0..parts).collect();
    let both: Vec<usize> = step.followed.iter().chain(&step.summed).copied().collect();
    order.sort_by_key(|&part| both[part]);
    let mut outputs = vec![b.int_with(Binary::Add, 0, 1); parts + 1];
    order.into_iter().zip(&step.program.outputs).for_each(|(part, &id)| outputs[part + 1] = ids[id]);
    b.finish(outputs)
}
