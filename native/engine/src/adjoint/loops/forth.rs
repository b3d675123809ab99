//! A loop that keeps what its way back reads.

use super::step::Step;
use crate::adjoint::builder::Builder;
use crate::adjoint::counter::Counter;
use crate::program::{Op, Program, While};
use crate::types::{TensorType, Type};

/// Most elements that a loop keeps which may have fewer iterations than it keeps room for.
const MOST: usize = 1 << 26;

/// What a loop keeps for its way back. Ids are those of the builder.
pub(in crate::adjoint) struct Trace {
    pub(super) counter: Counter,
    pub(super) step: Step,
    /// What it takes.
    pub(super) operands: Vec<usize>,
    /// The first result, which the other parts of the state and then what it keeps follow.
    pub(super) first: usize,
    /// How many parts the state has.
    pub(super) states: usize,
}

/// Adds a loop that keeps what its way back reads, where that has a rule, and answers the id of its first result.
pub(in crate::adjoint) fn record(
    b: &mut Builder,
    attrs: &While,
    operands: &[usize],
    active: &[bool],
    states: usize,
) -> Option<(usize, Trace)> {
    if Op::While(attrs.clone()).has_effect() {
        return None;
    }
    let counter = Counter::of(attrs, |state| b.integer(operands[state]))?;
    let step = Step::of(attrs, &counter, active, states)?;
    let types = attrs.body.value_types();
    let kept: Vec<TensorType> = step.kept.iter().map(|&(id, _)| of_all(types[id], &counter)).collect();
    let multiplied = step.multiplied_types();
    let multiplied = multiplied.iter().map(|ty| of_all(ty, &counter)).collect::<Vec<_>>();
    let elements: usize = kept.iter().chain(&multiplied).map(|ty| ty.shape.iter().product::<usize>()).sum();
    if !counter.is_exact && elements > MOST {
        return None;
    }
    let zeros: Vec<usize> = kept.iter().map(|ty| b.zeros(ty)).collect();
    let inputs = [&operands[..states], &zeros, &operands[states..]].concat();
    let all: Vec<TensorType> = inputs.iter().map(|&id| b.ty(id).clone()).collect();
    let recording = While {
        condition: among(&attrs.condition, &all, states, kept.len()),
        body: keeping(attrs, &step, &counter, &all, states),
    };
    let outputs = all[..states + kept.len()].to_vec();
    let first = b.emit_all(Op::While(recording), inputs, outputs);
    Some((first, Trace { counter, step, operands: operands.to_vec(), first, states }))
}

/// The type of a value of all iterations.
pub(super) fn of_all(ty: &TensorType, counter: &Counter) -> TensorType {
    TensorType::new(ty.dtype, [&[counter.most.max(1)], &ty.shape[..]].concat())
}

/// The ids of the operands of a loop where so many are put behind its state.
fn moved(operands: usize, states: usize, more: usize) -> Vec<usize> {
    (0..states).chain(states + more..operands + more).collect()
}

/// The condition that takes more operands.
fn among(condition: &Program, inputs: &[TensorType], states: usize, more: usize) -> Program {
    let mut b = Builder::new(inputs);
    let ids = b.append(condition, moved(condition.inputs.len(), states, more));
    b.finish(condition.outputs.iter().map(|&id| ids[id]).collect())
}

/// The body that writes what is kept in its row.
fn keeping(attrs: &While, step: &Step, counter: &Counter, inputs: &[TensorType], states: usize) -> Program {
    let mut b = Builder::new(inputs);
    let ids = b.append(&attrs.body, moved(attrs.body.inputs.len(), states, step.kept.len()));
    let number = counter.number(&mut b, counter.state);
    let mut outputs: Vec<usize> = attrs.body.outputs.iter().map(|&id| ids[id]).collect();
    let rows = step.kept.iter().zip(states..).map(|(&(id, _), whole)| b.put_row(whole, ids[id], number));
    outputs.extend(rows.collect::<Vec<_>>());
    b.finish(outputs)
}

/// The type of numbers of iterations.
pub(super) const NUMBER: TensorType = TensorType { dtype: Type::S32, shape: vec![] };
