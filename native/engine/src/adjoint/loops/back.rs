//! The loop that goes back.

use std::ops::Range;

use super::forth::{NUMBER, Trace, of_all};
use crate::adjoint::backward::Backward;
use crate::adjoint::builder::Builder;
use crate::program::{Binary, Op, Program, While};
use crate::types::{TensorType, Type};

/// Hands the gradients of a loop's `results` on to its `operands`. Ids are those of the program.
pub(in crate::adjoint) fn back(backward: &mut Backward<'_>, trace: &Trace, operands: &[usize], results: Range<usize>) {
    let step = &trace.step;
    let mut state = vec![backward.builder.integral(0, Type::S32)];
    state.extend(step.followed.iter().map(|part| backward.gradient(results.start + part.input)));
    // What stays the same is handed through.
    for (input, result) in
        results.enumerate().filter(|(input, _)| step.followed.iter().all(|part| part.input != *input))
    {
        if let Some(gradient) = backward.take(result) {
            backward.add(operands[input], gradient);
        }
    }
    for part in &step.summed {
        let sum = backward.take(operands[part.input]);
        state.push(backward.builder.sum_so_far(sum, trace.operands[part.input]));
    }
    let rows = step.multiplied_types();
    state.extend(rows.iter().map(|ty| backward.builder.zeros(&of_all(ty, &trace.counter))));
    let first = emit(&mut backward.builder, trace, state) + 1;
    let parts = step.followed.iter().chain(&step.summed);
    parts.zip(first..).for_each(|(part, gradient)| backward.add(operands[part.input], gradient));
    let multiplied = first + step.followed.len() + step.summed.len();
    for term in &step.terms {
        let read: Vec<usize> = term.operands().iter().map(|&id| all_of(trace, id, multiplied)).collect();
        let gradient = term.of_all(&mut backward.builder, &read);
        backward.add(operands[term.input], gradient);
    }
}

/// What all iterations read or made of a value that the way back has the id `id` for.
fn all_of(trace: &Trace, id: usize, multiplied: usize) -> usize {
    let kept =
        || trace.step.kept.iter().position(|&(_, number)| number == id).map(|at| trace.first + trace.states + at);
    let made = trace.step.multiplied.iter().position(|&other| other == id).map(|at| multiplied + at);
    made.or_else(kept).unwrap_or(id)
}

/// Adds the loop, whose state this is, and answers the id of its first result.
fn emit(b: &mut Builder, trace: &Trace, state: Vec<usize>) -> usize {
    let last = last(b, trace);
    let kept = (trace.first + trace.states..).take(trace.step.kept.len());
    let read = trace.step.read.iter().map(|&input| trace.operands[input]);
    let states = state.len();
    let inputs: Vec<usize> = state.into_iter().chain([last]).chain(kept).chain(read).collect();
    let types: Vec<TensorType> = inputs.iter().map(|&id| b.ty(id).clone()).collect();
    let attrs = While { condition: goes_on(&types, states), body: body(trace, &types, states) };
    b.emit_all(Op::While(attrs), inputs, types[..states].to_vec())
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
    let parts = step.followed.iter().chain(&step.summed);
    parts.zip(1..).for_each(|(part, state)| ids[part.gradient] = state);
    let ids = b.append(&step.program, ids);
    let mut outputs = vec![b.int_with(Binary::Add, 0, 1)];
    outputs.extend(step.program.outputs.iter().map(|&id| ids[id]));
    for (state, output) in outputs.iter_mut().enumerate().skip(1 + step.followed.len() + step.summed.len()) {
        *output = b.put_row(state, *output, number);
    }
    b.finish(outputs)
}
