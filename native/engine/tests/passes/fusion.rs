//! Fusion: which operations run as one, and what they answer.

use std::slice::from_ref;

use ex_burn_engine::program::{Axis, Binary, Fold, Instruction, Op, Program, Unary};
use ex_burn_engine::{Type, Value};

use crate::builder::{Builder, names, optimised, run, same};
use crate::tools::{assert_close, integers, noise, numbers, tensor, ty};

const F32: Type = Type::F32;

fn random(seed: u64, shape: &[usize]) -> Value {
    let numbers = noise(seed, shape.iter().product(), 1000).into_iter().map(|n| n / 400.0).collect::<Vec<_>>();
    tensor(F32, shape, &numbers)
}

/// exp(x - max) / sum, over the last axis.
fn softmax(shape: [usize; 2], keep_axes: bool) -> Program {
    let mut b = Builder::new(&[ty(F32, &shape)]);
    let spread = |b: &mut Builder, x| if keep_axes { x } else { b.broadcast(x, &shape, &[0]) };
    let max = b.reduce(Fold::Max, 0, &[1], keep_axes);
    let max = spread(&mut b, max);
    let shifted = b.binary(Binary::Subtract, 0, max);
    let exp = b.unary(Unary::Exp, shifted);
    let sum = b.reduce(Fold::Sum, exp, &[1], keep_axes);
    let sum = spread(&mut b, sum);
    let out = b.binary(Binary::Divide, exp, sum);
    b.finish(&[out])
}

fn softmax_of(xs: &[f64], row: usize) -> Vec<f64> {
    let of_row = |row: &[f64]| {
        let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
        row.iter().map(|x| (x - max).exp() / sum).collect::<Vec<_>>()
    };
    xs.chunks(row).flat_map(of_row).collect()
}

#[test]
fn softmax_is_one_operation() {
    for (shape, keep_axes) in [([3, 5], true), ([3, 5], false), ([700, 333], true), ([2, 16384], false), ([1, 7], true)]
    {
        let (program, x) = (softmax(shape, keep_axes), random(1, &shape));
        assert_eq!(names(&optimised(&program, &[])), ["fused"], "{shape:?}");
        let got = same(&program, from_ref(&x));
        assert_close("softmax", &numbers(&got[0]), &softmax_of(&numbers(&x), shape[1]), 1e-6);
    }
}

#[test]
fn rows_too_long_for_a_buffer_are_folded_before_they_are_read() {
    let (program, x) = (softmax([2, 40_000], true), random(2, &[2, 40_000]));
    let got = same(&program, from_ref(&x));
    assert_close("softmax", &numbers(&got[0]), &softmax_of(&numbers(&x), 40_000), 1e-6);
}

#[test]
fn what_leaves_a_region_and_comes_back_is_not_in_it() {
    let mut b = Builder::new(&[ty(F32, &[3, 3])]);
    let first = b.unary(Unary::Sin, 0);
    let sum = b.reduce(Fold::Sum, first, &[0], false);
    let back = b.broadcast(sum, &[3, 3], &[1]);
    let beside = b.unary(Unary::Cos, back);
    let out = b.binary(Binary::Add, beside, first);
    let program = b.finish(&[out, first]);
    assert_eq!(names(&optimised(&program, &[])), ["sin", "sum", "fused"]);
    same(&program, &[random(4, &[3, 3])]);
}

#[test]
fn a_chain_with_scalars_rows_and_columns() {
    let shape = [300, 70];
    let mut b = Builder::new(&[ty(F32, &shape), ty(F32, &[70]), ty(F32, &[300, 1]), ty(F32, &[])]);
    let biased = b.binary(Binary::Add, 0, 1);
    let scaled = b.binary(Binary::Multiply, biased, 2);
    let moved = b.binary(Binary::Subtract, scaled, 3);
    let half = b.constant(F32, 0.5);
    let out = b.binary(Binary::Multiply, moved, half);
    let program = b.finish(&[out, scaled]);
    assert_eq!(names(&optimised(&program, &[])).iter().filter(|name| *name == "fused").count(), 1);
    let inputs = [random(3, &shape), random(4, &[70]), random(5, &[300, 1]), random(6, &[])];
    let got = same(&program, &inputs);
    let [x, bias, scale, shift] = inputs.map(|input| numbers(&input));
    let want: Vec<f64> = (0..x.len()).map(|i| ((x[i] + bias[i % 70]) * scale[i / 70] - shift[0]) * 0.5).collect();
    assert_close("chain", &numbers(&got[0]), &want, 1e-5);
}

#[test]
fn strided_and_repeated_operands_are_read_where_they_are() {
    let mut b = Builder::new(&[ty(F32, &[40, 60]), ty(F32, &[60])]);
    let exp = b.unary(Unary::Exp, 0);
    let out = b.binary(Binary::Multiply, exp, 1);
    let program = b.finish(&[out]);
    let x = random(7, &[60, 40]).permute(&[1, 0]);
    same(&program, &[x, random(8, &[1]).expand(&[60])]);
}

#[test]
fn sums_of_all_elements_end_a_region() {
    for len in [10, 5_000, 200_000, 1_000_003] {
        let mut b = Builder::new(&[ty(F32, &[len])]);
        let squared = b.binary(Binary::Multiply, 0, 0);
        let sum = b.reduce(Fold::Sum, squared, &[0], false);
        let program = b.finish(&[sum]);
        assert_eq!(names(&optimised(&program, &[])), ["fused"]);
        let x = random(9, &[len]);
        let got = crate::builder::run(&optimised(&program, &[]), from_ref(&x));
        let want: f64 = numbers(&x).iter().map(|x| f64::from((x * x) as f32)).sum();
        assert_close("sum", &numbers(&got[0]), &[want], 1e-6 * want);
    }
}

#[test]
fn folds_of_cut_rows_that_depend_on_the_order_are_done_in_order() {
    let mut numbers = vec![1e300; 200_000];
    numbers[..100_000].fill(-1e300);
    let mut b = Builder::new(&[ty(Type::F64, &[200_000])]);
    let ten = b.constant(Type::F64, 1e5);
    let large = b.binary(Binary::Multiply, 0, ten);
    let sum = b.reduce(Fold::Sum, large, &[0], false);
    let program = b.finish(&[sum]);
    same(&program, &[tensor(Type::F64, &[200_000], &numbers)]);
}

#[test]
fn values_for_each_row_are_computed_within_the_region() {
    let shape = [50, 8, 16];
    let mut b = Builder::new(&[ty(F32, &shape), ty(F32, &[50])]);
    let sum = b.reduce(Fold::Sum, 0, &[1, 2], false);
    let count = b.constant(F32, 128.0);
    let mean = b.binary(Binary::Divide, sum, count);
    let moved = b.binary(Binary::Add, mean, 1);
    let line = b.reshape(moved, &[50, 1, 1]);
    let centred = b.binary(Binary::Subtract, 0, line);
    let squared = b.binary(Binary::Multiply, centred, centred);
    let squares = b.reduce(Fold::Sum, squared, &[1, 2], true);
    let root = b.unary(Unary::Rsqrt, squares);
    let out = b.binary(Binary::Multiply, centred, root);
    let program = b.finish(&[out, moved, line]);
    let fast = names(&optimised(&program, &[]));
    assert_eq!(fast.iter().filter(|name| *name != "constant").collect::<Vec<_>>(), ["fused", "reshape"]);
    let inputs = [random(10, &shape), random(11, &[50])];
    let got = same(&program, &inputs);
    let [x, shift] = inputs.map(|input| numbers(&input));
    let mut want = vec![];
    for (row, shift) in x.chunks(128).zip(shift) {
        let mean = row.iter().sum::<f64>() / 128.0 + shift;
        let norm = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>().sqrt();
        want.extend(row.iter().map(|x| (x - mean) / norm));
    }
    assert_close("normalised", &numbers(&got[0]), &want, 1e-5);
}

#[test]
fn changes_of_shape_that_others_read_are_made_outside() {
    let mut b = Builder::new(&[ty(F32, &[4, 6])]);
    let exp = b.unary(Unary::Exp, 0);
    let sum = b.reduce(Fold::Sum, exp, &[1], false);
    let column = b.reshape(sum, &[4, 1]);
    let spread = b.broadcast(column, &[4, 6], &[0, 1]);
    let scaled = b.binary(Binary::Divide, exp, spread);
    let program = b.finish(&[scaled, spread]);
    let got = same(&program, &[random(19, &[4, 6])]);
    let rows = numbers(&got[1]);
    assert!(rows.chunks(6).all(|row| row.iter().all(|x| x == &row[0])) && rows[0] != rows[6]);
}

#[test]
fn a_vector_as_long_as_the_rows_are_many_is_no_column() {
    // 16 rows of 16: the sum of each row meets the rows as a row itself.
    let mut b = Builder::new(&[ty(F32, &[16, 16])]);
    let sum = b.reduce(Fold::Sum, 0, &[1], false);
    let negative = b.unary(Unary::Negate, sum);
    let moved = b.binary(Binary::Add, 0, negative);
    let exp = b.unary(Unary::Exp, moved);
    let program = b.finish(&[exp]);
    let x = random(12, &[16, 16]);
    let got = same(&program, from_ref(&x));
    let x = numbers(&x);
    let sums: Vec<f64> = x.chunks(16).map(|row| row.iter().sum()).collect();
    let want: Vec<f64> = (0..256).map(|i| (x[i] - sums[i % 16]).exp()).collect();
    assert_close("moved", &numbers(&got[0]), &want, 1e-3);
}

#[test]
fn no_region_spans_what_it_feeds() {
    // A sort between two additions: the second reads the first twice, once sorted.
    let mut b = Builder::new(&[ty(F32, &[100])]);
    let doubled = b.binary(Binary::Add, 0, 0);
    let exp = b.unary(Unary::Exp, doubled);
    let attrs = serde_json::from_str(r#"{"axis": 0, "direction": "asc"}"#).expect("a sort");
    let sorted = b.emit(Op::Sort(attrs), &[exp], ty(F32, &[100]));
    let sum = b.binary(Binary::Add, sorted, exp);
    let out = b.unary(Unary::Tanh, sum);
    let program = b.finish(&[out]);
    assert_eq!(names(&optimised(&program, &[])), ["fused", "sort", "fused"]);
    same(&program, &[random(13, &[100])]);
}

#[test]
fn types_change_within_a_region() {
    let shape = [33, 21];
    let mut b = Builder::new(&[ty(F32, &shape), ty(Type::S32, &shape), ty(Type::BF16, &shape), ty(Type::U8, &[21])]);
    let whole = b.emit(Op::Cast, &[0], ty(Type::S32, &shape));
    let sum = b.binary(Binary::Add, 1, whole);
    let is_more = b.emit(Op::Binary(Binary::Greater), &[sum, 0], ty(Type::U8, &shape));
    let half = b.unary(Unary::Tanh, 2);
    let chosen = b.emit(Op::Select, &[is_more, half, 0], ty(F32, &shape));
    let masked = b.emit(Op::Select, &[3, chosen, sum], ty(F32, &shape));
    let any = b.emit(
        Op::Reduce(serde_json::from_str(r#"{"fold": "any", "axes": [1], "keep_axes": false}"#).expect("a fold")),
        &[is_more],
        ty(Type::U8, &[33]),
    );
    let program = b.finish(&[masked, any, half, sum]);
    assert_eq!(names(&optimised(&program, &[])), ["fused"]);
    let numbers = |seed| noise(seed, 33 * 21, 100);
    let inputs = [
        random(14, &shape),
        tensor(Type::S32, &shape, &numbers(15)),
        tensor(Type::BF16, &shape, &numbers(16)),
        tensor(Type::U8, &[21], &(0..21).map(|i| f64::from(i % 2)).collect::<Vec<_>>()),
    ];
    same(&program, &inputs);
}

#[test]
fn a_scalar_of_another_type_is_cast_for_all_elements() {
    let mut b = Builder::new(&[ty(F32, &[5]), ty(Type::S32, &[1])]);
    let scaled = b.binary(Binary::Divide, 0, 1);
    let two = b.constant(Type::S32, 2.0);
    let out = b.binary(Binary::Add, scaled, two);
    let sum = b.reduce(Fold::Sum, out, &[0], true);
    let program = b.finish(&[out, sum]);
    let inputs = [tensor(F32, &[5], &[4.0, 8.0, 12.0, 16.0, 20.0]), integers(Type::S32, &[4])];
    let got = same(&program, &inputs);
    assert_eq!(numbers(&got[0]), [3.0, 4.0, 5.0, 6.0, 7.0]);
    assert_eq!(numbers(&got[1]), [25.0]);
}

#[test]
fn memory_of_an_operand_is_used_for_a_result() {
    let mut b = Builder::new(&[ty(F32, &[5000]), ty(F32, &[5000])]);
    let sum = b.binary(Binary::Add, 0, 1);
    let out = b.binary(Binary::Multiply, sum, 0);
    let again = b.binary(Binary::Add, out, 0);
    let program = optimised(&b.finish(&[out, again]), &[]);
    let (x, y) = (random(17, &[5000]), random(18, &[5000]));
    let (xs, ys) = (numbers(&x), numbers(&y));
    let results = ex_burn_engine::exec::Plan::new(&program)
        .and_then(|plan| plan.run(vec![x, y], &ex_burn_engine::Device::Cpu))
        .expect("it runs");
    let want: Vec<f64> = xs.iter().zip(&ys).map(|(x, y)| (x + y) * x).collect();
    assert_close("product", &numbers(&results[0]), &want, 1e-4);
    let want: Vec<f64> = want.iter().zip(&xs).map(|(a, x)| a + x).collect();
    assert_close("sum", &numbers(&results[1]), &want, 1e-4);
}

#[test]
fn what_tapes_cannot_do_stays_as_it_is() {
    let mut b = Builder::new(&[ty(Type::C64, &[4]), ty(F32, &[0, 3]), ty(F32, &[4])]);
    let complex = b.unary(Unary::Exp, 0);
    let complex = b.unary(Unary::Negate, complex);
    let empty = b.unary(Unary::Exp, 1);
    let empty = b.unary(Unary::Negate, empty);
    let joined = b.emit(Op::Concatenate(Axis { axis: 0 }), &[2, 2], ty(F32, &[8]));
    let program = b.finish(&[complex, empty, joined]);
    assert_eq!(names(&optimised(&program, &[])), ["exp", "negate", "exp", "negate", "concatenate"]);
    assert_eq!(optimised(&softmax([3, 5], true), &["fusion"]), softmax([3, 5], true));
}

/// Outside of the blocks of the CPU a region runs as the program that it is: each step makes what it declares.
#[test]
fn a_region_is_a_program_of_its_own() {
    let mut b = Builder::new(&[ty(F32, &[4, 3]), ty(Type::U8, &[4, 1])]);
    let mask = b.broadcast(1, &[4, 3], &[0, 1]);
    let floats = b.emit(Op::Cast, &[mask], ty(F32, &[4, 3]));
    let tanh = b.unary(Unary::Tanh, 0);
    let masked = b.binary(Binary::Multiply, tanh, floats);
    let program = b.finish(&[masked]);
    let fused = optimised(&program, &[]);
    let [Instruction { op: Op::Fused(region), inputs: ids, .. }] = fused.instructions.as_slice() else {
        panic!("{fused}")
    };
    let inputs = [tensor(F32, &[4, 3], &[0.5; 12]), tensor(Type::U8, &[4, 1], &[1.0, 0.0, 1.0, 1.0])];
    let operands: Vec<Value> = ids.iter().map(|&id| inputs[id].clone()).collect();
    let got = run(&region.body, &operands);
    let tanh = f64::from(0.5f32.tanh());
    assert_eq!(numbers(&got[0]), [tanh, tanh, tanh, 0.0, 0.0, 0.0, tanh, tanh, tanh, tanh, tanh, tanh]);
}
