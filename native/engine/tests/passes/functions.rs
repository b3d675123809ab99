//! Functions of rows of ten numbers, which the value 0 of a program holds.

use ex_burn_engine::Type;
use ex_burn_engine::program::{Binary, Fold, Unary};

use crate::builder::Builder;

const F64: Type = Type::F64;

pub(crate) fn mean_of(b: &mut Builder, x: usize) -> usize {
    let sum = b.reduce(Fold::Sum, x, &[1], true);
    let count = b.constant(F64, 10.0);
    b.binary(Binary::Divide, sum, count)
}

pub(crate) fn squares_with_number(b: &mut Builder, x: usize) -> usize {
    let square = b.binary(Binary::Multiply, x, x);
    let mean = mean_of(b, square);
    let eps = b.constant(F64, 1e-5);
    b.binary(Binary::Add, mean, eps)
}

/// The sum of a number and a value, in the value's shape.
pub(crate) fn plus(b: &mut Builder, number: f64, x: usize) -> usize {
    let number = b.constant(F64, number);
    b.binary(Binary::Add, x, number)
}

pub(crate) fn times(b: &mut Builder, number: f64, x: usize) -> usize {
    let number = b.constant(F64, number);
    b.binary(Binary::Multiply, x, number)
}

pub(crate) fn shifted(b: &mut Builder) -> usize {
    let max = b.reduce(Fold::Max, 0, &[1], true);
    b.binary(Binary::Subtract, 0, max)
}

pub(crate) fn softmax(b: &mut Builder) -> usize {
    let shifted = shifted(b);
    let exp = b.unary(Unary::Exp, shifted);
    let sum = b.reduce(Fold::Sum, exp, &[1], true);
    b.binary(Binary::Divide, exp, sum)
}

pub(crate) fn log_softmax(b: &mut Builder) -> usize {
    let shifted = shifted(b);
    let exp = b.unary(Unary::Exp, shifted);
    let sum = b.reduce(Fold::Sum, exp, &[1], true);
    let log = b.unary(Unary::Log, sum);
    b.binary(Binary::Subtract, shifted, log)
}

pub(crate) fn layer_norm(b: &mut Builder) -> usize {
    let mean = mean_of(b, 0);
    let centred = b.binary(Binary::Subtract, 0, mean);
    let squares = squares_with_number(b, centred);
    let root = b.unary(Unary::Sqrt, squares);
    b.binary(Binary::Divide, centred, root)
}

pub(crate) fn rms_norm(b: &mut Builder) -> usize {
    let squares = squares_with_number(b, 0);
    let root = b.unary(Unary::Rsqrt, squares);
    b.binary(Binary::Multiply, 0, root)
}

pub(crate) fn gelu(b: &mut Builder) -> usize {
    let scaled = times(b, std::f64::consts::FRAC_1_SQRT_2, 0);
    let erf = b.unary(Unary::Erf, scaled);
    let gate = plus(b, 1.0, erf);
    let half = times(b, 0.5, 0);
    b.binary(Binary::Multiply, half, gate)
}

pub(crate) fn gelu_by_tanh(b: &mut Builder) -> usize {
    let square = b.binary(Binary::Multiply, 0, 0);
    let cube = b.binary(Binary::Multiply, square, 0);
    let small = times(b, 0.044715, cube);
    let sum = b.binary(Binary::Add, 0, small);
    let scaled = times(b, 0.7978845608, sum);
    let tanh = b.unary(Unary::Tanh, scaled);
    let gate = plus(b, 1.0, tanh);
    let half = times(b, 0.5, 0);
    b.binary(Binary::Multiply, half, gate)
}

pub(crate) fn silu(b: &mut Builder) -> usize {
    let negative = b.unary(Unary::Negate, 0);
    let exp = b.unary(Unary::Exp, negative);
    let below = plus(b, 1.0, exp);
    b.binary(Binary::Divide, 0, below)
}
