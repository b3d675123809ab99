//! Chains: functions that run in one loop answer what loops of their own answer.

use ex_burn_engine::program::{Binary, Fold, Op, Program, Unary};
use ex_burn_engine::{Type, Value};

use crate::builder::{Builder, names, optimised, run};
use crate::tools::{assert_close, noise, numbers, tensor, ty, vector};

const FLOATS: [Type; 4] = [Type::F32, Type::F64, Type::F16, Type::BF16];

/// Of whole groups of vectors, of less than one, and of both.
const LENGTHS: [usize; 8] = [2, 5, 127, 128, 129, 1_000, 1_024, 3_333];

const ONE_OPERAND: [Unary; 7] =
    [Unary::Abs, Unary::Erf, Unary::Exp, Unary::Negate, Unary::Sigmoid, Unary::Sqrt, Unary::Tanh];

const TWO_OPERANDS: [Binary; 6] =
    [Binary::Add, Binary::Divide, Binary::Max, Binary::Min, Binary::Multiply, Binary::Subtract];

/// Random numbers among those that have rules of their own.
fn values(seed: u64, dtype: Type, len: usize) -> Value {
    let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-40, -3e38, 1e-8];
    let place = |(i, n): (usize, f64)| if i % 3 == 0 { special[(i / 3 + seed as usize) % 8] } else { n / 300.0 };
    vector(dtype, &noise(seed, len, 1_000).into_iter().enumerate().map(place).collect::<Vec<_>>())
}

/// The bits of the numbers, all NaN alike.
fn bits(value: &Value) -> Vec<u64> {
    numbers(value).into_iter().map(|n| if n.is_nan() { u64::MAX } else { n.to_bits() }).collect()
}

/// The results after the passes, which are those before.
fn same(program: &Program, inputs: &[Value]) -> Vec<Value> {
    let fused = optimised(program, &[]);
    assert!(names(&fused).contains(&"fused".to_string()), "{program}");
    let results = run(&fused, inputs);
    for (plain, fast) in run(program, inputs).iter().zip(&results) {
        assert!(bits(plain) == bits(fast), "the results of\n{program}");
    }
    results
}

fn same_for_all(dtype: Type, body: impl Fn(&mut Builder) -> Vec<usize>) {
    for len in LENGTHS {
        let mut b = Builder::new(&[ty(dtype, &[len]), ty(dtype, &[len])]);
        let results = body(&mut b);
        let program = b.finish(&results);
        same(&program, &[values(1, dtype, len), values(2, dtype, len)]);
    }
}

#[test]
fn functions_of_one_operand() {
    for (dtype, op) in FLOATS.into_iter().flat_map(|dtype| ONE_OPERAND.map(|op| (dtype, op))) {
        same_for_all(dtype, |b| {
            let shifted = b.binary(Binary::Add, 0, 1);
            let y = b.unary(op, shifted);
            vec![b.binary(Binary::Subtract, 1, y)]
        });
    }
}

#[test]
fn functions_of_two_operands() {
    for (dtype, op) in FLOATS.into_iter().flat_map(|dtype| TWO_OPERANDS.map(|op| (dtype, op))) {
        same_for_all(dtype, |b| {
            let (zero, three) = (b.constant(dtype, -0.0), b.constant(dtype, 3.0));
            let left = b.binary(op, 0, 1);
            let right = b.binary(op, 1, left);
            let by_number = b.binary(op, right, three);
            let by_zero = b.binary(op, by_number, zero);
            vec![b.binary(op, by_zero, by_zero)]
        });
    }
}

#[test]
fn numbers_before_the_running_ones() {
    for op in TWO_OPERANDS {
        for len in LENGTHS {
            let vector = ty(Type::F32, &[len]);
            let mut b = Builder::new(&[vector.clone(), vector.clone()]);
            let two = b.constant(Type::F32, 2.0);
            let sum = b.binary(Binary::Add, 0, 1);
            let of_number = b.emit(Op::Binary(op), &[two, sum], vector);
            let product = b.binary(Binary::Multiply, 0, two);
            let last = b.binary(op, product, of_number);
            let program = b.finish(&[last]);
            same(&program, &[values(1, Type::F32, len), values(2, Type::F32, len)]);
        }
    }
}

#[test]
fn values_that_others_read_are_kept() {
    same_for_all(Type::F32, |b| {
        let half = b.constant(Type::F32, 0.5);
        let product = b.binary(Binary::Multiply, 0, half);
        let shifted = b.binary(Binary::Add, 0, 1);
        let tanh = b.unary(Unary::Tanh, shifted);
        let square = b.binary(Binary::Multiply, tanh, tanh);
        let sum = b.binary(Binary::Add, square, product);
        let below = b.binary(Binary::Subtract, product, tanh);
        let last = b.binary(Binary::Max, sum, below);
        vec![last, tanh, b.unary(Unary::Negate, last)]
    });
}

#[test]
fn more_functions_than_a_chain_has() {
    same_for_all(Type::F32, |b| {
        let by = b.constant(Type::F32, 0.99);
        let step = |b: &mut Builder, x| {
            let product = b.binary(Binary::Multiply, x, by);
            b.binary(Binary::Add, product, 1)
        };
        vec![(0..25).fold(0, |x, _| step(b, x))]
    });
}

#[test]
fn an_element_for_each_row() {
    for (dtype, shape) in
        FLOATS.into_iter().flat_map(|dtype| [[5, 256], [3, 300], [2, 1_100], [9, 40]].map(|s| (dtype, s)))
    {
        let mut b = Builder::new(&[ty(dtype, &shape), ty(dtype, &[shape[0], 1])]);
        let max = b.reduce(Fold::Max, 0, &[1], true);
        let centred = b.binary(Binary::Subtract, 0, max);
        let exp = b.unary(Unary::Exp, centred);
        let scaled = b.binary(Binary::Divide, exp, 1);
        let product = b.binary(Binary::Multiply, 0, max);
        let sum = b.binary(Binary::Add, scaled, product);
        let program = b.finish(&[sum]);
        let x = tensor(dtype, &shape, &noise(3, shape[0] * shape[1], 900));
        same(&program, &[x, tensor(dtype, &[shape[0], 1], &noise(4, shape[0], 50))]);
    }
}

#[test]
fn what_is_made_again_for_each_reader() {
    let folds = [Fold::Sum, Fold::Product, Fold::Max, Fold::Min];
    let shapes = [[5, 256], [3, 300], [2, 1_100], [20, 1_024], [9, 40]];
    for (fold, shape) in folds.into_iter().flat_map(|fold| shapes.map(|shape| (fold, shape))) {
        let mut b = Builder::new(&[ty(Type::F32, &shape), ty(Type::F32, &[shape[0], 1])]);
        let shifted = b.binary(Binary::Subtract, 0, 1);
        let square = b.binary(Binary::Multiply, shifted, shifted);
        let of_squares = b.reduce(fold, square, &[1], true);
        let scaled = b.binary(Binary::Divide, shifted, of_squares);
        let exp = b.unary(Unary::Exp, shifted);
        let results = [scaled, b.reduce(Fold::Sum, exp, &[1], true)];
        let program = b.finish(&results);
        let len = shape[0] * shape[1];
        let beside = tensor(Type::F32, &[shape[0], 1], &noise(4, shape[0], 3));
        for x in [noise(3, len, 9), numbers(&values(5, Type::F32, len))] {
            same(&program, &[tensor(Type::F32, &shape, &x), beside.clone()]);
        }
    }
}

#[test]
fn a_norm_is_known_where_numbers_lie_as_far_below_their_mean_as_above() {
    let shape = [3, 640];
    let mut b = Builder::new(&[ty(Type::F32, &shape)]);
    let [count, small] = [640.0, 7.0].map(|n| b.constant(Type::F32, n));
    let mean = |b: &mut Builder, x| {
        let sum = b.reduce(Fold::Sum, x, &[1], true);
        b.binary(Binary::Divide, sum, count)
    };
    let middle = mean(&mut b, 0);
    let centred = b.binary(Binary::Subtract, 0, middle);
    let square = b.binary(Binary::Multiply, centred, centred);
    let variance = mean(&mut b, square);
    let above = b.binary(Binary::Add, variance, small);
    let root = b.unary(Unary::Sqrt, above);
    let out = b.binary(Binary::Divide, centred, root);
    let program = b.finish(&[out]);
    let signs: Vec<f64> =
        noise(6, 3 * 320, 2).into_iter().flat_map(|n| if n > 0.0 { [1.0, -1.0] } else { [-1.0, 1.0] }).collect();
    let x: Vec<f64> = signs.iter().map(|sign| 5.0 + 3.0 * sign).collect();
    let got = same(&program, &[tensor(Type::F32, &shape, &x)]);
    // 3 by the root of 9 and 7.
    assert_eq!(numbers(&got[0]), signs.iter().map(|sign| sign * 0.75).collect::<Vec<_>>());
}

#[test]
fn gelu_is_that_of_its_table() {
    let mut b = Builder::new(&[ty(Type::F32, &[7])]);
    let [half, one, root] = [0.5, 1.0, std::f64::consts::SQRT_2].map(|n| b.constant(Type::F32, n));
    let halves = b.binary(Binary::Multiply, 0, half);
    let scaled = b.binary(Binary::Divide, 0, root);
    let erf = b.unary(Unary::Erf, scaled);
    let gate = b.binary(Binary::Add, erf, one);
    let out = b.binary(Binary::Multiply, halves, gate);
    let program = b.finish(&[out]);
    let got = same(&program, &[vector(Type::F32, &[-4.0, -1.0, -0.0, 0.0, 0.5, 1.0, 3.0])]);
    // x times the normal distribution function of x.
    let want = [-4.0 * 3.167_124_2e-5, -0.158_655_25, 0.0, 0.0, 0.345_731_23, 0.841_344_75, 3.0 * 0.998_650_1];
    assert_close("gelu", &numbers(&got[0]), &want, 3e-7);
}
