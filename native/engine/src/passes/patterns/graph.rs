//! A program to be looked at: who makes and who reads each value.

use crate::passes::writer::{makers, results};
use crate::program::{Binary, Fold, Instruction, Op, Program, Unary};
use crate::scalar;
use crate::types::TensorType;

/// Most factors or terms that a value is split into.
const MOST_PARTS: usize = 16;

pub(super) struct Graph<'a> {
    program: &'a Program,
    types: Vec<&'a TensorType>,
    makers: Vec<Option<usize>>,
    /// The instructions that read each value, as often as they do.
    readers: Vec<Vec<usize>>,
    is_output: Vec<bool>,
    results: Vec<usize>,
}

/// Methods that answer operands answer what these were before casts and changes of shape.
impl<'a> Graph<'a> {
    pub(super) fn new(program: &'a Program) -> Self {
        let (makers, results) = (makers(program), results(program));
        let (mut readers, mut is_output) = (vec![vec![]; makers.len()], vec![false; makers.len()]);
        for (i, instruction) in program.instructions.iter().enumerate() {
            instruction.inputs.iter().for_each(|&id| readers[id].push(i));
        }
        program.outputs.iter().for_each(|&id| is_output[id] = true);
        Self { program, types: program.value_types(), makers, readers, is_output, results }
    }

    pub(super) fn instruction(&self, number: usize) -> &'a Instruction {
        &self.program.instructions[number]
    }

    pub(super) fn instructions(&self) -> &'a [Instruction] {
        &self.program.instructions
    }

    /// The values that instructions make, by id.
    pub(super) fn made(&self) -> std::ops::Range<usize> {
        self.program.inputs.len()..self.types.len()
    }

    /// The ids of an instruction's results.
    pub(super) fn results(&self, number: usize) -> std::ops::Range<usize> {
        self.results[number]..self.results[number] + self.program.instructions[number].outputs.len()
    }

    /// The instruction that makes a value, with its number.
    pub(super) fn made_by(&self, id: usize) -> Option<(usize, &'a Instruction)> {
        self.makers[id].map(|i| (i, &self.program.instructions[i]))
    }

    /// The instructions that read a value, as often as they do.
    pub(super) fn readers(&self, id: usize) -> &[usize] {
        &self.readers[id]
    }

    /// The instructions that read a value itself, or what casts and changes of shape make of it.
    pub(super) fn final_readers(&self, id: usize) -> Vec<&'a Instruction> {
        let (mut stack, mut found) = (vec![id], vec![]);
        while let Some(id) = stack.pop() {
            for &i in &self.readers[id] {
                let instruction = self.instruction(i);
                if is_peeled(&instruction.op) { stack.extend(self.results(i)) } else { found.push(instruction) }
            }
        }
        found
    }

    /// Whether one instruction alone reads a value, once, and it is no result.
    pub(super) fn is_read_once(&self, id: usize) -> bool {
        self.readers[id].len() == 1 && !self.is_output[id]
    }

    /// The program's results.
    pub(super) fn outputs(&self) -> impl Iterator<Item = usize> + '_ {
        self.program.outputs.iter().map(|&id| self.peel(id))
    }

    pub(super) fn is_output(&self, id: usize) -> bool {
        self.is_output[id]
    }

    pub(super) fn is_input(&self, id: usize) -> bool {
        self.makers[id].is_none()
    }

    pub(super) fn ty(&self, id: usize) -> &'a TensorType {
        self.types[id]
    }

    pub(super) fn len(&self, id: usize) -> usize {
        self.types[id].shape.iter().product()
    }

    pub(super) fn maker(&self, id: usize) -> Option<&'a Instruction> {
        self.makers[id].map(|i| &self.program.instructions[i])
    }

    /// What a value was before casts, and before its shape was changed.
    pub(super) fn peel(&self, id: usize) -> usize {
        self.before(id, is_peeled)
    }

    /// As [`Graph::peel`], and before it was transposed.
    pub(super) fn source(&self, id: usize) -> usize {
        self.before(id, |op| is_peeled(op) || matches!(op, Op::Transpose(_)))
    }

    fn before(&self, mut id: usize, passes_on: fn(&Op) -> bool) -> usize {
        while let Some(instruction) = self.maker(id).filter(|instruction| passes_on(&instruction.op)) {
            id = instruction.inputs[0];
        }
        id
    }

    /// The operand of a function.
    pub(super) fn unary(&self, id: usize, op: Unary) -> Option<usize> {
        let instruction = self.maker(self.peel(id)).filter(|instruction| instruction.op == Op::Unary(op))?;
        Some(self.peel(instruction.inputs[0]))
    }

    /// The operands of a function of two.
    pub(super) fn binary(&self, id: usize, op: Binary) -> Option<[usize; 2]> {
        let instruction = self.maker(self.peel(id)).filter(|instruction| instruction.op == Op::Binary(op))?;
        Some([self.peel(instruction.inputs[0]), self.peel(instruction.inputs[1])])
    }

    /// Both orders of the operands of a function of two.
    pub(super) fn either(&self, id: usize, op: Binary) -> impl Iterator<Item = [usize; 2]> {
        self.binary(id, op).into_iter().flat_map(|[a, b]| [[a, b], [b, a]])
    }

    /// The operand of a fold.
    pub(super) fn fold(&self, id: usize, fold: Fold) -> Option<usize> {
        let instruction = self.maker(self.peel(id))?;
        let is_fold = matches!(&instruction.op, Op::Reduce(reduce) if reduce.fold == fold);
        is_fold.then(|| self.peel(instruction.inputs[0]))
    }

    /// The number that a constant repeats.
    pub(super) fn number(&self, id: usize) -> Option<f64> {
        let id = self.peel(id);
        match &self.maker(id)?.op {
            Op::Constant(constant) => scalar::to_f64(self.types[id].dtype, &constant.bytes),
            _ => None,
        }
    }

    /// What a value is where it is not replaced by a number.
    pub(super) fn unmasked(&self, id: usize) -> usize {
        self.masked(id).map_or(id, |[_, kept]| kept)
    }

    /// What says where a value is replaced by a number, and what it is elsewhere.
    pub(super) fn masked(&self, id: usize) -> Option<[usize; 2]> {
        let select = self.maker(self.peel(id)).filter(|instruction| instruction.op == Op::Select)?;
        let [on, on_true, on_false] = select.inputs[..] else { return None };
        match (self.number(on_true), self.number(on_false)) {
            (Some(_), None) => Some([self.peel(on), self.peel(on_false)]),
            (None, Some(_)) => Some([self.peel(on), self.peel(on_true)]),
            _ => None,
        }
    }

    /// Whether a value is of one element, or a repetition of one.
    pub(super) fn is_one(&self, id: usize) -> bool {
        self.len(self.peel(id)) == 1 || self.number(id).is_some()
    }

    /// The values whose product a value is, and none of what it is divided by; at most [`MOST_PARTS`], of which one may be a
    /// product then.
    pub(super) fn factors(&self, id: usize) -> Vec<usize> {
        parts(self.peel(id), |&id| match self.binary(id, Binary::Multiply) {
            Some([a, b]) => vec![a, b],
            None => self.binary(id, Binary::Divide).map_or(vec![], |[a, _]| vec![a]),
        })
    }

    /// Whether a value is computed from another, or is it.
    pub(super) fn depends(&self, id: usize, on: usize) -> bool {
        self.origins(id)[on]
    }

    /// For each value, whether another one is computed from it, or is it.
    pub(super) fn origins(&self, id: usize) -> Vec<bool> {
        let mut seen = vec![false; self.types.len()];
        let mut stack = vec![id];
        while let Some(id) = stack.pop() {
            if !std::mem::replace(&mut seen[id], true) {
                stack.extend(self.maker(id).into_iter().flat_map(|instruction| &instruction.inputs));
            }
        }
        seen
    }
}

/// Whether a value is looked at as what it was before this operation.
fn is_peeled(op: &Op) -> bool {
    matches!(op, Op::Reshape | Op::Broadcast(_) | Op::Cast | Op::StopGrad)
}

/// What a value is split into, and these again, until nothing can be split or there are [`MOST_PARTS`]: a chain of doublings
/// has more parts than there is memory.
pub(super) fn parts<T>(whole: T, split: impl Fn(&T) -> Vec<T>) -> Vec<T> {
    let (mut left, mut parts) = (vec![whole], Vec::new());
    while let Some(part) = left.pop() {
        let smaller = split(&part);
        if smaller.is_empty() || left.len() + parts.len() + smaller.len() > MOST_PARTS {
            parts.push(part);
        } else {
            left.extend(smaller.into_iter().rev());
        }
    }
    parts
}
