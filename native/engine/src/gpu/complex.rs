//! Elementwise operations of complex numbers on a GPU: regions that read the parts of an operand as two.

use super::formula::Formula;
use super::launch::{Operand, Work};
use super::step::{One, Two};
use super::{Adapter, cast};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{Binary, Op, Unary};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// Whether the operation is one of complex numbers.
pub(super) fn is_complex(call: &Call<'_>) -> bool {
    call.inputs.iter().map(Value::dtype).chain(call.outputs.iter().map(|out| out.dtype)).any(Type::is_complex)
}

/// The result, where there is a kernel: of casts, parts, sums, products, quotients and comparisons.
pub(super) fn run(call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let out = call.out()?;
    let made = match call.op {
        Op::Unary(Unary::LogicalNot) | Op::Binary(Binary::Equal | Binary::NotEqual) => Type::U8,
        _ if out.dtype.is_complex() => Type::C64,
        _ => Type::F32,
    };
    if out.dtype == Type::C128 {
        return Ok(None);
    }
    let mut operands = Vec::new();
    let mut parts = Vec::new();
    for input in &call.inputs {
        let Some(read) = read(input, &out.shape, adapter)? else { return Ok(None) };
        parts.push((operands.len(), read.len()));
        operands.extend(read);
    }
    let mut formula = Formula::new(operands.len());
    let numbers: Vec<Number> = parts.iter().map(|&(first, count)| Number::of(&mut formula, first, count)).collect();
    let Some(number) = function(call.op, &numbers, &mut formula) else { return Ok(None) };
    let value = computed(number, formula, operands, &TensorType::new(made, out.shape.clone()), adapter)?;
    match value {
        Some(value) if value.dtype() != out.dtype => cast(&value, out.dtype, adapter),
        value => Ok(value),
    }
}

/// Complex numbers, or real ones, that the formula makes of the operands.
fn computed(
    number: Number,
    mut formula: Formula,
    mut operands: Vec<Operand>,
    out: &TensorType,
    adapter: Adapter,
) -> Result<Option<Value>> {
    let mut shape = out.shape.clone();
    let result = if out.dtype.is_complex() {
        let part = formula.place(shape.len());
        shape.push(2);
        operands.iter_mut().for_each(|operand| operand.strides.push(0));
        formula.select(part, number.im, number.re)
    } else {
        number.re
    };
    let types = std::slice::from_ref(out);
    let work = Work { adapter, shape, operands, steps: formula.steps, results: vec![result], types };
    Ok(work.run()?.pop())
}

/// The real parts of numbers, or the imaginary ones.
pub(super) fn part(value: &Value, side: usize, adapter: Adapter) -> Result<Option<Value>> {
    let Some(operands) = read(value, &value.shape(), adapter)? else { return Ok(None) };
    let mut formula = Formula::new(operands.len());
    let number = Number::of(&mut formula, 0, operands.len());
    let number = if side == 0 { number } else { Number { re: number.im, ..number } };
    computed(number, formula, operands, &TensorType::new(Type::F32, value.shape()), adapter)
}

/// Complex numbers of these parts.
pub(super) fn joined(re: &Value, im: &Value, out: &TensorType, adapter: Adapter) -> Result<Option<Value>> {
    let operands: Option<Vec<Operand>> =
        [re, im].map(|part| Operand::broadcast(part, &out.shape)).into_iter().collect();
    let Some(operands) = operands else { return Ok(None) };
    computed(Number { re: 0, im: 1 }, Formula::new(2), operands, out, adapter)
}

/// The operand as one of real parts and one of imaginary ones, if it has them.
fn read(value: &Value, shape: &[usize], adapter: Adapter) -> Result<Option<Vec<Operand>>> {
    if value.dtype() != Type::C64 {
        let value = cast(value, Type::F32, adapter)?;
        return Ok(value.and_then(|value| Operand::broadcast(&value, shape)).map(|operand| vec![operand]));
    }
    let Some(mut re) = Operand::broadcast(value, shape) else { return Ok(None) };
    re.strides.iter_mut().for_each(|stride| *stride *= 2);
    let im = Operand { start: 1, ..re.clone() };
    Ok(Some(vec![re, im]))
}

/// The values of a region that are the parts of a number.
#[derive(Clone, Copy)]
struct Number {
    re: usize,
    im: usize,
}

impl Number {
    fn of(formula: &mut Formula, first: usize, count: usize) -> Self {
        let im = if count == 2 { first + 1 } else { formula.literal(0) };
        Self { re: first, im }
    }

    /// A function of each part.
    fn each(self, other: Self, function: Two, formula: &mut Formula) -> Self {
        Self { re: formula.two(function, self.re, other.re), im: formula.two(function, self.im, other.im) }
    }
}

fn function(op: &Op, numbers: &[Number], f: &mut Formula) -> Option<Number> {
    match (op, numbers) {
        (Op::Cast | Op::Unary(Unary::Real), &[x]) => Some(x),
        (Op::Unary(Unary::Imag), &[x]) => Some(Number { re: x.im, ..x }),
        (Op::Unary(Unary::Conjugate), &[x]) => Some(Number { im: f.one(One::NegateF, x.im), ..x }),
        (Op::Unary(Unary::Negate), &[x]) => {
            Some(Number { re: f.one(One::NegateF, x.re), im: f.one(One::NegateF, x.im) })
        }
        (Op::Unary(Unary::Phase), &[x]) => Some(Number { re: f.two(Two::Atan2, x.im, x.re), ..x }),
        (Op::Unary(Unary::Abs), &[x]) => Some(Number { re: size(x, f), ..x }),
        (Op::Binary(Binary::Add), &[x, y]) => Some(x.each(y, Two::AddF, f)),
        (Op::Binary(Binary::Subtract), &[x, y]) => Some(x.each(y, Two::SubtractF, f)),
        (Op::Binary(Binary::Multiply), &[x, y]) => {
            let same = Number { re: f.two(Two::MultiplyF, x.re, y.re), im: f.two(Two::MultiplyF, x.im, y.im) };
            let cross = Number { re: f.two(Two::MultiplyF, x.re, y.im), im: f.two(Two::MultiplyF, x.im, y.re) };
            let re = f.two(Two::SubtractF, same.re, same.im);
            Some(Number { re, im: f.two(Two::AddF, cross.re, cross.im) })
        }
        (Op::Binary(Binary::Divide), &[x, y]) => Some(quotient(x, y, f)),
        (Op::Unary(Unary::LogicalNot), &[x]) => {
            let zero = f.literal(0);
            Some(equal(x, Number { re: zero, im: zero }, f))
        }
        (Op::Binary(Binary::Equal), &[x, y]) => Some(equal(x, y, f)),
        (Op::Binary(Binary::NotEqual), &[x, y]) => {
            let (equal, one) = (equal(x, y, f), f.literal(1));
            Some(Number { re: f.two(Two::Xor, equal.re, one), ..equal })
        }
        _ => None,
    }
}

/// Whether both parts are equal.
fn equal(x: Number, y: Number, f: &mut Formula) -> Number {
    let parts = x.each(y, Two::EqualF, f);
    Number { re: f.two(Two::And, parts.re, parts.im), ..parts }
}

/// R. L. Smith's quotient, as on the CPU: by the larger part of the divisor first.
fn quotient(x: Number, y: Number, f: &mut Formula) -> Number {
    let (re, im) = (f.one(One::AbsF, y.re), f.one(One::AbsF, y.im));
    let ordered = f.two(Two::LessEqualF, im, re);
    let mut pick = |a: usize, b: usize| (f.select(ordered, a, b), f.select(ordered, b, a));
    let ((large, small), (first, second)) = (pick(y.re, y.im), pick(x.re, x.im));
    let ratio = f.two(Two::DivideF, small, large);
    let product = f.two(Two::MultiplyF, small, ratio);
    let scale = f.two(Two::AddF, large, product);
    let (of_second, of_first) = (f.two(Two::MultiplyF, second, ratio), f.two(Two::MultiplyF, first, ratio));
    let (sum, difference) = (f.two(Two::AddF, first, of_second), f.two(Two::SubtractF, second, of_first));
    let negative = f.one(One::NegateF, difference);
    let difference = f.select(ordered, difference, negative);
    Number { re: f.two(Two::DivideF, sum, scale), im: f.two(Two::DivideF, difference, scale) }
}

/// The distance from zero: the larger part times a root that is between 1 and 2, so that no square is too large or too small.
fn size(x: Number, f: &mut Formula) -> usize {
    let (re, im) = (f.one(One::AbsF, x.re), f.one(One::AbsF, x.im));
    let (large, small) = (f.two(Two::MaxF, re, im), f.two(Two::MinF, re, im));
    let share = f.two(Two::DivideF, small, large);
    let square = f.two(Two::MultiplyF, share, share);
    let one = f.float(1.0);
    let sum = f.two(Two::AddF, square, one);
    let root = f.one(One::Sqrt, sum);
    let size = f.two(Two::MultiplyF, large, root);
    // Both parts zero, one of them infinite, or none a number beside an infinite one.
    let zero = f.literal(0);
    let (is_zero, infinity) = (f.two(Two::EqualF, large, zero), f.literal(0x7f80_0000));
    let (re, im) = (f.one(One::IsInfinity, re), f.one(One::IsInfinity, im));
    let infinite = f.two(Two::Or, re, im);
    let size = f.select(is_zero, zero, size);
    f.select(infinite, infinity, size)
}
