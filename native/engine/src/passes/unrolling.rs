//! Loops of few iterations whose number is known: their iterations one after the other, without a loop. What was a state is
//! then a value like others, what counts is a constant, and the iterations of elementwise loops fuse into one region; so the
//! rounds of a generator of random bits are one pass over memory, or one kernel.

use super::constants;
use super::nested_mut;
use super::parts;
use super::writer::Writer;
use crate::ops::fused::kernel;
use crate::program::{Constant, Instruction, Op, Program, Slice, While};
use crate::scalar;
use crate::types::TensorType;
use crate::value::Value;

/// Most instructions, with constants, that a loop may become, one more for each iteration; the 20 rounds of Threefry are some 300.
/// What a loop of constants computes is computed while it is counted, so this also says how long that takes.
const MOST: usize = 1000;

/// Loops of a program are unrolled until they have become so many instructions, without constants: all passes look at each. The
/// random bits of a hundred layers are as many.
const ENOUGH: usize = 20_000;

/// Most elements of a captured tensor whose elements are looked at.
const SMALL: usize = 64;

/// The program without loops that are soon done. `captures` are the values of its last inputs, of which what a loop takes
/// element by element, as numbers of bits to rotate by, becomes constants.
pub(super) fn unroll(program: &Program, captures: &[Value]) -> Program {
    let mut left = ENOUGH;
    within(program, captures, &mut left)
}

/// [`unroll`] until loops have become `left` instructions.
fn within(program: &Program, captures: &[Value], left: &mut usize) -> Program {
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.inputs.len()).collect();
    for instruction in &program.instructions {
        let mut op = instruction.op.clone();
        nested_mut(&mut op).into_iter().for_each(|nested| *nested = within(nested, &[], left));
        let inputs: Vec<usize> = instruction.inputs.iter().map(|&id| ids[id]).collect();
        let known = |id: usize| (id + captures.len()).checked_sub(program.inputs.len()).and_then(|i| captures.get(i));
        let iterations = match &op {
            Op::While(attrs) if *left > 0 && is_light(attrs) => {
                let operands = inputs.iter().map(|&id| Operand::of(&writer, id, known(id))).collect();
                Iterations::of(attrs, operands, instruction.outputs.len())
            }
            _ => None,
        };
        match iterations {
            Some(iterations) => {
                let is_work = |instruction: &&Instruction| !matches!(instruction.op, Op::Constant(_));
                *left = left.saturating_sub(iterations.instructions.iter().filter(is_work).count());
                ids.extend(writer.inline(&iterations, &inputs));
            }
            None => {
                let first = writer.emit(op, inputs, instruction.outputs.clone());
                ids.extend(first..first + instruction.outputs.len());
            }
        }
    }
    writer.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}

/// Whether what a loop does in an iteration is elementwise or moves elements: for products a loop costs nothing.
fn is_light(attrs: &While) -> bool {
    let is_light = |program: &Program| {
        let types = program.value_types();
        program.instructions.iter().all(|instruction| {
            let operands: Vec<_> = instruction.inputs.iter().map(|&id| types[id].dtype).collect();
            match (&instruction.op, instruction.outputs.as_slice()) {
                (Op::Constant(_) | Op::Iota(_) | Op::Reshape | Op::Broadcast(_) | Op::Transpose(_), _) => true,
                (Op::Slice(_) | Op::DynamicSlice(_) | Op::Concatenate(_) | Op::Stack(_) | Op::StopGrad, _) => true,
                (op, [out]) => kernel(op, &operands, out.dtype).is_some(),
                _ => false,
            }
        })
    };
    is_light(&attrs.condition) && is_light(&attrs.body)
}

/// What a loop is given.
struct Operand<'a> {
    ty: TensorType,
    constant: Option<Constant>,
    captured: Option<&'a Value>,
}

impl<'a> Operand<'a> {
    fn of(writer: &Writer, id: usize, captured: Option<&'a Value>) -> Self {
        let is_plain = |value: &Value| !value.dtype().is_complex() && !value.dtype().is_packed();
        let captured = captured.filter(|value| value.len() <= SMALL && is_plain(value));
        Self { ty: writer.ty(id).clone(), constant: writer.constant(id).cloned(), captured }
    }
}

/// The iterations of a loop while they are written.
struct Iterations<'a> {
    writer: Writer,
    operands: Vec<Operand<'a>>,
}

impl<'a> Iterations<'a> {
    /// The program from a loop's operands to its state at the end; `None` where the end isn't known or is too far.
    fn of(attrs: &While, operands: Vec<Operand<'a>>, state: usize) -> Option<Program> {
        let types: Vec<TensorType> = operands.iter().map(|operand| operand.ty.clone()).collect();
        let mut found = Self { writer: Writer::new(&types), operands };
        let mut values: Vec<usize> = (0..types.len()).map(|id| found.operand(id)).collect();
        let mut iterations = 0;
        while found.goes_on(&attrs.condition, &values)? {
            let next = found.run(&attrs.body, &values);
            values.splice(..state, next);
            iterations += 1;
            if iterations + found.writer.len() > MOST {
                return None;
            }
        }
        values.truncate(state);
        Some(found.writer.finish(values))
    }

    fn operand(&mut self, id: usize) -> usize {
        match self.operands[id].constant.clone() {
            Some(constant) => self.writer.one(Op::Constant(constant), vec![], &self.operands[id].ty),
            None => id,
        }
    }

    /// Whether the condition holds, where it depends on constants alone.
    fn goes_on(&mut self, condition: &Program, values: &[usize]) -> Option<bool> {
        let answer = *self.run(condition, values).first()?;
        let number = scalar::to_f64(self.writer.ty(answer).dtype, &self.writer.constant(answer)?.bytes)?;
        Some(number != 0.0)
    }

    /// Adds a program's instructions, which read these values; answers its results.
    fn run(&mut self, program: &Program, values: &[usize]) -> Vec<usize> {
        let mut ids = values.to_vec();
        for instruction in &program.instructions {
            let inputs = instruction.inputs.iter().map(|&id| ids[id]).collect();
            let moved = Instruction { inputs, ..instruction.clone() };
            let folded = self.known(&moved).or_else(|| constants::folded(&mut self.writer, &moved));
            let count = moved.outputs.len();
            let first = folded.unwrap_or_else(|| self.writer.emit(moved.op, moved.inputs, moved.outputs));
            ids.extend(first..first + count);
        }
        program.outputs.iter().map(|&id| ids[id]).collect()
    }

    /// One element of a captured tensor as a constant.
    fn known(&mut self, instruction: &Instruction) -> Option<usize> {
        let (&x, places) = instruction.inputs.split_first()?;
        let (value, [out]) = (self.operands.get(x)?.captured?, &instruction.outputs[..]) else { return None };
        let starts = match &instruction.op {
            Op::Slice(Slice { starts, .. }) => starts.clone(),
            Op::DynamicSlice(attrs) => parts::starts(&self.writer, &value.shape(), &attrs.lengths, places)?,
            _ => return None,
        };
        if out.shape.iter().any(|&length| length != 1) || value.dtype() != out.dtype {
            return None;
        }
        let element = value.clone().cut(&starts, &out.shape, &vec![1; starts.len()]);
        let bytes = element.element()?.to_vec();
        Some(self.writer.one(Op::Constant(Constant { bytes }), vec![], out))
    }
}
