//! From instructions to the steps of a region.

use super::step::{One, Step, Two};
use super::transfer::word;
use crate::ops::fused::kernel;
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
    let result = if dtype.is_float() && dtype.bits() < 32 { None } else { writer.cast(number, dtype) }?;
    Some((writer.steps, result.value))
}

/// Complex numbers and 8-bit floats have no steps.
fn known(value: usize, dtype: Type) -> Option<Known> {
    computes(dtype).then_some(Known { value, dtype })
}

fn computes(dtype: Type) -> bool {
    word(dtype).is_some() && !dtype.is_complex() && !matches!(dtype, Type::F8 | Type::F8E4M3FN)
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
            (Op::Binary(op @ (Binary::LeftShift | Binary::RightShift)), &[x, y]) => self.shift(*op, x, y, out),
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
            LogicalAnd | LogicalOr | LogicalXor => (self.truth(x)?, self.truth(y)?, false),
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

    /// A shift by an unsigned integer, which cannot be negative.
    fn shift(&mut self, op: Binary, x: Known, y: Known, out: Type) -> Option<Known> {
        if y.dtype.class() != Class::Unsigned || x.dtype != out || x.dtype.bits() != 32 {
            return None;
        }
        let function = match (op, x.dtype.class()) {
            (Binary::LeftShift, _) => Two::ShiftLeft,
            (_, Class::Signed) => Two::ShiftRightS,
            _ => Two::ShiftRightU,
        };
        Some(self.push(Step::Two(function, x.value, y.value), out))
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
            // Rounded twice, a number may end elsewhere.
            (_, Class::Float) if x.dtype.bits() > 16 && dtype.bits() < 32 => return None,
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

/// What makes a number of `dtype` of a result in 32 bits.
pub(super) fn narrowing(dtype: Type) -> Option<One> {
    match dtype.class() {
        _ if dtype.bits() == 32 => None,
        Class::Unsigned => Some(One::ZeroExtend(dtype.bits() as u32)),
        Class::Signed => Some(One::SignExtend(dtype.bits() as u32)),
        _ if dtype == Type::BF16 => Some(One::RoundBf16),
        _ => Some(One::RoundF16),
    }
}

fn float_to_int(dtype: Type) -> One {
    let bits = dtype.bits() as u32;
    match dtype.class() {
        Class::Signed => One::FloatToInt { low: (-1i32 << (bits - 1)) as u32, high: (1u32 << (bits - 1)) - 1 },
        _ => One::FloatToInt { low: 0, high: u32::MAX >> (32 - bits) },
    }
}

fn float(op: Unary) -> Option<One> {
    Some(match op {
        Unary::Abs => One::AbsF,
        Unary::Ceil => One::Ceil,
        Unary::Cos => One::Cos,
        Unary::Erf => One::Erf,
        Unary::Exp => One::Exp,
        Unary::Expm1 => One::Expm1,
        Unary::Floor => One::Floor,
        Unary::IsInfinity => One::IsInfinity,
        Unary::IsNan => One::IsNan,
        Unary::Log => One::Log,
        Unary::Log1p => One::Log1p,
        Unary::Negate => One::NegateF,
        Unary::Round => One::Round,
        Unary::Rsqrt => One::Rsqrt,
        Unary::Sigmoid => One::Sigmoid,
        Unary::Sign => One::SignF,
        Unary::Sin => One::Sin,
        Unary::Sqrt => One::Sqrt,
        Unary::Tanh => One::Tanh,
        _ => return None,
    })
}

fn two(op: Binary, class: Class) -> Option<Two> {
    use Binary::*;
    Some(match (op, class) {
        (Add, Class::Float) => Two::AddF,
        (Add, _) => Two::AddI,
        (Subtract, Class::Float) => Two::SubtractF,
        (Subtract, _) => Two::SubtractI,
        (Multiply, Class::Float) => Two::MultiplyF,
        (Multiply, _) => Two::MultiplyI,
        (Divide, Class::Float) => Two::DivideF,
        (Max, Class::Float) => Two::MaxF,
        (Max, Class::Signed) => Two::MaxS,
        (Max, _) => Two::MaxU,
        (Min, Class::Float) => Two::MinF,
        (Min, Class::Signed) => Two::MinS,
        (Min, _) => Two::MinU,
        (Equal | NotEqual, Class::Float) => Two::EqualF,
        (Equal | NotEqual, _) => Two::EqualI,
        (Less | Greater, Class::Float) => Two::LessF,
        (Less | Greater, Class::Signed) => Two::LessS,
        (Less | Greater, _) => Two::LessU,
        (LessEqual | GreaterEqual, Class::Float) => Two::LessEqualF,
        (LessEqual | GreaterEqual, Class::Signed) => Two::LessEqualS,
        (LessEqual | GreaterEqual, _) => Two::LessEqualU,
        (BitwiseAnd | LogicalAnd, _) => Two::And,
        (BitwiseOr | LogicalOr, _) => Two::Or,
        (BitwiseXor | LogicalXor, _) => Two::Xor,
        _ => return None,
    })
}
