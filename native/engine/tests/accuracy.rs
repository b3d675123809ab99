//! Every function of floats is within one unit in the last place of the right value.
//!
//! The right value of a function of `f32` is the standard library's function of `f64`, rounded.

mod tools;

use std::slice::from_ref;

use ex_burn_engine::program::{Binary, Op, Unary};
use ex_burn_engine::{Device, TensorType, Type, Value};
use tools::*;

type Function = fn(f64) -> f64;

type PairFunction = fn(f64, f64) -> f64;

const FUNCTIONS: [(Unary, Function); 28] = [
    (Unary::Abs, f64::abs),
    (Unary::Acos, f64::acos),
    (Unary::Acosh, f64::acosh),
    (Unary::Asin, f64::asin),
    (Unary::Asinh, f64::asinh),
    (Unary::Atan, f64::atan),
    (Unary::Atanh, f64::atanh),
    (Unary::Cbrt, f64::cbrt),
    (Unary::Ceil, f64::ceil),
    (Unary::Cos, f64::cos),
    (Unary::Cosh, f64::cosh),
    (Unary::Erf, libm::erf),
    (Unary::Erfc, libm::erfc),
    (Unary::Exp, f64::exp),
    (Unary::Expm1, f64::exp_m1),
    (Unary::Floor, f64::floor),
    (Unary::Log, f64::ln),
    (Unary::Log1p, f64::ln_1p),
    (Unary::Negate, |x| -x),
    (Unary::Round, f64::round),
    (Unary::Rsqrt, |x| x.sqrt().recip()),
    (Unary::Sigmoid, |x| if x < -40.0 { x.exp() } else { (1.0 + (-x).exp()).recip() }),
    (Unary::Sign, |x| if x == 0.0 || x.is_nan() { x } else { x.signum() }),
    (Unary::Sin, f64::sin),
    (Unary::Sinh, f64::sinh),
    (Unary::Sqrt, f64::sqrt),
    (Unary::Tan, f64::tan),
    (Unary::Tanh, f64::tanh),
];

/// The numbers in the order of their values, with all NaNs above.
fn order(x: f32) -> i64 {
    let bits = i64::from(x.to_bits() & 0x7fff_ffff);
    if x.is_nan() {
        i64::from(u32::MAX)
    } else if x.is_sign_negative() {
        -bits
    } else {
        bits
    }
}

fn floats(xs: &[f32]) -> Value {
    let bytes = xs.iter().flat_map(|x| x.to_le_bytes()).collect();
    Value::from_bytes(&TensorType::new(Type::F32, [xs.len()]), bytes, &Device::Cpu).unwrap()
}

fn run_on(op: Op, operands: &[Value]) -> Vec<f32> {
    let bytes = run(op, operands, &operands[0].ty()).into_bytes().unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Compares the results for the operands with these bits.
fn check(op: Unary, f: Function, bits: impl Iterator<Item = u32>) {
    let xs: Vec<f32> = bits.map(f32::from_bits).collect();
    for (&x, got) in xs.iter().zip(run_on(Op::Unary(op), from_ref(&floats(&xs)))) {
        let want = f(x.into()) as f32;
        assert!(order(got).abs_diff(order(want)) <= 1, "{op:?} of {x:e} is {want:e}, got {got:e}");
    }
}

#[test]
fn functions_of_single_precision_are_right_to_the_last_place() {
    for (op, f) in FUNCTIONS {
        check(op, f, (0..u32::MAX).step_by(1999));
    }
}

#[test]
#[ignore = "takes an hour; for changes of a function of f32"]
fn functions_of_single_precision_are_right_for_every_operand() {
    for (op, f) in FUNCTIONS {
        (0..1 << 12).for_each(|block: u32| check(op, f, (0..1 << 20).map(|i| block << 20 | i)));
    }
}

#[test]
fn functions_of_single_precision_have_the_limits_and_the_zeros_of_the_standard_library() {
    let xs = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -1.0];
    for (op, f) in FUNCTIONS {
        for (&x, got) in xs.iter().zip(run_on(Op::Unary(op), from_ref(&floats(&xs)))) {
            let want = f(x.into()) as f32;
            let same = got == want && got.is_sign_negative() == want.is_sign_negative();
            let near = want.is_finite() && want != 0.0 && order(got).abs_diff(order(want)) <= 1;
            assert!(same || near || got.is_nan() && want.is_nan(), "{op:?} of {x:?} is {want:?}, got {got:?}");
        }
    }
}

/// Operands at which functions of two numbers have rules of their own.
const SPECIAL: [f32; 11] = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];

#[test]
fn functions_of_two_numbers_are_right_to_the_last_place() {
    let cases: [(Binary, PairFunction); 7] = [
        (Binary::Add, |a, b| a + b),
        (Binary::Subtract, |a, b| a - b),
        (Binary::Multiply, |a, b| a * b),
        (Binary::Divide, |a, b| a / b),
        (Binary::Pow, f64::powf),
        (Binary::Atan2, f64::atan2),
        (Binary::Remainder, |a, b| a % b),
    ];
    let numbers: Vec<f32> = (0..u32::MAX).step_by(12_345_677).map(f32::from_bits).chain(SPECIAL).collect();
    let pairs: Vec<(f32, f32)> = numbers.iter().flat_map(|&a| numbers.iter().map(move |&b| (a, b))).collect();
    let near: Vec<(f32, f32)> = (1..5000u16).map(|i| (f32::from(i) / 700.0, f32::from(i % 97) / 3.0 - 16.0)).collect();
    let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().chain(near).unzip();
    for (op, f) in cases {
        let got = run_on(Op::Binary(op), &[floats(&a), floats(&b)]);
        for ((&a, &b), got) in a.iter().zip(&b).zip(got) {
            let want = f(a.into(), b.into()) as f32;
            assert!(order(got).abs_diff(order(want)) <= 1, "{op:?} of {a:e} and {b:e} is {want:e}, got {got:e}");
        }
    }
}
