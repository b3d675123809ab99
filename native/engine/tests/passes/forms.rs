//! Patterns in other forms than those of `patterns`: what people write for the same function has the same name.

use ex_burn_engine::exec::Executable;
use ex_burn_engine::passes::patterns::found;
use ex_burn_engine::program::{Axis, Binary, Fold, Op, Program, Unary};
use ex_burn_engine::{Type, Value};

use crate::builder::{Builder, names, optimised, same};
use crate::functions::{log_softmax, mean_of, plus, shifted, times};
use crate::tools::{assert_close, noise, numbers, tensor, ty};

const F64: Type = Type::F64;
const SHAPE: [usize; 2] = [6, 10];

fn random(seed: u64, shape: &[usize]) -> Value {
    let numbers: Vec<f64> = noise(seed, shape.iter().product(), 1000).into_iter().map(|n| n / 400.0).collect();
    tensor(F64, shape, &numbers)
}

fn found_in(program: &Program) -> Vec<&'static str> {
    found(&optimised(program, &[])).into_iter().map(|(pattern, _)| pattern.name()).collect()
}

/// The mean of the squares less the square of the mean.
fn variance_by_means(b: &mut Builder) -> usize {
    let square = b.binary(Binary::Multiply, 0, 0);
    let (squares, mean) = (mean_of(b, square), mean_of(b, 0));
    let squared = b.binary(Binary::Multiply, mean, mean);
    b.binary(Binary::Subtract, squares, squared)
}

fn centred(b: &mut Builder) -> usize {
    let mean = mean_of(b, 0);
    b.binary(Binary::Subtract, 0, mean)
}

fn variance(b: &mut Builder) -> usize {
    let x = centred(b);
    let square = b.binary(Binary::Multiply, x, x);
    mean_of(b, square)
}

/// The mean and the variance of a row.
fn moments(row: &[f64]) -> (f64, f64) {
    let mean = row.iter().sum::<f64>() / 10.0;
    (mean, row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 10.0)
}

fn log_sum_exp(row: &[f64]) -> f64 {
    row.iter().map(|x| x.exp()).sum::<f64>().ln()
}

/// A function of a row of ten numbers.
struct Case {
    name: &'static str,
    write: fn(&mut Builder) -> usize,
    formula: fn(&[f64], f64) -> f64,
}

const CASES: &[Case] = &[
    Case {
        name: "layer_norm",
        write: |b| {
            let variance = variance_by_means(b);
            let with_number = plus(b, 1e-5, variance);
            let root = b.unary(Unary::Rsqrt, with_number);
            let x = centred(b);
            b.binary(Binary::Multiply, x, root)
        },
        formula: |row, x| (x - moments(row).0) / (moments(row).1 + 1e-5).sqrt(),
    },
    Case {
        name: "layer_norm",
        write: |b| {
            let variance = variance_by_means(b);
            let zero = b.constant(F64, 0.0);
            let positive = b.binary(Binary::Max, variance, zero);
            let with_number = plus(b, 1e-5, positive);
            let root = b.unary(Unary::Sqrt, with_number);
            let x = centred(b);
            b.binary(Binary::Divide, x, root)
        },
        formula: |row, x| (x - moments(row).0) / (moments(row).1 + 1e-5).sqrt(),
    },
    Case {
        name: "layer_norm",
        write: |b| {
            let variance = variance(b);
            let deviation = b.unary(Unary::Sqrt, variance);
            let below = plus(b, 1e-3, deviation);
            let x = centred(b);
            b.binary(Binary::Divide, x, below)
        },
        formula: |row, x| (x - moments(row).0) / (moments(row).1.sqrt() + 1e-3),
    },
    Case {
        name: "layer_norm",
        write: |b| {
            let variance = variance(b);
            let deviation = b.unary(Unary::Sqrt, variance);
            let one = b.constant(F64, 1.0);
            let one = b.broadcast(one, &[6, 1], &[]);
            let inverse = b.binary(Binary::Divide, one, deviation);
            let x = centred(b);
            b.binary(Binary::Multiply, x, inverse)
        },
        formula: |row, x| (x - moments(row).0) / moments(row).1.sqrt(),
    },
    Case {
        name: "softmax",
        write: |b| {
            let log = log_softmax(b);
            b.unary(Unary::Exp, log)
        },
        formula: |row, x| (x - log_sum_exp(row)).exp(),
    },
    Case { name: "relu", write: |b| clipped(b, 6.0), formula: |_, x| (2.0 * x).clamp(0.0, 6.0) },
    Case { name: "relu", write: |b| clipped(b, f64::INFINITY), formula: |_, x| (2.0 * x).max(0.0) },
    Case { name: "elementwise", write: |b| clipped(b, 1.0), formula: |_, x| (2.0 * x).clamp(0.0, 1.0) },
];

fn clipped(b: &mut Builder, high: f64) -> usize {
    let twice = b.binary(Binary::Add, 0, 0);
    let (low, high) = (b.constant(F64, 0.0), b.constant(F64, high));
    b.emit(Op::Clip, &[twice, low, high], ty(F64, &SHAPE))
}

#[test]
fn the_name_is_that_of_the_function() {
    for Case { name, write, formula } in CASES {
        let mut b = Builder::new(&[ty(F64, &SHAPE)]);
        let out = write(&mut b);
        let program = b.finish(&[out]);
        assert_eq!(found_in(&program), [*name], "{program}");
        let x = random(1, &SHAPE);
        let rows = numbers(&x);
        let want: Vec<f64> = rows.chunks(10).flat_map(|row| row.iter().map(|&x| formula(row, x))).collect();
        assert_close(name, &numbers(&same(&program, &[x])[0]), &want, 1e-9);
    }
}

#[test]
fn a_log_softmax_that_is_a_result_too_keeps_its_name() {
    let mut b = Builder::new(&[ty(F64, &SHAPE)]);
    let log = log_softmax(&mut b);
    let out = b.unary(Unary::Exp, log);
    assert_eq!(found_in(&b.finish(&[out, log])), ["softmax", "log_softmax"]);
}

/// The largest of a row and the logarithm of the sum of exponentials less it.
fn log_sum(b: &mut Builder) -> usize {
    let x = shifted(b);
    let (exp, max) = (b.unary(Unary::Exp, x), b.reduce(Fold::Max, 0, &[1], true));
    let sum = b.reduce(Fold::Sum, exp, &[1], true);
    let log = b.unary(Unary::Log, sum);
    b.binary(Binary::Add, log, max)
}

#[test]
fn a_cross_entropy_may_be_a_sum_less_the_logit_of_the_target() {
    let (targets, x) = ([3usize, 0, 9, 9, 1, 4], random(2, &SHAPE));
    let rows = numbers(&x);
    let want: Vec<f64> = rows.chunks(10).zip(targets).map(|(row, target)| log_sum_exp(row) - row[target]).collect();

    let mut b = Builder::new(&[ty(F64, &SHAPE), ty(F64, &SHAPE)]);
    let log = log_sum(&mut b);
    let chosen = b.binary(Binary::Multiply, 0, 1);
    let logit = b.reduce(Fold::Sum, chosen, &[1], true);
    let loss = b.binary(Binary::Subtract, log, logit);
    let one_hot = b.finish(&[loss]);
    assert_eq!(found_in(&one_hot), ["cross_entropy"]);
    let chosen: Vec<f64> =
        targets.iter().flat_map(|&target| (0..10).map(move |at| f64::from(u8::from(at == target)))).collect();
    let got = same(&one_hot, &[x.clone(), tensor(F64, &SHAPE, &chosen)]);
    assert_close("one-hot targets", &numbers(&got[0]), &want, 1e-9);

    let mut b = Builder::new(&[ty(F64, &SHAPE), ty(Type::S64, &[6, 1])]);
    let log = log_sum(&mut b);
    let logit = b.emit(Op::TakeAlongAxis(Axis { axis: 1 }), &[0, 1], ty(F64, &[6, 1]));
    let loss = b.binary(Binary::Subtract, log, logit);
    let sparse = b.finish(&[loss]);
    assert_eq!(found_in(&sparse), ["cross_entropy"]);
    let got = same(&sparse, &[x, tensor(Type::S64, &[6, 1], &targets.map(|target| target as f64))]);
    assert_close("integer targets", &numbers(&got[0]), &want, 1e-9);

    // Less something else, it is none.
    let mut b = Builder::new(&[ty(F64, &SHAPE), ty(F64, &[6, 1])]);
    let log = log_sum(&mut b);
    let less = b.binary(Binary::Subtract, log, 1);
    assert_eq!(found_in(&b.finish(&[less])), ["elementwise"]);
}

/// A step of the parameter 0 with the gradient 1 and the moment 2 of its squares, of which `old` and `new` parts are summed.
fn by_root_of_squares(old: f64, new: f64) -> Program {
    let mut b = Builder::new(&vec![ty(F64, &SHAPE); 3]);
    let square = b.binary(Binary::Multiply, 1, 1);
    let part = |b: &mut Builder, of: f64, x: usize| if of == 1.0 { x } else { times(b, of, x) };
    let (kept, added) = (part(&mut b, old, 2), part(&mut b, new, square));
    let v = b.binary(Binary::Add, kept, added);
    let inner = plus(&mut b, 1e-8, v);
    let root = b.unary(Unary::Rsqrt, inner);
    let ratio = b.binary(Binary::Multiply, root, 1);
    let step = times(&mut b, 0.1, ratio);
    let out = b.binary(Binary::Subtract, 0, step);
    b.finish(&[out, v])
}

#[test]
fn steps_by_the_root_of_squares_are_no_sgd() {
    let squares: Vec<f64> = numbers(&random(5, &SHAPE)).iter().map(|x| x * x + 0.1).collect();
    let inputs = [random(3, &SHAPE), random(4, &SHAPE), tensor(F64, &SHAPE, &squares)];
    let [p, g] = [0, 1].map(|i: usize| numbers(&inputs[i]));
    for (name, old, new) in [("rmsprop", 0.9, 0.1), ("adagrad", 1.0, 1.0)] {
        let program = by_root_of_squares(old, new);
        assert_eq!(found_in(&program), [name]);
        let step = |i: usize| p[i] - 0.1 * g[i] / (old * squares[i] + new * g[i] * g[i] + 1e-8).sqrt();
        let want: Vec<f64> = (0..60).map(step).collect();
        assert_close(name, &numbers(&same(&program, &inputs)[0]), &want, 1e-9);
    }
    // The sign of a moment is no gradient either.
    let mut b = Builder::new(&vec![ty(F64, &SHAPE); 2]);
    let sign = b.unary(Unary::Sign, 1);
    let step = times(&mut b, 0.1, sign);
    let out = b.binary(Binary::Subtract, 0, step);
    assert_eq!(found_in(&b.finish(&[out])), ["elementwise"]);
}

#[test]
fn the_text_names_rows_of_a_table() {
    let mut b = Builder::new(&[ty(F64, &SHAPE), ty(Type::S64, &[3])]);
    let rows = b.emit(Op::Take(Axis { axis: 0 }), &[0, 1], ty(F64, &[3, 10]));
    let program = b.finish(&[rows]);
    assert_eq!(names(&optimised(&program, &[])), ["take"]);
    let text = |disabled: &[&str]| {
        let disabled: Vec<String> = disabled.iter().map(ToString::to_string).collect();
        Executable::optimised(&program, vec![], &disabled).expect("a valid program").text()
    };
    assert!(text(&[]).contains("take(%0, %1) {axis: 0, patterns: [embedding]}"), "{}", text(&[]));
    for off in ["pattern:embedding", "patterns"] {
        assert_eq!(text(&[off]), program.to_string());
    }
}
