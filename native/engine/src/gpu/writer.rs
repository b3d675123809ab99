//! From instructions to the steps of a region.

use super::functions::{Reread, float, float_to_int, narrowing, rereading, two};
use super::step::{One, Step, Two};
use super::transfer::word;
use crate::ops::fused::kernel;
use crate::ops::promote::merge;
use crate::program::{Binary, Constant, Instruction, Op, Program, Unary};
use crate::scalar;
use crate::types::{Class, Type};

/// A value of the region: its number, and its type in Nx.
#[derive(Clone, Copy, Debug)]
struct Known {
    value: usize,
    dtype: Type,
}

/// Steps from operands to results.
#[derive(Debug)]
pub(crate) struct Writer {
    values: Vec<Known>,
    inputs: usize,
    steps: Vec<Step>,
}

/// The steps of `program`, whose operations are all elementwise, and the values that are its results; `None` where there is one
/// that the GPU has no function for.
pub(crate) fn write(program: &Program) -> Option<(Vec<Step>, Vec<usize>)> {
    let values: Option<Vec<Known>> =
        program.inputs.iter().enumerate().map(|(value, ty)| known(value, ty.dtype)).collect();
    let mut writer = Writer { values: values?, inputs: program.inputs.len(), steps: Vec::new() };
    for instruction in &program.instructions {
        let value = writer.instruction(instruction)?;
        writer.values.push(value);
    }
    let results = program.outputs.iter().map(|&id| writer.values[id].value).collect();
    Some((writer.steps, results))
}

/// The steps of counting along an axis, or over all elements, as numbers of `dtype`.
pub(crate) fn count(axis: Option<usize>, dtype: Type) -> Option<(Vec<Step>, usize)> {
    let mut writer = Writer { values: vec![], inputs: 0, steps: vec![] };
    let number = writer.push(axis.map_or(Step::Number, Step::Place), Type::U32);
    let result = writer.cast(number, dtype)?;
    Some((writer.steps, result.value))
}

/// Complex numbers have no steps.
fn known(value: usize, dtype: Type) -> Option<Known> {
    computes(dtype).then_some(Known { value, dtype })
}

fn computes(dtype: Type) -> bool {
    word(dtype).is_some() && !dtype.is_complex()
}

fn is_logical(op: Binary) -> bool {
    matches!(op, Binary::LogicalAnd | Binary::LogicalOr | Binary::LogicalXor)
}

/// Whether one has a sign and the other needs all 32 bits.
fn is_mixed(x: Known, y: Known) -> bool {
    let unlike = |x: Type, y: Type| x == Type::U32 && y.class() == Class::Signed;
    unlike(x.dtype, y.dtype) || unlike(y.dtype, x.dtype)
}

fn computes_exactly(op: Binary) -> bool {
    use Binary::*;
    matches!(op, LeftShift | RightShift | Pow | Quotient | Remainder)
}

impl Writer {
    fn instruction(&mut self, instruction: &Instruction) -> Option<Known> {
        let operands: Vec<Known> = instruction.inputs.iter().map(|&id| self.values[id]).collect();
        let out = instruction.outputs.first()?.dtype;
        match (&instruction.op, operands.as_slice()) {
            (Op::Constant(constant), []) => self.constant(constant, out),
            // They change the shape of a value and not its elements, or repeat what is repeated where it is read.
            (Op::Reshape | Op::Broadcast(_), &[x]) => Some(x),
            (Op::Cast, &[x]) => self.cast(x, out),
            (Op::Bitcast, &[x]) => self.reread(x, out),
            (Op::Unary(op @ (Unary::CountLeadingZeros | Unary::PopulationCount)), &[x]) => self.count(*op, x, out),
            (Op::Clip, &[x, low, high]) => {
                let raised = self.elementwise(&Op::Binary(Binary::Max), &[low, x], out)?;
                self.elementwise(&Op::Binary(Binary::Min), &[high, raised], out)
            }
            (Op::Select, &[condition, x, y]) => {
                let condition = self.truth(condition)?;
                let (x, y) = (self.cast(x, out)?, self.cast(y, out)?);
                Some(self.push(Step::Select(condition.value, x.value, y.value), out))
            }
            (Op::Unary(Unary::IsNan | Unary::IsInfinity), &[x]) if x.dtype.is_int() => {
                Some(self.push(Step::Literal(0), out))
            }
            (Op::Unary(Unary::Real), &[x]) => self.cast(x, out),
            (Op::Binary(op), &[x, y]) if op.is_predicate() && (is_logical(*op) || is_mixed(x, y)) => {
                let answer = if is_logical(*op) { self.connected(*op, x, y) } else { self.mixed(*op, x, y) };
                self.cast(answer?, out)
            }
            (Op::Binary(op), &[x, y]) if !out.is_float() && computes_exactly(*op) => self.exact(*op, x, y, out),
            (op, operands) => self.elementwise(op, operands, out),
        }
    }

    fn push(&mut self, step: Step, dtype: Type) -> Known {
        self.steps.push(step);
        Known { value: self.inputs + self.steps.len() - 1, dtype }
    }

    fn constant(&mut self, constant: &Constant, dtype: Type) -> Option<Known> {
        if !computes(dtype) {
            return None;
        }
        let number = scalar::to_f64(dtype, &constant.bytes)?;
        let bits = match dtype.class() {
            Class::Float => (number as f32).to_bits(),
            Class::Signed => number as i32 as u32,
            _ => number as u32,
        };
        Some(self.push(Step::Literal(bits), dtype))
    }

    /// A function of operands that are brought to the types which the CPU computes it in.
    fn elementwise(&mut self, op: &Op, operands: &[Known], out: Type) -> Option<Known> {
        let types: Vec<Type> = operands.iter().map(|x| x.dtype.widened()).collect();
        let kernel = kernel(op, &types, out.widened())?;
        let mut from = Vec::with_capacity(operands.len());
        for (&x, &dtype) in operands.iter().zip(&kernel.operands) {
            if !computes(dtype) {
                return None;
            }
            from.push(self.cast(x, dtype)?);
        }
        let result = match (op, from.as_slice()) {
            (Op::Unary(op), &[x]) => self.unary(*op, x, kernel.result)?,
            (Op::Binary(op), &[x, y]) => self.binary(*op, x, y, kernel.result)?,
            _ => return None,
        };
        self.cast(result, out)
    }

    fn unary(&mut self, op: Unary, x: Known, out: Type) -> Option<Known> {
        let function = match (op, x.dtype.class()) {
            (Unary::LogicalNot, _) => {
                let truth = self.truth(x)?;
                let one = self.push(Step::Literal(1), Type::U8);
                return Some(self.push(Step::Two(Two::Xor, truth.value, one.value), out));
            }
            // The angle of a number without an imaginary part.
            (Unary::Phase, Class::Float) => {
                let zero = self.push(Step::Literal(0), out);
                return Some(self.push(Step::Two(Two::Atan2, zero.value, x.value), out));
            }
            (op, Class::Float) => float(op)?,
            (Unary::Abs, Class::Signed) => One::AbsS,
            (Unary::Sign, Class::Signed) => One::SignS,
            (Unary::Sign, _) => One::TruthI,
            (Unary::Abs | Unary::Ceil | Unary::Floor | Unary::Round, _) => return Some(x),
            (Unary::Negate, _) => One::NegateI,
            (Unary::BitwiseNot, _) => One::Not,
            _ => return None,
        };
        let result = self.push(Step::One(function, x.value), out);
        Some(self.settle(result))
    }

    fn binary(&mut self, op: Binary, x: Known, y: Known, out: Type) -> Option<Known> {
        use Binary::*;
        let (x, y, negated) = match op {
            Greater => (y, x, false),
            GreaterEqual => (y, x, false),
            NotEqual => (x, y, true),
            _ => (x, y, false),
        };
        let function = two(op, x.dtype.class())?;
        let result = self.push(Step::Two(function, x.value, y.value), out);
        if negated {
            let one = self.push(Step::Literal(1), Type::U8);
            return Some(self.push(Step::Two(Two::Xor, result.value, one.value), out));
        }
        Some(if op.is_predicate() { result } else { self.settle(result) })
    }

    /// The bits of an integer, counted.
    fn count(&mut self, op: Unary, x: Known, out: Type) -> Option<Known> {
        if !x.dtype.is_int() {
            return None;
        }
        let width = x.dtype.bits() as u32;
        let bits = if width < 32 { self.push(Step::One(One::ZeroExtend(width), x.value), x.dtype) } else { x };
        let function = if op == Unary::PopulationCount { One::CountOnes } else { One::LeadingZeros(width) };
        let count = self.push(Step::One(function, bits.value), Type::U32);
        self.cast(count, out)
    }

    /// A function of integers that needs their values, not their low bits alone: a caller sees to it that divisors are not zero,
    /// and that exponents and shifts are not below it.
    fn exact(&mut self, op: Binary, x: Known, y: Known, out: Type) -> Option<Known> {
        if !x.dtype.is_int() || !y.dtype.is_int() {
            return None;
        }
        let (x, y, dtype) = match op {
            Binary::Quotient | Binary::Remainder => {
                let dtype = if out.class() == Class::Unsigned { out } else { merge(x.dtype, y.dtype) };
                (self.cast(x, dtype)?, self.cast(y, dtype)?, dtype)
            }
            Binary::RightShift => (x, y, x.dtype),
            _ => (self.cast(x, out)?, y, out),
        };
        let result = self.push(Step::Two(two(op, dtype.class())?, x.value, y.value), dtype);
        let result = self.settle(result);
        self.cast(result, out)
    }

    /// A connective of truths.
    fn connected(&mut self, op: Binary, x: Known, y: Known) -> Option<Known> {
        let (x, y) = (self.truth(x)?, self.truth(y)?);
        Some(self.push(Step::Two(two(op, Class::Unsigned)?, x.value, y.value), Type::U8))
    }

    /// A comparison of integers of which one has a sign and the other needs all of its bits: what is below zero is below the other.
    fn mixed(&mut self, op: Binary, x: Known, y: Known) -> Option<Known> {
        let signed = if x.dtype.class() == Class::Signed { x } else { y };
        let zero = self.push(Step::Literal(0), Type::S32);
        let below = self.push(Step::Two(Two::LessS, signed.value, zero.value), Type::U8);
        let plain = self.binary(op, Known { dtype: Type::U32, ..x }, Known { dtype: Type::U32, ..y }, Type::U8)?;
        let holds = match op {
            Binary::Less | Binary::LessEqual => signed.value == x.value,
            Binary::Greater | Binary::GreaterEqual => signed.value == y.value,
            _ => op == Binary::NotEqual,
        };
        let known = self.push(Step::Literal(holds.into()), Type::U8);
        Some(self.push(Step::Select(below.value, known.value, plain.value), Type::U8))
    }

    fn truth(&mut self, x: Known) -> Option<Known> {
        let function = if x.dtype.is_float() { One::TruthF } else { One::TruthI };
        Some(self.push(Step::One(function, x.value), Type::U8))
    }

    /// What was computed in 32 bits as a number of its type.
    fn settle(&mut self, x: Known) -> Known {
        match narrowing(x.dtype) {
            Some(function) => self.push(Step::One(function, x.value), x.dtype),
            None => x,
        }
    }

    /// The same bits as another type.
    fn reread(&mut self, x: Known, dtype: Type) -> Option<Known> {
        if !computes(dtype) || x.dtype.bits() != dtype.bits() {
            return None;
        }
        let mut result = Known { dtype, ..x };
        for step in rereading(x.dtype, dtype) {
            result = match step {
                Reread::One(function) => self.push(Step::One(function, result.value), dtype),
                Reread::By16(shift) => {
                    let half = self.push(Step::Literal(16), Type::U32);
                    self.push(Step::Two(shift, result.value, half.value), dtype)
                }
            };
        }
        Some(result)
    }

    fn cast(&mut self, x: Known, dtype: Type) -> Option<Known> {
        if x.dtype == dtype {
            return Some(x);
        }
        if !computes(dtype) {
            return None;
        }
        let convert = match (x.dtype.class(), dtype.class()) {
            (Class::Float, Class::Float) => None,
            (Class::Float, _) => Some(float_to_int(dtype)),
            // What is rounded further is not rounded to the nearest before.
            (Class::Signed, Class::Float) if dtype.bits() < 32 => Some(One::SintToOdd),
            (_, Class::Float) if dtype.bits() < 32 => Some(One::UintToOdd),
            (Class::Signed, Class::Float) => Some(One::SintToFloat),
            (_, Class::Float) => Some(One::UintToFloat),
            _ => None,
        };
        let mut result = Known { dtype, ..x };
        if let Some(function) = convert {
            result = self.push(Step::One(function, x.value), dtype);
        }
        let holds = x.dtype.class() == dtype.class() && x.dtype.bits() <= dtype.bits() && !dtype.is_float();
        Some(if holds { result } else { self.settle(result) })
    }
}
