//! Large tensors, of sizes that neither vectors nor blocks divide, against plain loops.

mod tools;

use std::slice::from_ref;

use ex_burn_engine::Type;
use ex_burn_engine::program::{Axes, Cumulative, Fold, Op, Reduce};
use tools::*;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

const FOLDS: [Fold; 6] = [Fold::All, Fold::Any, Fold::Sum, Fold::Product, Fold::Max, Fold::Min];

fn fold_rows(fold: Fold) -> Op {
    Op::Reduce(Reduce { fold, axes: Some(vec![1]), keep_axes: false })
}

/// The fold of a row as the definition says it.
fn folded(fold: Fold, row: &[f64]) -> f64 {
    let choose = |start: f64, wins: fn(f64, f64) -> bool| {
        row.iter().fold(start, |best, &x| if x.is_nan() || wins(x, best) { x } else { best })
    };
    match fold {
        Fold::All => row.iter().all(|&x| x != 0.0).into(),
        Fold::Any => row.iter().any(|&x| x != 0.0).into(),
        Fold::Sum => row.iter().sum(),
        Fold::Product => row.iter().product(),
        Fold::Max => choose(-INF, |x, best| x > best),
        Fold::Min => choose(INF, |x, best| x < best),
    }
}

#[test]
fn rows_of_any_length_are_folded_in_each_type() {
    for len in [1, 2, 3, 4, 7, 16, 31, 63, 64, 65, 101] {
        let rows = 70_000 / len + 13;
        // Few other numbers than 1, so that products are exact.
        let xs: Vec<f64> = noise(len as u64, rows * len, 40).iter().map(|x| x.abs().min(2.0)).collect();
        let ones = (0..xs.len()).map(|i| if i % 97 == 0 { xs[i] } else { 1.0 });
        let xs: Vec<f64> = ones.collect();
        for (fold, dtype) in FOLDS.into_iter().flat_map(|fold| TYPES.map(|dtype| (fold, dtype))) {
            let want: Vec<f64> = xs.chunks(len).map(|row| folded(fold, row)).collect();
            let out = if matches!(fold, Fold::All | Fold::Any) { Type::U8 } else { dtype };
            let got = numbers(&run(fold_rows(fold), &[tensor(dtype, &[rows, len], &xs)], &ty(out, &[rows])));
            assert!(got == want, "{fold:?} of rows of {len} {dtype}");
        }
    }
}

#[test]
fn what_is_not_finite_stays_in_its_row() {
    for len in [3, 20, 70, 1024] {
        let rows = 70_000 / len + 5;
        let mut xs = noise(9, rows * len, 9);
        for (i, special) in [NAN, INF, -INF, NAN, INF].into_iter().enumerate() {
            xs[(7 * i + 1) * len + i % 3] = special;
        }
        // An infinity of each sign in one row.
        (xs[9 * len], xs[9 * len + 2]) = (INF, -INF);
        for (fold, dtype) in [Fold::Sum, Fold::Max, Fold::Min].into_iter().flat_map(|fold| FLOATS.map(|d| (fold, d))) {
            let want: Vec<f64> = xs.chunks(len).map(|row| folded(fold, row)).collect();
            let got = numbers(&run(fold_rows(fold), &[tensor(dtype, &[rows, len], &xs)], &ty(dtype, &[rows])));
            let near = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= b.abs() / 100.0;
            assert!(got.iter().zip(&want).all(|(&a, &b)| near(a, b)), "{fold:?} of rows of {len} {dtype}");
        }
    }
}

#[test]
fn sums_of_short_rows_keep_digits_that_their_type_does_not_hold() {
    let rows = 40_000;
    let x = tensor(Type::F32, &[rows, 4], &[16_777_216.0, 1.0, 1.0, -16_777_216.0].repeat(rows));
    let sums = numbers(&run(fold_rows(Fold::Sum), from_ref(&x), &ty(Type::F32, &[rows])));
    assert!(sums.iter().all(|&sum| sum == 2.0));
}

#[test]
fn transposed_tensors_are_copied_whole() {
    for shape in [[1, 70_001], [3, 5000], [16, 16], [70, 37], [130, 65], [257, 519], [512, 512]] {
        let [rows, columns] = shape;
        let back = [columns, rows];
        for dtype in [Type::U8, Type::BF16, Type::F32, Type::F64, Type::C128] {
            let x: Vec<f64> = (0..rows * columns).map(|i| (i % 251) as f64).collect();
            let want: Vec<f64> = (0..x.len()).map(|i| x[i % rows * columns + i / rows]).collect();
            let transposed =
                run(Op::Transpose(Axes { axes: vec![1, 0] }), &[tensor(dtype, &shape, &x)], &ty(dtype, &back));
            let copy = run(Op::Reshape, &[transposed], &ty(dtype, &[x.len()]));
            let got = if dtype.is_complex() { parts(&copy).into_iter().step_by(2).collect() } else { numbers(&copy) };
            assert!(got == want, "{shape:?} of {dtype}");
        }
    }
}

#[test]
fn planes_are_transposed_each() {
    let shape = [5, 67, 83];
    let x: Vec<f64> = noise(4, shape.iter().product(), 100);
    let want = x.chunks(67 * 83).flat_map(|plane| (0..plane.len()).map(|i| plane[i % 67 * 83 + i / 67]));
    let turned = run(
        Op::Transpose(Axes { axes: vec![0, 2, 1] }),
        &[tensor(Type::F32, &shape, &x)],
        &ty(Type::F32, &[5, 83, 67]),
    );
    assert!(numbers(&run(Op::Reshape, &[turned], &ty(Type::F32, &[x.len()]))) == want.collect::<Vec<_>>());
}

#[test]
fn rows_are_scanned_each_from_its_start() {
    for len in [1, 30, 255, 257, 1000, 70_000] {
        let rows = 140_000 / len + 1;
        let xs = noise(3, rows * len, 3);
        let sum = Op::Cumulative(Cumulative { fold: Fold::Sum, axis: 1, reverse: false });
        let want: Vec<f64> = xs
            .chunks(len)
            .flat_map(|row| {
                row.iter().scan(0.0, |sum, x| {
                    *sum += x;
                    Some(*sum)
                })
            })
            .collect();
        for dtype in [Type::S32, Type::F32, Type::F64] {
            let got = numbers(&run(sum.clone(), &[tensor(dtype, &[rows, len], &xs)], &ty(dtype, &[rows, len])));
            assert!(got == want, "rows of {len} {dtype}");
        }
    }
}

#[test]
fn a_logarithm_is_the_same_whatever_lies_beside_it() {
    let log = Op::Unary(ex_burn_engine::program::Unary::Log);
    let xs: Vec<f64> = (1..5000).map(|i| f64::from(i) * 0.37).collect();
    let beside: Vec<f64> = xs.iter().flat_map(|&x| [x, [0.0, -1.0, INF, NAN, 1e-40][x as usize % 5]]).collect();
    let logs = |xs: &[f64]| numbers(&run(log.clone(), &[vector(Type::F32, xs)], &ty(Type::F32, &[xs.len()])));
    assert_eq!(logs(&beside).into_iter().step_by(2).collect::<Vec<_>>(), logs(&xs));
}
