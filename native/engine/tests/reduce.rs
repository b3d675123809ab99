//! Reductions, scans and arg-reductions.

mod tools;

use std::slice::from_ref;

use ex_burn_engine::program::{ArgReduce, Cumulative, Extremum, Fold, Op, Reduce, TieBreak};
use ex_burn_engine::{Type, Value};
use tools::*;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

fn reduce(fold: Fold, axes: Option<&[usize]>, keep_axes: bool) -> Op {
    Op::Reduce(Reduce { fold, axes: axes.map(<[usize]>::to_vec), keep_axes })
}

fn cumulative(fold: Fold, axis: usize, reverse: bool) -> Op {
    Op::Cumulative(Cumulative { fold, axis, reverse })
}

/// The fold of all elements as the definition says it.
fn folded(fold: Fold, xs: &[f64]) -> f64 {
    match fold {
        Fold::All => xs.iter().all(|&x| x != 0.0).into(),
        Fold::Any => xs.iter().any(|&x| x != 0.0).into(),
        Fold::Sum => xs.iter().sum(),
        Fold::Product => xs.iter().product(),
        Fold::Max => xs.iter().fold(-INF, |a, &b| if a >= b { a } else { b }),
        Fold::Min => xs.iter().fold(INF, |a, &b| if a <= b { a } else { b }),
    }
}

const FOLDS: [Fold; 6] = [Fold::All, Fold::Any, Fold::Sum, Fold::Product, Fold::Max, Fold::Min];

#[test]
fn each_fold_reduces_any_axes_of_each_type() {
    let shape = [2, 3, 4];
    let xs: Vec<f64> = [1.0, 2.0, 1.0, 3.0, 1.0, 0.0, 2.0, 1.0, 1.0, 1.0, 2.0, 1.0].repeat(2);
    let choices: [Option<&[usize]>; 8] =
        [None, Some(&[0]), Some(&[1]), Some(&[2]), Some(&[0, 2]), Some(&[2, 1]), Some(&[0, 1, 2]), Some(&[])];
    for (fold, axes) in FOLDS.into_iter().flat_map(|fold| choices.map(|axes| (fold, axes))) {
        let gone = |axis: usize| axes.is_none_or(|axes| axes.contains(&axis));
        let kept: Vec<usize> = (0..3).map(|axis| if gone(axis) { 1 } else { shape[axis] }).collect();
        let mut groups = vec![vec![]; kept.iter().product()];
        let mut all = xs.iter();
        each_index(&shape, |index| {
            let target: Vec<usize> = (0..3).map(|axis| if gone(axis) { 0 } else { index[axis] }).collect();
            groups[position(&target, &kept)].extend(all.next());
        });
        let want: Vec<f64> = groups.iter().map(|group| folded(fold, group)).collect();
        let squeezed: Vec<usize> = (0..3).filter(|&axis| !gone(axis)).map(|axis| shape[axis]).collect();
        for dtype in TYPES {
            let x = tensor(dtype, &shape, &xs);
            let out = if matches!(fold, Fold::All | Fold::Any) { Type::U8 } else { dtype };
            assert_eq!(
                numbers(&run(reduce(fold, axes, true), from_ref(&x), &ty(out, &kept))),
                want,
                "{fold:?} {axes:?}"
            );
            let turned = tensor(dtype, &[4, 3, 2], &numbers(&x.clone().permute(&[2, 1, 0]))).permute(&[2, 1, 0]);
            assert_eq!(
                numbers(&run(reduce(fold, axes, false), &[turned], &ty(out, &squeezed))),
                want,
                "{fold:?} {axes:?}"
            );
        }
    }
}

#[test]
fn nothing_reduces_to_the_identity() {
    let cases = [
        (Fold::All, Type::U8, 1.0),
        (Fold::Any, Type::U8, 0.0),
        (Fold::Sum, Type::F32, 0.0),
        (Fold::Product, Type::F32, 1.0),
        (Fold::Max, Type::F32, -INF),
        (Fold::Min, Type::F32, INF),
    ];
    for (fold, out, want) in cases {
        let empty = tensor(Type::F32, &[2, 0], &[]);
        assert_eq!(
            numbers(&run(reduce(fold, Some(&[1]), false), from_ref(&empty), &ty(out, &[2]))),
            [want; 2],
            "{fold:?}"
        );
        assert_eq!(numbers(&run(reduce(fold, Some(&[0]), false), &[empty], &ty(out, &[0]))), [0.0; 0], "{fold:?}");
        let scalar = tensor(Type::F32, &[], &[1.0]);
        assert_eq!(numbers(&run(reduce(fold, None, false), &[scalar], &ty(out, &[]))), [1.0], "{fold:?}");
    }
    let least = run(reduce(Fold::Max, None, false), &[tensor(Type::S8, &[0], &[])], &ty(Type::S8, &[]));
    assert_eq!(numbers(&least), [-128.0]);
}

#[test]
fn sums_widen_wrap_and_keep_their_digits() {
    let all = |fold, x: Value, out| exact(&run(reduce(fold, None, false), &[x], &ty(out, &[])))[0];
    assert_eq!(all(Fold::Sum, vector(Type::U8, &[200.0, 100.0]), Type::U32), 300);
    assert_eq!(all(Fold::Sum, integers(Type::U64, &[u64::MAX.into(), 2]), Type::S64), 1);
    assert_eq!(all(Fold::Sum, vector(Type::S32, &[2e9, 2e9]), Type::S32), 4_000_000_000 - (1 << 32));
    assert_eq!(all(Fold::Product, vector(Type::S8, &[100.0, 100.0, 100.0]), Type::S32), 1_000_000);
    // Both are wrong in the first digits when kept in the operand's own type.
    let tenths = run(reduce(Fold::Sum, None, false), &[vector(Type::F32, &[0.1; 1000])], &ty(Type::F32, &[]));
    assert_eq!(numbers(&tenths), [100.0]);
    for dtype in [Type::BF16, Type::F16] {
        let ones = run(reduce(Fold::Sum, None, false), &[vector(dtype, &[1.0; 4096])], &ty(dtype, &[]));
        assert_eq!(numbers(&ones), [4096.0], "{dtype}");
    }
}

#[test]
fn large_tensors_are_split_without_a_seam() {
    let (rows, columns) = (1000, 300);
    let xs: Vec<f64> = (0..rows * columns).map(|i| f64::from(i * 7 % 1000)).collect();
    let x = tensor(Type::F64, &[rows as usize, columns as usize], &xs);
    let lines: Vec<f64> = xs.chunks(columns as usize).map(|line| line.iter().sum()).collect();
    let down: Vec<f64> = (0..columns as usize).map(|j| xs.iter().skip(j).step_by(columns as usize).sum()).collect();
    let sum =
        |axes, shape: &[usize]| numbers(&run(reduce(Fold::Sum, axes, false), from_ref(&x), &ty(Type::F64, shape)));
    assert_eq!(sum(Some(&[1]), &[rows as usize]), lines);
    assert_eq!(sum(Some(&[0]), &[columns as usize]), down);
    assert_eq!(sum(None, &[]), [xs.iter().sum::<f64>()]);
    let tall = tensor(Type::F64, &[100_000, 2], &xs[..200_000]);
    let got = numbers(&run(reduce(Fold::Max, Some(&[1]), false), &[tall], &ty(Type::F64, &[100_000])));
    assert_eq!(got, xs[..200_000].chunks(2).map(|two| two[0].max(two[1])).collect::<Vec<_>>());
}

#[test]
fn nan_spreads_and_counts_as_true() {
    let x = tensor(Type::F32, &[2, 2], &[NAN, 1.0, 1.0, 2.0]);
    for fold in [Fold::Sum, Fold::Product, Fold::Max, Fold::Min] {
        for x in [x.clone(), x.clone().flip(&[1])] {
            let got = numbers(&run(reduce(fold, Some(&[1]), false), &[x], &ty(Type::F32, &[2])));
            assert!(got[0].is_nan() && !got[1].is_nan(), "{fold:?}");
        }
    }
    let nans = vector(Type::F32, &[NAN]);
    assert_eq!(numbers(&run(reduce(Fold::All, None, false), from_ref(&nans), &ty(Type::U8, &[]))), [1.0]);
    assert_eq!(numbers(&run(reduce(Fold::Any, None, false), &[nans], &ty(Type::U8, &[]))), [1.0]);
}

#[test]
fn gradients_agree_with_differences() {
    let x = tensor(Type::F64, &[2, 3, 2], &[1.0, 2.5, -3.0, 4.0, 0.5, 6.0, -0.7, 8.0, 9.0, -1.5, 1.1, 1.2]);
    type Case = (Option<&'static [usize]>, bool, &'static [usize]);
    let cases: [Case; 5] = [
        (None, false, &[]),
        (Some(&[1]), false, &[2, 2]),
        (Some(&[0, 2]), true, &[1, 3, 1]),
        (Some(&[2, 0]), false, &[3]),
        (Some(&[]), false, &[2, 3, 2]),
    ];
    for fold in [Fold::Sum, Fold::Product, Fold::Max, Fold::Min] {
        for (axes, keep, shape) in cases {
            check_gradients(reduce(fold, axes, keep), from_ref(&x), shape);
        }
    }
    for fold in [Fold::Sum, Fold::Product, Fold::Max, Fold::Min] {
        for (axis, reverse) in [(0, false), (1, false), (1, true), (2, true)] {
            check_gradients(cumulative(fold, axis, reverse), from_ref(&x), &[2, 3, 2]);
        }
    }
    for n in 1..9 {
        let line: Vec<f64> = (0..n).map(|i| 1.0 + f64::from(i * 5 % 7) / 4.0).collect();
        for fold in [Fold::Sum, Fold::Product, Fold::Max, Fold::Min] {
            check_gradients(cumulative(fold, 0, false), &[vector(Type::F64, &line)], &[n as usize]);
        }
    }
}

#[test]
fn gradients_at_ties_and_zeros_are_those_of_nx() {
    let gradient = |op: Op, xs: &[f64], weights: &[f64]| {
        let x = tracked(&vector(Type::F64, xs));
        let out = if weights.len() == 1 { ty(Type::F64, &[]) } else { ty(Type::F64, &[weights.len()]) };
        gradients(&op, &[x], &out, &tensor(Type::F64, &out.shape, weights)).remove(0)
    };
    let all = |fold| reduce(fold, None, false);
    assert_eq!(gradient(all(Fold::Max), &[1.0, 3.0, 3.0], &[1.0]), [0.0, 0.5, 0.5]);
    assert_eq!(gradient(all(Fold::Min), &[1.0, 1.0, 1.0, 1.0], &[2.0]), [0.5; 4]);
    assert_eq!(gradient(all(Fold::Product), &[2.0, 0.0, 5.0], &[1.0]), [0.0, 10.0, 0.0]);
    assert_eq!(gradient(all(Fold::Product), &[0.0, 0.0, 5.0], &[1.0]), [0.0, 0.0, 0.0]);
}

/// From `Nx.Defn.grad` on `Nx.BinaryBackend`, with weights 0.5, 1.5, 2.5 ... for the results.
#[test]
fn gradients_of_scans_at_ties_and_zeros_are_those_of_nx() {
    let (ties, zeros) = ([3.0, 3.0, 1.0, 3.0, 2.0, 3.0, 0.0], [2.0, 0.0, 2.0, 0.0, 1.0]);
    let cases: [(Fold, bool, &[f64], &[f64]); 11] = [
        (Fold::Sum, false, &zeros, &[12.5, 12.0, 10.5, 8.0, 4.5]),
        (Fold::Product, false, &ties, &[422.0, 421.5, 1251.0, 409.5, 567.0, 297.0, 1053.0]),
        (Fold::Product, false, &zeros, &[0.5, 13.0, 0.0, 0.0, 0.0]),
        (Fold::Product, false, &[1.0; 4], &[8.0, 7.5, 6.0, 3.5]),
        (Fold::Max, false, &ties, &[6.0, 5.5, 0.0, 7.0, 0.0, 6.0, 0.0]),
        (Fold::Max, false, &zeros, &[7.25, 0.0, 5.25, 0.0, 0.0]),
        (Fold::Max, false, &[1.0; 4], &[2.75, 2.25, 2.125, 0.875]),
        (Fold::Max, true, &ties, &[0.25, 0.875, 0.0, 3.4375, 0.0, 13.4375, 6.5]),
        (Fold::Min, false, &ties, &[1.25, 0.75, 16.0, 0.0, 0.0, 0.0, 6.5]),
        (Fold::Min, false, &zeros, &[0.5, 8.0, 0.0, 4.0, 0.0]),
        (Fold::Min, false, &[1.0; 4], &[2.75, 2.25, 2.125, 0.875]),
    ];
    for (fold, reverse, xs, want) in cases {
        let weights: Vec<f64> = (0..xs.len()).map(|i| 0.5 + i as f64).collect();
        let op = cumulative(fold, 0, reverse);
        let got = gradients(
            &op,
            &[tracked(&vector(Type::F64, xs))],
            &ty(Type::F64, &[xs.len()]),
            &vector(Type::F64, &weights),
        );
        assert_eq!(got, [want], "{fold:?} of {xs:?}");
    }
}

#[test]
fn scans_run_both_ways_along_any_axis() {
    let x = tensor(Type::S32, &[2, 3], &[2.0, 3.0, 1.0, 1.0, 3.0, 2.0]);
    let cases: [(Fold, usize, bool, [f64; 6]); 8] = [
        (Fold::Sum, 0, false, [2.0, 3.0, 1.0, 3.0, 6.0, 3.0]),
        (Fold::Sum, 1, false, [2.0, 5.0, 6.0, 1.0, 4.0, 6.0]),
        (Fold::Sum, 1, true, [6.0, 4.0, 1.0, 6.0, 5.0, 2.0]),
        (Fold::Product, 1, false, [2.0, 6.0, 6.0, 1.0, 3.0, 6.0]),
        (Fold::Max, 1, false, [2.0, 3.0, 3.0, 1.0, 3.0, 3.0]),
        (Fold::Max, 1, true, [3.0, 3.0, 1.0, 3.0, 3.0, 2.0]),
        (Fold::Min, 0, false, [2.0, 3.0, 1.0, 1.0, 3.0, 1.0]),
        (Fold::Min, 0, true, [1.0, 3.0, 1.0, 1.0, 3.0, 2.0]),
    ];
    for (fold, axis, reverse, want) in cases {
        for dtype in TYPES {
            let got = run(cumulative(fold, axis, reverse), &[as_type(&x, dtype)], &ty(dtype, &[2, 3]));
            assert_eq!(numbers(&got), want, "{fold:?} {axis} {reverse} of {dtype}");
        }
    }
    let wrapped = run(cumulative(Fold::Sum, 0, false), &[vector(Type::U8, &[200.0, 100.0])], &ty(Type::U8, &[2]));
    assert_eq!(numbers(&wrapped), [200.0, 44.0]);
    let got =
        numbers(&run(cumulative(Fold::Max, 0, false), &[vector(Type::F32, &[1.0, NAN, 2.0])], &ty(Type::F32, &[3])));
    assert_close("maximum", &got, &[1.0, NAN, NAN], 0.0);
    let empty = tensor(Type::F32, &[3, 0], &[]);
    assert_eq!(numbers(&run(cumulative(Fold::Sum, 1, false), &[empty], &ty(Type::F32, &[3, 0]))), [0.0; 0]);
    let long = run(cumulative(Fold::Sum, 0, false), &[vector(Type::F32, &[0.1; 1000])], &ty(Type::F32, &[1000]));
    assert_eq!(numbers(&long)[999], 100.0);
}

#[test]
fn arg_reductions_break_ties_as_told_and_find_nan() {
    let cases: [(Extremum, TieBreak, &[f64], f64); 9] = [
        (Extremum::Max, TieBreak::Low, &[1.0, 3.0, 3.0, 2.0], 1.0),
        (Extremum::Max, TieBreak::High, &[1.0, 3.0, 3.0, 2.0], 2.0),
        (Extremum::Min, TieBreak::Low, &[1.0, 0.0, 3.0, 0.0], 1.0),
        (Extremum::Min, TieBreak::High, &[1.0, 0.0, 3.0, 0.0], 3.0),
        (Extremum::Max, TieBreak::Low, &[1.0, NAN, 3.0], 1.0),
        (Extremum::Min, TieBreak::High, &[NAN, 1.0, 3.0], 0.0),
        (Extremum::Max, TieBreak::Low, &[-INF, -INF], 0.0),
        (Extremum::Max, TieBreak::High, &[-0.0, 0.0, -0.0], 2.0),
        (Extremum::Min, TieBreak::Low, &[7.0], 0.0),
    ];
    for (extremum, tie_break, xs, want) in cases {
        let op = |axis| Op::ArgReduce(ArgReduce { extremum, axis, keep_axis: false, tie_break });
        let got = numbers(&run(op(None), &[vector(Type::F32, xs)], &ty(Type::S32, &[])));
        assert_eq!(got, [want], "{extremum:?} {tie_break:?} of {xs:?}");
        let column = tensor(Type::F64, &[xs.len(), 1], xs);
        assert_eq!(numbers(&run(op(Some(0)), &[column], &ty(Type::S64, &[1]))), [want], "{extremum:?} of {xs:?}");
    }
}

#[test]
fn arg_reductions_take_an_axis_or_the_flattened_tensor() {
    let op = |axis, keep_axis| {
        Op::ArgReduce(ArgReduce { extremum: Extremum::Max, axis, keep_axis, tie_break: TieBreak::Low })
    };
    for dtype in TYPES {
        let x = tensor(dtype, &[2, 3], &[1.0, 5.0, 2.0, 9.0, 0.0, 9.0]);
        assert_eq!(numbers(&run(op(None, false), from_ref(&x), &ty(Type::S32, &[]))), [3.0]);
        assert_eq!(numbers(&run(op(None, true), from_ref(&x), &ty(Type::S32, &[1, 1]))), [3.0]);
        assert_eq!(numbers(&run(op(Some(0), false), from_ref(&x), &ty(Type::S32, &[3]))), [1.0, 0.0, 1.0]);
        assert_eq!(numbers(&run(op(Some(1), true), &[x], &ty(Type::S32, &[2, 1]))), [1.0, 0.0]);
    }
    let message = error(op(Some(0), false), &[tensor(Type::F32, &[0], &[])], &ty(Type::S32, &[]));
    assert_eq!(message, "argmax: has no elements to choose from");
    let message = error(op(Some(1), false), &[vector(Type::F32, &[1.0])], &ty(Type::S32, &[]));
    assert_eq!(message, "argmax: axis 1 of a tensor of rank 1");
}

/// Sums a little above the middle between two floats of 16 bits, rounded once.
#[test]
fn sums_of_short_floats_are_rounded_once() {
    for (dtype, terms, want) in
        [(Type::BF16, [256., 1., 0.5f64.powi(14)], 258.), (Type::F16, [2048., 1., 0.5f64.powi(10)], 2050.)]
    {
        assert_eq!(
            numbers(&run(reduce(Fold::Sum, None, false), &[vector(dtype, &terms)], &ty(dtype, &[]))),
            [want],
            "{dtype}"
        );
    }
}
