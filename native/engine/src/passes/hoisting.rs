//! Loop-invariant code: what a `while` computes anew in each iteration from values that stay is computed before the loop.

use std::collections::{HashMap, HashSet};

use super::writer::Writer;
use crate::ops::fused::kernel;
use crate::program::{Instruction, Op, Program, While};
use crate::types::TensorType;

/// The program with invariant operations moved out of its loops.
pub(super) fn hoist(program: &Program) -> Program {
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.inputs.len()).collect();
    for instruction in &program.instructions {
        let mut inputs: Vec<usize> = instruction.inputs.iter().map(|&id| ids[id]).collect();
        let op = match &instruction.op {
            Op::While(attrs) => Op::While(smaller(&mut writer, attrs, instruction.outputs.len(), &mut inputs)),
            op => op.clone(),
        };
        let first = writer.emit(op, inputs, instruction.outputs.clone());
        ids.extend(first..first + instruction.outputs.len());
    }
    writer.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}

/// The loop without its invariant operations, which `writer` makes instead; their results become captures.
fn smaller(writer: &mut Writer, attrs: &While, state: usize, inputs: &mut Vec<usize>) -> While {
    let body = &attrs.body;
    let invariant = Invariant::of(body, state);
    let results = invariant.results();
    let mut outside: HashMap<usize, usize> = inputs.iter().copied().enumerate().collect();
    let mut made = vec![];
    for &(i, first) in &invariant.moved {
        let step = &body.instructions[i];
        let operands = step.inputs.iter().map(|id| outside[id]).collect();
        let at = writer.emit(step.op.clone(), operands, step.outputs.clone());
        outside.insert(first, at);
        if results.contains(&first) {
            made.push((first, at));
        }
    }
    let types: Vec<TensorType> = made.iter().map(|&(_, at)| writer.ty(at).clone()).collect();
    inputs.extend(made.iter().map(|&(_, at)| at));
    let captured: HashMap<usize, usize> = made.into_iter().map(|(id, _)| id).zip(0..).collect();
    While {
        condition: with_inputs(&attrs.condition, &types, &HashMap::new()),
        body: with_inputs(body, &types, &captured),
    }
}

/// `program` with more inputs at the end, which stand for the values `replaced` that it makes itself, by their numbers.
fn with_inputs(program: &Program, more: &[TensorType], replaced: &HashMap<usize, usize>) -> Program {
    let own = program.inputs.len();
    let mut writer = Writer::new(&[&program.inputs, more].concat());
    let mut ids: Vec<usize> = (0..own).collect();
    for instruction in &program.instructions {
        // What has no result, as a hook, has the id of the next one.
        let number = instruction.outputs.first().and_then(|_| replaced.get(&ids.len()));
        match number {
            Some(number) => ids.push(own + number),
            None => {
                let inputs = instruction.inputs.iter().map(|&id| ids[id]).collect();
                let at = writer.emit(instruction.op.clone(), inputs, instruction.outputs.clone());
                ids.extend(at..at + instruction.outputs.len());
            }
        }
    }
    writer.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}

/// Whether an input of a loop's body, the first `state` of which are its state, is the same in each iteration.
pub(crate) fn is_invariant(body: &Program, id: usize, state: usize) -> bool {
    id >= state || body.outputs.get(id) == Some(&id)
}

/// What does not change from iteration to iteration.
struct Invariant<'a> {
    body: &'a Program,
    /// Instructions with the ids of their results.
    moved: Vec<(usize, usize)>,
    is_invariant: Vec<bool>,
}

impl<'a> Invariant<'a> {
    fn of(body: &'a Program, state: usize) -> Self {
        let stays = |id| is_invariant(body, id, state);
        let mut found = Self { body, moved: vec![], is_invariant: (0..body.inputs.len()).map(stays).collect() };
        let types = body.value_types();
        for (i, instruction) in body.instructions.iter().enumerate() {
            let id = found.is_invariant.len();
            let stays = instruction.inputs.iter().all(|&id| found.is_invariant[id]) && cannot_fail(instruction, &types);
            found.is_invariant.extend(instruction.outputs.iter().map(|_| stays));
            if stays {
                found.moved.push((i, id));
            }
        }
        found
    }

    /// The ids of results that are worth to be kept: those of real work which the rest of the loop reads. Constants and
    /// changes of shape are made again where they are read.
    fn results(&self) -> HashSet<usize> {
        let worth = |i: usize| !matches!(self.body.instructions[i].op, Op::Constant(_)) && !self.is_view(i);
        let is_read = self.read();
        self.moved.iter().filter(|&&(i, id)| worth(i) && is_read[id]).map(|&(_, id)| id).collect()
    }

    /// For each value, whether something that stays in the loop reads it.
    fn read(&self) -> Vec<bool> {
        let mut is_read = vec![false; self.is_invariant.len()];
        self.body.outputs.iter().for_each(|&id| is_read[id] = true);
        let moved: HashSet<usize> = self.moved.iter().map(|&(i, _)| i).collect();
        for (i, instruction) in self.body.instructions.iter().enumerate() {
            if !moved.contains(&i) || self.is_view(i) {
                instruction.inputs.iter().for_each(|&id| is_read[id] = true);
            }
        }
        is_read
    }

    fn is_view(&self, i: usize) -> bool {
        matches!(self.body.instructions[i].op, Op::Reshape | Op::Broadcast(_) | Op::Transpose(_))
    }
}

/// Whether an operation can be run for a loop that may have no iteration at all.
fn cannot_fail(instruction: &Instruction, types: &[&TensorType]) -> bool {
    let [out] = instruction.outputs.as_slice() else { return false };
    let operands: Vec<_> = instruction.inputs.iter().map(|&id| types[id].dtype).collect();
    match &instruction.op {
        Op::Constant(_) | Op::Iota(_) | Op::Eye | Op::Reshape | Op::Broadcast(_) | Op::Transpose(_) => true,
        Op::Reverse(_) | Op::Concatenate(_) | Op::Stack(_) | Op::Slice(_) | Op::Pad(_) => true,
        Op::Dot(_) | Op::Conv(_) | Op::Reduce(_) | Op::Cumulative(_) | Op::WindowReduce(_) => true,
        op => kernel(op, &operands, out.dtype).is_some(),
    }
}
