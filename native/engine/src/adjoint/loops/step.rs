//! The way back through one iteration.

use crate::adjoint::active::{active as active_values, steady};
use crate::adjoint::counter::Counter;
use crate::adjoint::loops::later::{self, Sum, Term};
use crate::adjoint::pullback::Pullback;
use crate::passes::dead;
use crate::passes::hoisting::is_invariant;
use crate::passes::writer::reads;
use crate::program::{Op, Program, While};
use crate::types::TensorType;

/// The way back through one iteration, and what it reads.
pub(super) struct Step {
    /// Takes the inputs of the body, what else is `kept`, and gradients. Answers those of what is `followed` and `summed`, and
    /// what is `multiplied`.
    pub(super) program: Program,
    /// Parts of the state that change and have a gradient.
    pub(super) followed: Vec<Part>,
    /// Inputs that stay the same and whose gradients are added up.
    pub(super) summed: Vec<Part>,
    /// For each value that is kept in each iteration: its id in the body, and its number among the inputs of the program.
    pub(super) kept: Vec<(usize, usize)>,
    /// Numbers of the inputs of the body that stay the same and are read.
    pub(super) read: Vec<usize>,
    /// Whether the counter is read.
    pub(super) counts: bool,
    /// What is added to gradients behind the loop.
    pub(super) terms: Vec<Term>,
    /// Ids, as in the terms, of what they read of the way back.
    pub(super) multiplied: Vec<usize>,
}

/// An input of the body, and the number of its gradient among the inputs of the way back.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) input: usize,
    pub(super) gradient: usize,
}

impl Step {
    /// The way back through the body of a loop, of whose operands the `active` ones have a gradient. `None` where an operation
    /// has no rule.
    pub(super) fn of(attrs: &While, counter: &Counter, active: &[bool], states: usize) -> Option<Self> {
        let body = &attrs.body;
        let inputs = body.inputs.len();
        let active = steady(attrs, active, states);
        let stays: Vec<bool> = (0..inputs).map(|id| is_invariant(body, id, states)).collect();
        let known = worth_keeping(body, &stays, &active_values(body, &active, &vec![true; states])?);
        let with = |same: bool| (0..inputs).filter(|&id| active[id] && stays[id] == same).collect::<Vec<_>>();
        let (changing, same) = (with(false), with(true));
        let pullback = Pullback { program: body, active: &active, results: &changing, sums: &same, known: &known };
        let program = pullback.program()?;
        let first = inputs + known.len();
        let gradients = changing.iter().chain(&same).zip(first..);
        let mut followed: Vec<Part> = gradients.map(|(&input, gradient)| Part { input, gradient }).collect();
        let mut summed = followed.split_off(changing.len());
        let after = |part: &Part| program.outputs[(0..part.input).filter(|&input| active[input]).count()];
        let sums = |part: &Part| Sum { input: part.input, before: part.gradient, after: after(part) };
        let terms = later::terms(&program, summed.iter().map(sums));
        summed.retain(|part| terms.iter().all(|term| term.input != part.input));
        let is_given = |id: usize| id != counter.state && id < first && stays.get(id) != Some(&true);
        let (given, multiplied): (Vec<usize>, _) = later::operands(&terms).into_iter().partition(|&id| is_given(id));
        let outputs = followed.iter().chain(&summed).map(after).chain(multiplied.iter().copied()).collect();
        let program = dead::remove(&Program { outputs, ..program });
        let reads = reads(&program);
        let is_kept =
            |&(number, _): &(usize, usize)| is_given(number) && (reads[number] > 0 || given.contains(&number));
        let kept = (0..inputs).chain(known).enumerate().filter(is_kept).map(|(number, id)| (id, number)).collect();
        let read = (0..inputs).filter(|&id| stays[id] && reads[id] > 0).collect();
        let counts = reads[counter.state] > 0;
        Some(Self { program, followed, summed, kept, read, counts, terms, multiplied })
    }

    /// The types of what is multiplied.
    pub(super) fn multiplied_types(&self) -> Vec<TensorType> {
        self.program.output_types().split_off(self.followed.len() + self.summed.len())
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
