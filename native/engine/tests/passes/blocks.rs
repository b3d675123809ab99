//! Products that run together with regions: which do, and what they answer.

use ex_burn_engine::program::{Binary, Dot, Fold, Op, Program, Unary};
use ex_burn_engine::{Type, Value};

use crate::builder::{Builder, names, optimised, run};
use crate::tools::{assert_close, noise, numbers, tensor, ty};

fn random(dtype: Type, seed: u64, shape: &[usize]) -> Value {
    let numbers: Vec<f64> = noise(seed, shape.iter().product(), 1000).into_iter().map(|n| n / 500.0).collect();
    tensor(dtype, shape, &numbers)
}

/// tanh(x * w + bias), and the sums of its rows.
fn linear(dtype: Type, [rows, inner, columns]: [usize; 3]) -> (Program, Vec<Value>) {
    let shapes = [vec![rows, inner], vec![inner, columns], vec![columns]];
    let mut b = Builder::new(&shapes.clone().map(|shape| ty(dtype, &shape)));
    let attrs = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
    let product = b.emit(Op::Dot(attrs), &[0, 1], ty(dtype, &[rows, columns]));
    let biased = b.binary(Binary::Add, product, 2);
    let tanh = b.unary(Unary::Tanh, biased);
    let sums = b.reduce(Fold::Sum, tanh, &[1], false);
    let inputs = shapes.iter().zip(1..).map(|(shape, seed)| random(dtype, seed, shape)).collect();
    (b.finish(&[tanh, sums]), inputs)
}

#[test]
fn a_linear_layer_of_many_rows_is_one_operation() {
    for (dtype, tolerance) in [(Type::F32, 1e-4), (Type::F64, 1e-11)] {
        let (program, inputs) = linear(dtype, [1003, 5, 300]);
        assert_eq!(names(&optimised(&program, &[])), ["blocked"]);
        let got = run(&optimised(&program, &[]), &inputs);
        let [x, w, bias] = [0, 1, 2].map(|i: usize| numbers(&inputs[i]));
        let product = |i: usize, j: usize| (0..5).map(|k| x[i * 5 + k] * w[k * 300 + j]).sum::<f64>();
        let want: Vec<f64> = (0..1003 * 300).map(|at| (product(at / 300, at % 300) + bias[at % 300]).tanh()).collect();
        assert_close("layer", &numbers(&got[0]), &want, tolerance);
        let sums: Vec<f64> = want.chunks(300).map(|row| row.iter().sum()).collect();
        assert_close("sums", &numbers(&got[1]), &sums, 300.0 * tolerance);
        let apart = run(&optimised(&program, &["pattern:linear"]), &inputs);
        assert_close("apart", &numbers(&apart[0]), &want, tolerance);
    }
}

#[test]
fn linear_layers_that_gain_nothing_stay_two_operations() {
    for (dtype, sizes) in [(Type::F32, [20, 5, 300]), (Type::F32, [1003, 600, 300]), (Type::BF16, [1003, 5, 300])] {
        let (program, _inputs) = linear(dtype, sizes);
        assert_eq!(names(&optimised(&program, &[])), ["dot", "fused"], "{dtype:?} {sizes:?}");
    }
    let (program, _inputs) = linear(Type::F32, [1003, 5, 300]);
    assert_eq!(names(&optimised(&program, &["pattern:linear"])), ["dot", "fused"]);
    assert_eq!(names(&optimised(&program, &["pattern:tanh"]))[..2], ["dot", "add"]);
}

/// x * w + what is broadcast from this shape + part.
fn sum(dtype: Type, [rows, inner, columns]: [usize; 3], last: &[usize]) -> (Program, Vec<Value>) {
    let shapes = [vec![rows, inner], vec![inner, columns], vec![rows, columns], last.to_vec()];
    let mut b = Builder::new(&shapes.clone().map(|shape| ty(dtype, &shape)));
    let attrs = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
    let product = b.emit(Op::Dot(attrs), &[0, 1], ty(dtype, &[rows, columns]));
    let biased = b.binary(Binary::Add, product, 3);
    let sum = b.binary(Binary::Add, 2, biased);
    let inputs = shapes.iter().zip(1..).map(|(shape, seed)| random(dtype, seed, shape)).collect();
    (b.finish(&[sum]), inputs)
}

/// What the sum is, element by element.
fn summed([rows, inner, columns]: [usize; 3], last: &[usize], inputs: &[Value]) -> Vec<f64> {
    let [x, w, part, added] = [0, 1, 2, 3].map(|i: usize| numbers(&inputs[i]));
    let place = |i, j| match last {
        [1] | [] => 0,
        [_, 1] => i,
        _ => j,
    };
    let element = |at: usize| {
        let (i, j) = (at / columns, at % columns);
        let product = (0..inner).map(|k| x[i * inner + k] * w[k * columns + j]).sum::<f64>();
        product + part[at] + added[place(i, j)]
    };
    (0..rows * columns).map(element).collect()
}

#[test]
fn a_sum_with_a_product_of_few_rows_is_one_operation() {
    for (dtype, tolerance) in [(Type::F32, 1e-4), (Type::F64, 1e-11)] {
        for sizes in
            [[2, 300, 16], [7, 40, 48], [16, 128, 512], [33, 130, 272], [63, 64, 1040], [5, 60, 50], [12, 700, 96]]
        {
            let last = [sizes[2]];
            let (program, inputs) = sum(dtype, sizes, &last);
            assert_eq!(names(&optimised(&program, &[])), ["blocked"]);
            let want = summed(sizes, &last, &inputs);
            let got = run(&optimised(&program, &[]), &inputs);
            assert_close(&format!("{dtype} {sizes:?}"), &numbers(&got[0]), &want, tolerance);
            // Operands whose columns are lines of memory.
            let turned = |value: &Value| value.clone().permute(&[1, 0]).contiguous().permute(&[1, 0]);
            for which in 0..3 {
                let mut inputs = inputs.clone();
                inputs[which] = turned(&inputs[which]);
                let got = run(&optimised(&program, &[]), &inputs);
                assert_close(&format!("{dtype} {sizes:?}"), &numbers(&got[0]), &want, tolerance);
            }
        }
    }
}

#[test]
fn other_sums_with_products_stay_two_operations() {
    for (dtype, sizes) in [(Type::F32, [64, 300, 16]), (Type::F32, [1, 300, 16]), (Type::BF16, [7, 40, 48])] {
        let (program, _inputs) = sum(dtype, sizes, &[sizes[2]]);
        assert_eq!(names(&optimised(&program, &[])), ["dot", "fused"], "{dtype:?} {sizes:?}");
    }
    let sizes = [7, 40, 48];
    for last in [&[7, 1][..], &[1], &[]] {
        let (program, inputs) = sum(Type::F32, sizes, last);
        assert_eq!(names(&optimised(&program, &[])), ["dot", "fused"], "{last:?}");
        let got = run(&optimised(&program, &[]), &inputs);
        assert_close(&format!("{last:?}"), &numbers(&got[0]), &summed(sizes, last, &inputs), 1e-4);
    }
    let (program, _inputs) = sum(Type::F32, sizes, &[48]);
    assert_eq!(names(&optimised(&program, &["pattern:linear"])), ["dot", "fused"]);
    // Others read the product.
    let (mut program, inputs) = sum(Type::F32, sizes, &[48]);
    program.outputs.push(4);
    assert_eq!(names(&optimised(&program, &[])), ["dot", "fused"]);
    assert_eq!(run(&optimised(&program, &[]), &inputs).len(), 2);
}

#[test]
fn a_sum_with_a_product_of_many_rows_runs_by_blocks() {
    let (sizes, last) = ([300, 20, 1000], [1000]);
    let (program, inputs) = sum(Type::F32, sizes, &last);
    assert_eq!(names(&optimised(&program, &[])), ["blocked"]);
    let got = run(&optimised(&program, &[]), &inputs);
    assert_close("many rows", &numbers(&got[0]), &summed(sizes, &last, &inputs), 1e-4);
}

const HEADS: usize = 6;

/// Queries and keys of size 7, values of size 9, scores halved and masked.
fn attention(dtype: Type, steps: usize, keys: usize) -> (Program, Vec<Value>) {
    let shapes = [vec![2, 3, steps, 7], vec![2, 3, keys, 7], vec![2, 3, keys, 9], vec![steps, keys]];
    let types = [dtype, dtype, dtype, Type::U8];
    let inputs: Vec<_> = shapes.iter().zip(types).map(|(shape, dtype)| ty(dtype, shape)).collect();
    let mut b = Builder::new(&inputs);
    let batch = vec![0, 1];
    let dot = |lhs: usize, rhs: usize| {
        let axes = (vec![lhs], vec![rhs]);
        let attrs =
            Dot { lhs_contract: axes.0, lhs_batch: batch.clone(), rhs_contract: axes.1, rhs_batch: batch.clone() };
        Op::Dot(attrs)
    };
    let shape = [2, 3, steps, keys];
    let scores = b.emit(dot(3, 3), &[0, 1], ty(dtype, &shape));
    let half = b.constant(dtype, 0.5);
    let scaled = b.binary(Binary::Multiply, scores, half);
    let low = b.constant(dtype, -1e9);
    let masked = b.emit(Op::Select, &[3, scaled, low], ty(dtype, &shape));
    let max = b.reduce(Fold::Max, masked, &[3], true);
    let shifted = b.binary(Binary::Subtract, masked, max);
    let exp = b.unary(Unary::Exp, shifted);
    let sum = b.reduce(Fold::Sum, exp, &[3], true);
    let weights = b.binary(Binary::Divide, exp, sum);
    let out = b.emit(dot(3, 2), &[weights, 2], ty(dtype, &[2, 3, steps, 9]));
    let seen: Vec<f64> = (0..steps * keys).map(|at| f64::from(at % keys <= at / keys)).collect();
    let mut values: Vec<Value> = (0..3).map(|i| random(dtype, i as u64 + 1, &shapes[i])).collect();
    values.push(tensor(Type::U8, &shapes[3], &seen));
    (b.finish(&[out]), values)
}

/// The same for one head, in double precision.
fn attended(queries: &[f64], keys: &[f64], values: &[f64]) -> Vec<f64> {
    let score = |q: &[f64], k: &[f64]| q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>() / 2.0;
    let of_step = |(step, query): (usize, &[f64])| {
        let seen = keys.chunks(7).take(step + 1);
        let exps: Vec<f64> = seen.map(|key| score(query, key).exp()).collect();
        let total: f64 = exps.iter().sum();
        (0..9)
            .map(|i| exps.iter().zip(values.chunks(9)).map(|(e, v)| e * v[i]).sum::<f64>() / total)
            .collect::<Vec<_>>()
    };
    queries.chunks(7).enumerate().flat_map(of_step).collect()
}

#[test]
fn attention_is_one_operation() {
    for (dtype, steps, keys, tolerance) in [
        (Type::F64, 16, 16, 1e-9),
        (Type::F32, 37, 37, 1e-4),
        (Type::F32, 200, 1100, 1e-4),
        (Type::F64, 600, 80, 1e-9),
        // Few steps, as where others are known from before: several heads at a time, and one.
        (Type::F64, 1, 40, 1e-9),
        (Type::F64, 5, 60, 1e-9),
        (Type::F32, 15, 2000, 1e-4),
        // Scores and weights are rounded to 11 and 8 bits.
        (Type::F16, 90, 150, 4e-3),
        (Type::BF16, 90, 150, 3e-2),
    ] {
        let (program, inputs) = attention(dtype, steps, keys);
        assert_eq!(names(&optimised(&program, &[])).last().map(String::as_str), Some("blocked"));
        assert!(!names(&optimised(&program, &[])).contains(&"dot".to_string()));
        let [q, k, v] = [0, 1, 2].map(|i: usize| numbers(&inputs[i]));
        let head = |i: usize| {
            attended(&q[i * steps * 7..][..steps * 7], &k[i * keys * 7..][..keys * 7], &v[i * keys * 9..][..keys * 9])
        };
        let want: Vec<f64> = (0..HEADS).flat_map(head).collect();
        for disabled in [&[][..], &["pattern:attention"], &["pattern:softmax"], &["fusion"]] {
            let got = run(&optimised(&program, disabled), &inputs);
            assert_close("attention", &numbers(&got[0]), &want, tolerance);
        }
    }
}

/// The last product of an attention, which a linear layer could run with too.
#[test]
fn a_product_runs_with_one_region_only() {
    let (dtype, [steps, inner, keys, size]) = (Type::F64, [2048, 4, 24, 130]);
    let shapes = [vec![steps, inner], vec![keys, inner], vec![keys, size], vec![size]];
    let mut b = Builder::new(&shapes.clone().map(|shape| ty(dtype, &shape)));
    let dot = |rhs: usize| {
        Op::Dot(Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![rhs], rhs_batch: vec![] })
    };
    let scores = b.emit(dot(1), &[0, 1], ty(dtype, &[steps, keys]));
    let max = b.reduce(Fold::Max, scores, &[1], true);
    let shifted = b.binary(Binary::Subtract, scores, max);
    let exp = b.unary(Unary::Exp, shifted);
    let sum = b.reduce(Fold::Sum, exp, &[1], true);
    let weights = b.binary(Binary::Divide, exp, sum);
    let product = b.emit(dot(0), &[weights, 2], ty(dtype, &[steps, size]));
    let biased = b.binary(Binary::Add, product, 3);
    let tanh = b.unary(Unary::Tanh, biased);
    let program = b.finish(&[tanh]);
    let inputs: Vec<Value> = shapes.iter().zip(1..).map(|(shape, seed)| random(dtype, seed, shape)).collect();
    let ways = names(&optimised(&program, &[]));
    assert_eq!(ways.iter().filter(|name| *name == "blocked").count(), 1, "{ways:?}");
    let [q, k, v, bias] = [0, 1, 2, 3].map(|i: usize| numbers(&inputs[i]));
    let row = |query: &[f64]| -> Vec<f64> {
        let exp = |key: &[f64]| query.iter().zip(key).map(|(a, b)| a * b).sum::<f64>().exp();
        let exps: Vec<f64> = k.chunks(inner).map(exp).collect();
        let total: f64 = exps.iter().sum();
        let mean = |i: usize| exps.iter().zip(v.chunks(size)).map(|(e, v)| e * v[i]).sum::<f64>() / total;
        (0..size).map(|i| (mean(i) + bias[i]).tanh()).collect()
    };
    let want: Vec<f64> = q.chunks(inner).flat_map(row).collect();
    assert_close("layer", &numbers(&run(&optimised(&program, &[]), &inputs)[0]), &want, 1e-9);
}

#[test]
fn attention_of_few_steps_and_heads_that_is_long_is_shared_out_by_columns() {
    let (program, _inputs) = attention(Type::F32, 15, 16_000);
    assert!(!names(&optimised(&program, &[])).contains(&"blocked".to_string()));
}

#[test]
fn attention_stays_apart_where_it_is_told_to() {
    let (program, _inputs) = attention(Type::F32, 37, 37);
    let apart = names(&optimised(&program, &["pattern:attention"]));
    assert_eq!(apart.iter().filter(|name| *name != "constant").collect::<Vec<_>>(), ["dot", "fused", "dot"]);
}

#[test]
fn weights_that_others_read_are_made_whole() {
    let (mut program, inputs) = attention(Type::F32, 37, 37);
    let weights = program.instructions.last().map(|last| last.inputs[0]).expect("a product");
    program.outputs.push(weights);
    assert!(!names(&optimised(&program, &[])).contains(&"blocked".to_string()));
    let rows = numbers(&run(&optimised(&program, &[]), &inputs)[1]);
    assert!(rows.chunks(37).all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-5));
}
