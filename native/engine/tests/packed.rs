//! Sub-byte integers and 8-bit floats.

mod tools;

use std::slice::from_ref;

use ex_burn_engine::Type;
use ex_burn_engine::program::{
    Axes, Axis, Binary, Cumulative, Dot, Fold, Iota, Op, Reduce, Slice, Unary, WindowReduce, Windows,
};
use tools::*;

const NARROW: [Type; 4] = [Type::U2, Type::U4, Type::S2, Type::S4];

/// The number that the low bits of `n` are in `dtype`.
fn wrapped(dtype: Type, n: i128) -> i128 {
    let modulus = 1 << dtype.bits();
    let low = n.rem_euclid(modulus);
    let signed = matches!(dtype, Type::S2 | Type::S4);
    if signed && low >= modulus / 2 { low - modulus } else { low }
}

#[test]
fn arithmetic_wraps_at_the_own_width() {
    for dtype in NARROW {
        let all: Vec<i128> = (0..16).map(|n| wrapped(dtype, n)).collect();
        let x = integers(dtype, &all);
        for y in 0..4 {
            let y = wrapped(dtype, y);
            let other = integers(dtype, &[y]);
            for op in [Binary::Add, Binary::Subtract, Binary::Multiply] {
                let got = run(Op::Binary(op), &[x.clone(), other.clone()], &ty(dtype, &[16]));
                let f = |x: i128| match op {
                    Binary::Add => x + y,
                    Binary::Subtract => x - y,
                    _ => x * y,
                };
                let want: Vec<i128> = all.iter().map(|&x| wrapped(dtype, f(x))).collect();
                assert_eq!(exact(&got), want, "{op:?} {dtype} {y}");
            }
        }
    }
}

#[test]
fn bits_are_counted_at_the_own_width() {
    let x = integers(Type::S4, &[0, 1, 7, -8, -1]);
    let got = run(Op::Unary(Unary::PopulationCount), from_ref(&x), &ty(Type::S4, &[5]));
    assert_eq!(exact(&got), [0, 1, 3, 1, 4]);
    let got = run(Op::Unary(Unary::CountLeadingZeros), &[x], &ty(Type::S4, &[5]));
    assert_eq!(exact(&got), [4, 3, 1, 0, 0]);
    let got = run(Op::Unary(Unary::CountLeadingZeros), &[integers(Type::U2, &[0, 1, 2])], &ty(Type::U2, &[3]));
    assert_eq!(exact(&got), [2, 1, 0]);
    let got = run(Op::Unary(Unary::BitwiseNot), &[integers(Type::U4, &[0, 5, 15])], &ty(Type::U4, &[3]));
    assert_eq!(exact(&got), [15, 10, 0]);
}

#[test]
fn elements_move_as_they_are() {
    for dtype in [Type::U2, Type::S4, Type::F8, Type::F8E4M3FN] {
        let x = tensor(dtype, &[2, 2], &[0.0, 1.0, 1.0, 0.0]);
        let turned = run(Op::Transpose(Axes { axes: vec![1, 0] }), from_ref(&x), &ty(dtype, &[2, 2]));
        let joined = run(Op::Concatenate(Axis { axis: 0 }), &[turned, x], &ty(dtype, &[4, 2]));
        let attrs = Slice { starts: vec![1, 0], lengths: vec![2, 2], strides: vec![1, 1] };
        assert_eq!(numbers(&run(Op::Slice(attrs), &[joined], &ty(dtype, &[2, 2]))), [1.0, 0.0, 0.0, 1.0], "{dtype}");
    }
    let counts = run(Op::Iota(Iota { axis: None }), &[], &ty(Type::U2, &[6]));
    assert_eq!(exact(&counts), [0, 1, 2, 3, 0, 1]);
}

#[test]
fn sums_are_wide() {
    let attrs = Reduce { fold: Fold::Sum, axes: None, keep_axes: false };
    let sum = run(Op::Reduce(attrs.clone()), &[integers(Type::U4, &[15; 20])], &ty(Type::U32, &[]));
    assert_eq!(exact(&sum), [300]);
    // Each partial sum from 16 on would lose the ones.
    let ones = vector(Type::F8, &[1.0; 32]);
    assert_eq!(numbers(&run(Op::Reduce(attrs), from_ref(&ones), &ty(Type::F8, &[]))), [32.0]);
    let dot = Dot { lhs_contract: vec![0], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
    assert_eq!(numbers(&run(Op::Dot(dot), &[ones.clone(), ones], &ty(Type::F8, &[]))), [32.0]);
    let running = Cumulative { fold: Fold::Sum, axis: 0, reverse: false };
    let got = run(Op::Cumulative(running), &[integers(Type::S2, &[1, 1, 1])], &ty(Type::S2, &[3]));
    assert_eq!(exact(&got), [1, -2, -1]);
}

#[test]
fn zero_is_false_whatever_its_sign() {
    let x = vector(Type::F8, &[0.0, -0.0, 0.5, NAN]);
    let (yes, no) = (vector(Type::U4, &[1.0; 4]), vector(Type::U4, &[0.0; 4]));
    assert_eq!(exact(&run(Op::Select, &[x.clone(), yes, no], &ty(Type::U4, &[4]))), [0, 0, 1, 1]);
    assert_eq!(exact(&run(Op::Unary(Unary::LogicalNot), &[x], &ty(Type::U8, &[4]))), [1, 1, 0, 0]);
}

const NAN: f64 = f64::NAN;

#[test]
fn extrema_of_padding_are_the_ends_of_the_own_type() {
    for (dtype, low, high) in [(Type::U2, 0, 3), (Type::U4, 0, 15), (Type::S2, -2, 1), (Type::S4, -8, 7)] {
        for (fold, end) in [(Fold::Max, low), (Fold::Min, high)] {
            let windows = Windows { dimensions: vec![1], padding: vec![[0, 1]], strides: vec![1], dilations: vec![1] };
            let op = Op::WindowReduce(WindowReduce { fold, windows });
            let got = run(op, &[integers(dtype, &[1])], &ty(dtype, &[2]));
            assert_eq!(exact(&got), [1, end], "{fold:?} {dtype}");
        }
    }
}
