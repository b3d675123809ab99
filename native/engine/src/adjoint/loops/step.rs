//! The way back through one iteration.

use crate::adjoint::active::{active as active_values, steady};
use crate::adjoint::counter::Counter;
use crate::adjoint::pullback::Pullback;
use crate::passes::hoisting::is_invariant;
use crate::passes::writer::reads;
use crate::program::{Op, Program, While};

/// The way back through one iteration, and what it reads.
pub(super) struct Step {
    /// Takes the inputs of the body, the results `known`, the gradients of the parts of the state in `followed`, and the sums
    /// for the inputs in `summed`. Answers the gradients of both, in the order of the inputs.
    pub(super) program: Program,
    /// Numbers of the parts of the state that change and have a gradient.
    pub(super) followed: Vec<usize>,
    /// Numbers of the inputs that stay the same and have a gradient.
    pub(super) summed: Vec<usize>,
    /// For each value that is kept in each iteration: its id in the body, and its number among the inputs of the program.
    pub(super) kept: Vec<(usize, usize)>,
    /// Numbers of the inputs of the body that stay the same and are read.
    pub(super) read: Vec<usize>,
    /// Whether the counter is read.
    pub(super) counts: bool,
}

impl Step {
    /// The way back through the body of a loop, of whose operands the `active` ones have a gradient. `None` where an operation
    /// has no rule.
    pub(super) fn of(attrs: &While, counter: &Counter, active: &[bool], states: usize) -> Option<Self> {
        let body = &attrs.body;
        let inputs = body.inputs.len();
        let active = steady(attrs, active, states)?;
        let stays: Vec<bool> = (0..inputs).map(|id| is_invariant(body, id, states)).collect();
        let known = worth_keeping(body, &stays, &active_values(body, &active)?);
        let with = |same: bool| (0..inputs).filter(|&id| active[id] && stays[id] == same).collect::<Vec<_>>();
        let (followed, summed) = (with(false), with(true));
        let pullback = Pullback { program: body, active: &active, results: &followed, sums: &summed, known: &known };
        let program = pullback.program()?;
        let reads = reads(&program);
        let is_kept = |&(id, number): &(usize, usize)| {
            reads[number] > 0 && id != counter.state && (number >= inputs || !stays[id])
        };
        let kept = (0..inputs).chain(known).enumerate().map(|(number, id)| (id, number)).filter(is_kept).collect();
        let read = (0..inputs).filter(|&id| stays[id] && reads[id] > 0).collect();
        Some(Self { counts: reads[counter.state] > 0, program, followed, summed, kept, read })
    }
}

/// The results in a loop's body that are better kept than computed again. What does not change, or costs next to nothing, is
/// computed again, and so are a large tensor of which little changes, and a loop through which the way back leads.
fn worth_keeping(body: &Program, stays: &[bool], is_active: &[bool]) -> Vec<usize> {
    let mut stays = stays.to_vec();
    let mut kept = vec![];
    for instruction in &body.instructions {
        let results = stays.len()..stays.len() + instruction.outputs.len();
        let is_cheap = match &instruction.op {
            Op::While(_) => is_active[results.clone()].contains(&true),
            Op::Reshape | Op::Broadcast(_) | Op::Transpose(_) | Op::Slice(_) | Op::Cast | Op::StopGrad => true,
            Op::Constant(_) | Op::Iota(_) | Op::Eye | Op::PutSlice | Op::IndexedAdd(_) | Op::IndexedPut(_) => true,
            Op::DynamicSlice(_) | Op::Take(_) | Op::Gather(_) => stays[instruction.inputs[0]],
            Op::Binary(op) => op.is_predicate(),
            _ => false,
        };
        let is_same = instruction.inputs.iter().all(|&id| stays[id]);
        if !is_same && !is_cheap {
            kept.extend(results);
        }
        stays.extend(instruction.outputs.iter().map(|_| is_same));
    }
    kept
}
