//! Folds by programs of elementwise operations as loops.

use std::collections::HashMap;

use crate::cpu::tape::Tape;
use crate::exec::lift::lift;
use crate::ops::fused;
use crate::passes::writer::Writer;
use crate::program::{CustomReduce, CustomWindowReduce, Extent, Fused, Instruction, Op, Program};
use crate::types::TensorType;

/// Inputs of a fold's program before its captures: the element and the result so far.
pub(crate) const VARYING: usize = 2;

/// A custom fold made ready.
pub(super) struct Serial {
    /// What a step runs: for all results at once where that can be. A single result runs its own branches only.
    pub(super) step: Program,
    /// The same as a loop, where it can be one.
    pub(super) looped: Option<Looped>,
}

/// A fold as a loop.
pub(super) struct Looped {
    /// Makes the loop's operands, besides the elements and the results so far, from the captures.
    pub(super) setup: Program,
    /// A step of the loop.
    pub(super) tape: Tape,
}

impl Serial {
    /// `None` for other operations than custom folds.
    pub(super) fn new(instruction: &Instruction) -> Option<Self> {
        let (Op::CustomReduce(CustomReduce { body, .. }) | Op::CustomWindowReduce(CustomWindowReduce { body, .. })) =
            &instruction.op
        else {
            return None;
        };
        let results = instruction.outputs.first()?.shape.iter().product();
        let lifted = lift(body, VARYING, results);
        let looped = lifted.as_ref().and_then(|lifted| Looped::new(lifted, results));
        let step = lifted.filter(|_| results != 1).unwrap_or_else(|| body.clone());
        Some(Self { step, looped })
    }
}

impl Looped {
    /// `None` where what is done to the elements has no loop.
    fn new(lifted: &Program, results: usize) -> Option<Self> {
        let kinds = kinds(lifted)?;
        let mut shared = vec![];
        for (step, _) in with_results(lifted).filter(|&(_, first)| kinds[first] == Kind::Varying) {
            shared.extend(step.inputs.iter().filter(|&&id| kinds[id] == Kind::Shared));
        }
        shared.sort_unstable();
        shared.dedup();
        let captures: Vec<usize> = (VARYING..lifted.inputs.len()).collect();
        let setup = part(lifted, &captures, &|id| kinds[id] != Kind::Varying, &shared)?;
        let inputs = [(0..VARYING).collect(), shared].concat();
        let body = part(lifted, &inputs, &|id| kinds[id] != Kind::Shared, &lifted.outputs)?;
        let extent = |id: &usize| if *id < VARYING { Extent::Whole } else { Extent::One };
        let extents = inputs.iter().map(extent).collect();
        let tape =
            fused::compile_divided(&Fused { shape: vec![results], row_axes: 0, extents, patterns: vec![], body })?;
        Some(Self { setup, tape })
    }
}

/// What a value of a fold depends on.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// An element or a result so far.
    Varying,
    /// The captures alone.
    Shared,
    /// Nothing.
    Constant,
}

/// The kind of each value; `None` where calls into the host, which each step makes, depend on no element.
fn kinds(program: &Program) -> Option<Vec<Kind>> {
    let mut kinds: Vec<Kind> =
        (0..program.inputs.len()).map(|id| if id < VARYING { Kind::Varying } else { Kind::Shared }).collect();
    for Instruction { op, inputs, outputs } in &program.instructions {
        let kind = match op {
            Op::Constant(_) => Kind::Constant,
            _ if inputs.iter().any(|&id| kinds[id] == Kind::Varying) => Kind::Varying,
            op if op.has_effect() => return None,
            _ => Kind::Shared,
        };
        kinds.extend(outputs.iter().map(|_| kind));
    }
    Some(kinds)
}

/// The program's instructions with the ids of their first results.
fn with_results(program: &Program) -> impl Iterator<Item = (&Instruction, usize)> {
    program.instructions.iter().scan(program.inputs.len(), |next, instruction| {
        let first = *next;
        *next += instruction.outputs.len();
        Some((instruction, first))
    })
}

/// The instructions whose results are `wanted`, as a program from some values to others; `None` where these depend on more.
fn part(program: &Program, inputs: &[usize], wanted: &dyn Fn(usize) -> bool, outputs: &[usize]) -> Option<Program> {
    let types = program.value_types();
    let own: Vec<TensorType> = inputs.iter().map(|&id| types[id].clone()).collect();
    let mut writer = Writer::new(&own);
    let mut ids: HashMap<usize, usize> = inputs.iter().copied().zip(0..).collect();
    let new = |ids: &HashMap<usize, usize>, old: &[usize]| {
        old.iter().map(|id| ids.get(id).copied()).collect::<Option<Vec<_>>>()
    };
    for (Instruction { op, inputs, outputs }, first) in with_results(program).filter(|&(_, first)| wanted(first)) {
        let at = writer.emit(op.clone(), new(&ids, inputs)?, outputs.clone());
        ids.extend((first..first + outputs.len()).zip(at..));
    }
    Some(writer.finish(new(&ids, outputs)?))
}
