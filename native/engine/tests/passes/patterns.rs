//! Patterns: their names, that names change no result, and that regions come apart when a pattern is switched off.

use ex_burn_engine::passes::patterns::found;
use ex_burn_engine::program::{Axis, Binary, Dot, Fold, Op, Program, Unary};
use ex_burn_engine::{Type, Value, passes};

use crate::builder::{Builder, names, optimised, run, same};
use crate::functions::{gelu, gelu_by_tanh, layer_norm, log_softmax, plus, rms_norm, silu, softmax, times};
use crate::tools::{assert_close, integers, noise, numbers, tensor, ty};

const F64: Type = Type::F64;
const SHAPE: [usize; 2] = [6, 10];

fn random(seed: u64, shape: &[usize]) -> Value {
    let numbers: Vec<f64> = noise(seed, shape.iter().product(), 1000).into_iter().map(|n| n / 400.0).collect();
    tensor(F64, shape, &numbers)
}

/// The names in the program after all passes but those named.
fn found_in(program: &Program, disabled: &[&str]) -> Vec<&'static str> {
    found(&optimised(program, disabled)).into_iter().map(|(pattern, _)| pattern.name()).collect()
}

/// A function of a row of ten numbers, as a program and as a formula.
struct Case {
    names: &'static [&'static str],
    write: fn(&mut Builder) -> usize,
    formula: fn(&[f64]) -> Vec<f64>,
}

fn elementwise(row: &[f64], of: impl Fn(f64) -> f64) -> Vec<f64> {
    row.iter().map(|&x| of(x)).collect()
}

fn exps(row: &[f64]) -> Vec<f64> {
    elementwise(row, f64::exp)
}

fn total(row: &[f64]) -> f64 {
    row.iter().sum()
}

fn standardised(row: &[f64], middle: f64) -> Vec<f64> {
    let squares = row.iter().map(|x| (x - middle).powi(2)).sum::<f64>() / 10.0;
    elementwise(row, |x| (x - middle) / (squares + 1e-5).sqrt())
}

/// The integral of the normal density from 0 to x, by Simpson's rule.
fn normal_integral(x: f64) -> f64 {
    let (steps, density) = (2000, |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt());
    let weight = |i: usize| if i == 0 || i == steps { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
    let step = x / steps as f64;
    (0..=steps).map(|i| weight(i) * density(i as f64 * step)).sum::<f64>() * step / 3.0
}

const CASES: &[Case] = &[
    Case { names: &["softmax"], write: softmax, formula: |row| elementwise(&exps(row), |e| e / total(&exps(row))) },
    Case {
        names: &["log_softmax"],
        write: log_softmax,
        formula: |row| elementwise(row, |x| x - total(&exps(row)).ln()),
    },
    Case { names: &["layer_norm"], write: layer_norm, formula: |row| standardised(row, total(row) / 10.0) },
    Case { names: &["rms_norm"], write: rms_norm, formula: |row| standardised(row, 0.0) },
    Case { names: &["gelu"], write: gelu, formula: |row| elementwise(row, |x| x * (0.5 + normal_integral(x))) },
    Case {
        names: &["gelu"],
        write: gelu_by_tanh,
        formula: |row| elementwise(row, |x| 0.5 * x * (1.0 + (0.7978845608 * (x + 0.044715 * x.powi(3))).tanh())),
    },
    Case { names: &["silu"], write: silu, formula: |row| elementwise(row, |x| x / (1.0 + (-x).exp())) },
    Case {
        names: &["sigmoid"],
        write: |b| {
            let twice = b.binary(Binary::Add, 0, 0);
            b.unary(Unary::Sigmoid, twice)
        },
        formula: |row| elementwise(row, |x| 1.0 / (1.0 + (-2.0 * x).exp())),
    },
    Case {
        names: &["tanh"],
        write: |b| {
            let twice = b.binary(Binary::Add, 0, 0);
            b.unary(Unary::Tanh, twice)
        },
        formula: |row| elementwise(row, |x| (2.0 * x).tanh()),
    },
    Case {
        names: &["relu"],
        write: |b| {
            let (twice, zero) = (b.binary(Binary::Add, 0, 0), b.constant(F64, 0.0));
            b.binary(Binary::Max, twice, zero)
        },
        formula: |row| elementwise(row, |x| (2.0 * x).max(0.0)),
    },
    Case {
        names: &["elementwise"],
        write: |b| {
            let twice = b.binary(Binary::Add, 0, 0);
            b.unary(Unary::Sin, twice)
        },
        formula: |row| elementwise(row, |x| (2.0 * x).sin()),
    },
];

#[test]
fn functions_of_rows_are_named_and_come_apart_by_name() {
    for Case { names: want, write, formula } in CASES {
        let mut b = Builder::new(&[ty(F64, &SHAPE)]);
        let out = write(&mut b);
        let program = b.finish(&[out]);
        let fused = optimised(&program, &[]);
        assert_eq!(names(&fused).iter().filter(|name| *name != "constant").collect::<Vec<_>>(), ["fused"], "{want:?}");
        assert_eq!(found_in(&program, &[]), *want);
        assert!(fused.to_string().contains(&format!("patterns: [{}]", want.join(","))), "{fused}");
        let x = random(1, &SHAPE);
        let formula: Vec<f64> = numbers(&x).chunks(10).flat_map(formula).collect();
        assert_close(want[0], &numbers(&same(&program, std::slice::from_ref(&x))[0]), &formula, 1e-9);
        let switch = format!("pattern:{}", want[0]);
        let apart = optimised(&program, &[&switch]);
        assert!(!names(&apart).contains(&"fused".to_string()), "{apart}");
        assert_eq!(found_in(&program, &[&switch]), [""; 0]);
        assert_close(want[0], &numbers(&run(&apart, &[x])[0]), &formula, 1e-9);
        assert_eq!(found_in(&program, &["patterns"]), [""; 0]);
    }
}

fn dot(b: &mut Builder, operands: [usize; 2], contract: [usize; 2], out: &[usize]) -> usize {
    let [left, right] = contract;
    let attrs = Dot { lhs_contract: vec![left], lhs_batch: vec![], rhs_contract: vec![right], rhs_batch: vec![] };
    b.emit(Op::Dot(attrs), &operands, ty(F64, out))
}

#[test]
fn regions_next_to_products_are_named_and_stay_fused() {
    let mut b = Builder::new(&[ty(F64, &[4, 3]), ty(F64, &[3, 5]), ty(F64, &[5])]);
    let product = dot(&mut b, [0, 1], [1, 0], &[4, 5]);
    let biased = b.binary(Binary::Add, product, 2);
    let out = b.unary(Unary::Tanh, biased);
    let program = b.finish(&[out]);
    assert_eq!(found_in(&program, &[]), ["linear", "tanh"]);
    assert_eq!(found_in(&program, &["pattern:linear"]), ["tanh"]);
    assert_eq!(names(&optimised(&program, &["pattern:tanh"])), ["dot", "add", "tanh"]);
    let inputs = [random(2, &[4, 3]), random(3, &[3, 5]), random(4, &[5])];
    let got = same(&program, &inputs);
    let [x, w, bias] = inputs.map(|input| numbers(&input));
    let product = |i: usize, j: usize| (0..3).map(|k| x[i * 3 + k] * w[k * 5 + j]).sum::<f64>();
    let want: Vec<f64> = (0..20).map(|at| (product(at / 5, at % 5) + bias[at % 5]).tanh()).collect();
    assert_close("dense", &numbers(&got[0]), &want, 1e-9);
}

#[test]
fn a_single_row_has_a_bias_as_long_as_itself() {
    for shape in [&[1, 5][..], &[5]] {
        let mut b =
            Builder::new(&[ty(F64, &[&shape[..shape.len() - 1], &[3]].concat()), ty(F64, &[3, 5]), ty(F64, &[5])]);
        let product = dot(&mut b, [0, 1], [shape.len() - 1, 0], shape);
        let biased = b.binary(Binary::Add, product, 2);
        let out = b.unary(Unary::Tanh, biased);
        assert_eq!(found_in(&b.finish(&[out]), &[]), ["linear", "tanh"]);
    }
}

#[test]
fn a_choice_by_sign_is_a_relu() {
    let mut b = Builder::new(&[ty(F64, &SHAPE)]);
    let x = b.binary(Binary::Add, 0, 0);
    let zero = b.constant(F64, 0.0);
    let is_above = b.emit(Op::Binary(Binary::Greater), &[x, zero], ty(Type::U8, &SHAPE));
    let out = b.emit(Op::Select, &[is_above, x, zero], ty(F64, &SHAPE));
    assert_eq!(found_in(&b.finish(&[out]), &[]), ["relu"]);
}

#[test]
fn sgd_may_have_a_momentum() {
    for is_nesterov in [false, true] {
        let mut b = Builder::new(&vec![ty(F64, &SHAPE); 3]);
        let old = times(&mut b, 0.9, 2);
        let momentum = b.binary(Binary::Add, 1, old);
        let ahead = times(&mut b, 0.9, momentum);
        let direction = if is_nesterov { b.binary(Binary::Add, 1, ahead) } else { momentum };
        let step = times(&mut b, 0.1, direction);
        let out = b.binary(Binary::Subtract, 0, step);
        assert_eq!(found_in(&b.finish(&[out, momentum]), &[]), ["sgd"]);
    }
}

#[test]
fn attention_is_a_softmax_between_products() {
    let mut b = Builder::new(&[ty(F64, &[4, 3]), ty(F64, &[5, 3]), ty(F64, &[5, 2])]);
    let scores = dot(&mut b, [0, 1], [1, 1], &[4, 5]);
    let max = b.reduce(Fold::Max, scores, &[1], true);
    let shifted = b.binary(Binary::Subtract, scores, max);
    let exp = b.unary(Unary::Exp, shifted);
    let sum = b.reduce(Fold::Sum, exp, &[1], true);
    let weights = b.binary(Binary::Divide, exp, sum);
    let out = dot(&mut b, [weights, 2], [1, 0], &[4, 2]);
    let program = b.finish(&[out]);
    assert_eq!(found_in(&program, &[]), ["attention", "softmax"]);
    assert_eq!(found_in(&program, &["pattern:attention"]), ["softmax"]);
}

/// A step of an optimizer for the parameter 0 with the gradient 1 and the moments 2 and 3.
fn adam(decay: f64) -> Program {
    let mut b = Builder::new(&vec![ty(F64, &SHAPE); 4]);
    let square = b.binary(Binary::Multiply, 1, 1);
    let parts = [times(&mut b, 0.9, 2), times(&mut b, 0.1, 1), times(&mut b, 0.99, 3), times(&mut b, 0.01, square)];
    let (m, v) = (b.binary(Binary::Add, parts[0], parts[1]), b.binary(Binary::Add, parts[2], parts[3]));
    let root = b.unary(Unary::Sqrt, v);
    let below = plus(&mut b, 1e-8, root);
    let ratio = b.binary(Binary::Divide, m, below);
    let part = if decay > 0.0 { times(&mut b, decay, 0) } else { ratio };
    let sum = if decay > 0.0 { b.binary(Binary::Add, ratio, part) } else { ratio };
    let step = times(&mut b, 0.1, sum);
    let out = b.binary(Binary::Subtract, 0, step);
    b.finish(&[out, m, v])
}

#[test]
fn steps_of_optimizers() {
    let state: Vec<Value> = [5, 6, 7].map(|seed| random(seed, &SHAPE)).to_vec();
    let squares: Vec<f64> = numbers(&random(8, &SHAPE)).iter().map(|x| x * x).collect();
    let inputs = [state, vec![tensor(F64, &SHAPE, &squares)]].concat();
    let [p, g, m, v] = [0, 1, 2, 3].map(|i: usize| numbers(&inputs[i]));
    for (decay, name) in [(0.0, "adam"), (0.02, "adamw")] {
        assert_eq!(found_in(&adam(decay), &[]), [name]);
        let got = same(&adam(decay), &inputs);
        let step = |i: usize| {
            let (m, v) = (0.9 * m[i] + 0.1 * g[i], 0.99 * v[i] + 0.01 * g[i] * g[i]);
            p[i] - 0.1 * (m / (v.sqrt() + 1e-8) + decay * p[i])
        };
        assert_close(name, &numbers(&got[0]), &(0..60).map(step).collect::<Vec<_>>(), 1e-9);
    }
    let mut b = Builder::new(&vec![ty(F64, &SHAPE); 2]);
    let step = times(&mut b, 0.1, 1);
    let out = b.binary(Binary::Subtract, 0, step);
    let program = b.finish(&[out]);
    assert_eq!(found_in(&program, &[]), ["sgd"]);
    let want: Vec<f64> = (0..60).map(|i| p[i] - 0.1 * g[i]).collect();
    assert_close("sgd", &numbers(&same(&program, &inputs[..2])[0]), &want, 1e-9);
}

#[test]
fn losses_and_tables() {
    let mut b = Builder::new(&[ty(F64, &SHAPE), ty(F64, &SHAPE), ty(Type::S64, &[6, 1])]);
    let logs = log_softmax(&mut b);
    let masked = b.binary(Binary::Multiply, logs, 1);
    let loss = b.reduce(Fold::Sum, masked, &[1], false);
    let one_hot = b.finish(&[loss]);
    assert_eq!(found_in(&one_hot, &[]), ["cross_entropy", "log_softmax"]);
    let mut b = Builder::new(&[ty(F64, &SHAPE), ty(Type::S64, &[6, 1])]);
    let logs = log_softmax(&mut b);
    let taken = b.emit(Op::TakeAlongAxis(Axis { axis: 1 }), &[logs, 1], ty(F64, &[6, 1]));
    let sparse = b.finish(&[taken]);
    assert_eq!(found_in(&sparse, &[]), ["cross_entropy", "log_softmax"]);
    let mut b = Builder::new(&[ty(F64, &SHAPE), ty(Type::S64, &[3])]);
    let rows = b.emit(Op::Take(Axis { axis: 0 }), &[0, 1], ty(F64, &[3, 10]));
    let table = b.finish(&[rows]);
    assert_eq!(found_in(&table, &[]), ["embedding"]);
    let indices = integers(Type::S64, &[0, 5, 2]);
    let x = random(9, &SHAPE);
    let want: Vec<f64> = [0, 5, 2].iter().flat_map(|&i: &usize| numbers(&x)[i * 10..][..10].to_vec()).collect();
    assert_eq!(numbers(&same(&table, &[x, indices])[0]), want);
}

#[test]
fn operands_that_a_region_repeats_are_repeated_outside_too() {
    let mut b = Builder::new(&[ty(F64, &[10]), ty(F64, &[])]);
    let (line, one) = (b.broadcast(0, &SHAPE, &[1]), b.broadcast(1, &SHAPE, &[]));
    let exp = b.unary(Unary::Exp, line);
    let negative = b.unary(Unary::Negate, one);
    let sum = b.binary(Binary::Add, exp, negative);
    let total = b.reduce(Fold::Sum, sum, &[0, 1], false);
    let program = b.finish(&[sum, total]);
    let inputs = [random(10, &[10]), random(11, &[])];
    let apart = optimised(&program, &["pattern:elementwise"]);
    assert!(!names(&apart).contains(&"fused".to_string()), "{apart}");
    let (got, [x, y]) = (run(&apart, &inputs), inputs.map(|input| numbers(&input)));
    let want: Vec<f64> = (0..60).map(|i| x[i % 10].exp() - y[0]).collect();
    assert_close("sum", &numbers(&got[0]), &want, 1e-12);
    assert_close("total", &numbers(&got[1]), &[total_of(&want)], 1e-9);
}

fn total_of(numbers: &[f64]) -> f64 {
    numbers.iter().sum()
}

#[test]
fn unknown_patterns_are_refused() {
    let program = Builder::new(&[ty(F64, &[2])]).finish(&[0]);
    let error = passes::optimise(&program, &["pattern:magic".into()]).expect_err("no such pattern").to_string();
    assert!(error.contains("pattern:magic") && error.contains("softmax"), "{error}");
}

#[test]
fn chains_of_doublings_are_looked_at_in_no_time() {
    for op in [Binary::Add, Binary::Multiply] {
        let mut b = Builder::new(&[ty(Type::F32, &[2])]);
        let last = (0..100).fold(0, |x, _| b.binary(op, x, x));
        let program = b.finish(&[last]);
        assert_eq!(names(&optimised(&program, &[])), ["fused"]);
    }
}
