//! Complex tensors.

mod tools;

use std::f64::consts::{FRAC_PI_2, LN_2, PI};
use std::slice::from_ref;

use ex_burn_engine::Type;
use ex_burn_engine::program::{
    Axes, Axis, Binary, Conv, Cumulative, Dot, Fold, Op, Pad, Reduce, Slice, Unary, WindowReduce, Windows,
};
use tools::*;

const TYPES: [Type; 2] = [Type::C64, Type::C128];

#[test]
fn functions_answer_principal_values() {
    // i^i = exp(-pi / 2), sqrt(-1) = i, ln(-2) = ln 2 + i pi, asin(2) = pi / 2 + i ln(2 + sqrt 3) up to conjugation.
    let cases: [(Unary, [f64; 2], [f64; 2]); 12] = [
        (Unary::Exp, [0.0, PI], [-1.0, 0.0]),
        (Unary::Sqrt, [-1.0, 0.0], [0.0, 1.0]),
        (Unary::Log, [-2.0, 0.0], [LN_2, PI]),
        (Unary::Cos, [0.0, 1.0], [1f64.cosh(), 0.0]),
        (Unary::Sinh, [0.0, FRAC_PI_2], [0.0, 1.0]),
        (Unary::Acos, [0.0, 0.0], [FRAC_PI_2, 0.0]),
        (Unary::Rsqrt, [0.0, 2.0], [0.5, -0.5]),
        (Unary::Conjugate, [3.0, 4.0], [3.0, -4.0]),
        (Unary::Negate, [3.0, -4.0], [-3.0, 4.0]),
        (Unary::Sign, [3.0, -4.0], [0.6, -0.8]),
        (Unary::Sign, [0.0, 1e-38], [0.0, 1.0]),
        (Unary::Sign, [0.0, 0.0], [0.0, 0.0]),
    ];
    for dtype in TYPES {
        for (op, x, want) in cases {
            let got = run(Op::Unary(op), &[complex(dtype, &[x])], &ty(dtype, &[1]));
            assert_close(&format!("{op:?} {dtype}"), &parts(&got), &want, 1e-6);
        }
    }
}

/// The values of a function of complex numbers of 64 bits each.
fn values(op: Unary, x: &[[f64; 2]]) -> Vec<f64> {
    parts(&run(Op::Unary(op), &[complex(Type::C128, x)], &ty(Type::C128, &[x.len()])))
}

#[test]
fn tangents_far_out_are_1() {
    for x in [50.0, 400.0, 1e19, 1e300] {
        assert_close("tanh", &values(Unary::Tanh, &[[x, 1.0], [-x, 1.0]]), &[1.0, 0.0, -1.0, 0.0], 1e-40);
        assert_close("tan", &values(Unary::Tan, &[[1.0, x], [1.0, -x]]), &[0.0, 1.0, 0.0, -1.0], 1e-40);
    }
    assert_eq!(values(Unary::Sigmoid, &[[-1000.0, 1.0], [1000.0, 1.0]])[..3], [0.0, 0.0, 1.0]);
}

#[test]
fn tangents_join_where_the_formula_changes() {
    for im in [0.0, 1.0, -2.0] {
        let got = values(Unary::Tanh, &[[22.0, im], [22.0 + 1e-9, im]]);
        assert_close("real parts", &got[..1], &got[2..3], 1e-15);
        assert!((got[1] - got[3]).abs() <= 1e-8 * got[1].abs(), "{got:?}");
    }
}

#[test]
fn a_real_number_stays_real_when_it_overflows() {
    let large = f64::INFINITY;
    assert_eq!(values(Unary::Exp, &[[800.0, 0.0]]), [large, 0.0]);
    assert_eq!(values(Unary::Sinh, &[[-800.0, 0.0]]), [-large, 0.0]);
    assert_eq!(values(Unary::Cosh, &[[-800.0, 0.0]]), [large, 0.0]);
    assert_eq!(values(Unary::Sin, &[[0.0, 800.0]]), [0.0, large]);
    assert_eq!(values(Unary::Cos, &[[0.0, 800.0]]), [large, 0.0]);
}

#[test]
fn results_below_the_largest_number_are_found() {
    // e^710 is too large, e^710 / 2 and e^710 times a small sine are not.
    let half = 709f64.exp() / 2.0 * std::f64::consts::E;
    let cases = [
        (Unary::Sinh, [710.0, 0.0], 0, half),
        (Unary::Cosh, [-710.0, 0.0], 0, half),
        (Unary::Exp, [710.0, 1e-9], 1, half * 2e-9),
        (Unary::Sin, [1e-9, 710.0], 0, half * 1e-9),
    ];
    for (op, x, part, want) in cases {
        let got = values(op, &[x])[part];
        assert!((got / want - 1.0).abs() < 1e-12, "{op:?}: {got}, should be {want}");
    }
}

#[test]
fn parts_size_and_angle_are_real() {
    let x = complex(Type::C64, &[[3.0, 4.0], [0.0, -1.0]]);
    let of = |op| numbers(&run(Op::Unary(op), from_ref(&x), &ty(Type::F32, &[2])));
    assert_eq!(of(Unary::Real), [3.0, 0.0]);
    assert_eq!(of(Unary::Imag), [4.0, -1.0]);
    assert_eq!(of(Unary::Abs), [5.0, 1.0]);
    assert_close("phase", &of(Unary::Phase), &[4f64.atan2(3.0), -FRAC_PI_2], 1e-6);
    let conjugate = run(Op::Unary(Unary::Conjugate), &[vector(Type::F32, &[2.0])], &ty(Type::C64, &[1]));
    assert!(parts(&conjugate)[1].is_sign_negative());
}

#[test]
fn a_number_is_infinite_when_either_part_is() {
    let (large, none) = (f64::INFINITY, f64::NAN);
    let x = complex(Type::C64, &[[large, none], [none, -large], [1.0, large], [none, 1.0], [1.0, 1.0]]);
    let of = |op| numbers(&run(Op::Unary(op), from_ref(&x), &ty(Type::U8, &[5])));
    assert_eq!(of(Unary::IsInfinity), [1.0, 1.0, 1.0, 0.0, 0.0]);
    assert_eq!(of(Unary::IsNan), [1.0, 1.0, 0.0, 1.0, 0.0]);
}

#[test]
fn arithmetic_follows_its_definition() {
    let (a, b) = (complex(Type::C128, &[[1.0, 2.0]]), complex(Type::C128, &[[3.0, -1.0]]));
    let of = |op| parts(&run(Op::Binary(op), &[a.clone(), b.clone()], &ty(Type::C128, &[1])));
    assert_eq!(of(Binary::Add), [4.0, 1.0]);
    assert_eq!(of(Binary::Subtract), [-2.0, 3.0]);
    assert_eq!(of(Binary::Multiply), [5.0, 5.0]);
    assert_close("divide", &of(Binary::Divide), &[0.1, 0.7], 1e-15);
    let i = complex(Type::C128, &[[0.0, 1.0]]);
    let power = run(Op::Binary(Binary::Pow), &[i.clone(), i], &ty(Type::C128, &[1]));
    assert_close("i^i", &parts(&power), &[(-FRAC_PI_2).exp(), 0.0], 1e-15);
    let mixed = run(Op::Binary(Binary::Add), &[vector(Type::S32, &[1.0, 2.0]), a], &ty(Type::C128, &[2]));
    assert_eq!(parts(&mixed), [2.0, 2.0, 3.0, 2.0]);
    let huge = complex(Type::C128, &[[1e300, 1e300]]);
    let one = run(Op::Binary(Binary::Divide), &[huge.clone(), huge], &ty(Type::C128, &[1]));
    assert_eq!(parts(&one), [1.0, 0.0]);
}

#[test]
fn equality_compares_both_parts_and_order_is_refused() {
    let x = complex(Type::C64, &[[1.0, 0.0], [1.0, 2.0], [0.0, 0.0]]);
    let out = ty(Type::U8, &[3]);
    let one = vector(Type::S64, &[1.0]);
    assert_eq!(exact(&run(Op::Binary(Binary::Equal), &[x.clone(), one.clone()], &out)), [1, 0, 0]);
    assert_eq!(exact(&run(Op::Unary(Unary::LogicalNot), from_ref(&x), &out)), [0, 0, 1]);
    let (yes, no) = (vector(Type::U8, &[1.0; 3]), vector(Type::U8, &[0.0; 3]));
    assert_eq!(exact(&run(Op::Select, &[x.clone(), yes, no], &out)), [1, 1, 0]);
    assert!(error(Op::Binary(Binary::Less), &[x, one], &out).contains("less of c128 is not implemented"));
}

#[test]
fn elements_move_with_both_parts() {
    let x = complex(Type::C64, &[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0], [8.0, 9.0], [10.0, 11.0]]);
    let x = x.reshape(&[2, 3]);
    let out = |shape: &[usize]| ty(Type::C64, shape);
    let turned = run(Op::Transpose(Axes { axes: vec![1, 0] }), from_ref(&x), &out(&[3, 2]));
    assert_eq!(parts(&turned), [0.0, 1.0, 6.0, 7.0, 2.0, 3.0, 8.0, 9.0, 4.0, 5.0, 10.0, 11.0]);
    let attrs = Slice { starts: vec![0, 0], lengths: vec![3, 1], strides: vec![2, 1] };
    let cut = run(Op::Slice(attrs), from_ref(&turned), &out(&[2, 1]));
    assert_eq!(parts(&cut), [0.0, 1.0, 4.0, 5.0]);
    let back = run(Op::Reverse(Axes { axes: vec![0] }), from_ref(&cut), &out(&[2, 1]));
    assert_eq!(parts(&back), [4.0, 5.0, 0.0, 1.0]);
    let padded =
        run(Op::Pad(Pad { config: vec![[0, 0, 1], [0, 0, 0]] }), &[cut, tensor(Type::U8, &[], &[7.0])], &out(&[3, 1]));
    assert_eq!(parts(&padded), [0.0, 1.0, 7.0, 0.0, 4.0, 5.0]);
    let picks = tensor(Type::S64, &[2, 1], &[2.0, 0.0]);
    let taken = run(Op::TakeAlongAxis(Axis { axis: 1 }), &[x.clone(), picks], &out(&[2, 1]));
    assert_eq!(parts(&taken), [4.0, 5.0, 6.0, 7.0]);
    let added = run(
        Op::IndexedAdd(Axes { axes: vec![0] }),
        &[x.clone(), tensor(Type::S64, &[2, 1], &[1.0, 1.0]), x],
        &out(&[2, 3]),
    );
    assert_eq!(parts(&added)[6..8], [12.0, 15.0]);
}

#[test]
fn folds_take_both_parts() {
    let x = complex(Type::C64, &[[1.0, 1.0], [0.0, 2.0], [3.0, 0.0]]);
    let out = ty(Type::C64, &[]);
    let reduce = |fold| Op::Reduce(Reduce { fold, axes: None, keep_axes: false });
    assert_eq!(parts(&run(reduce(Fold::Sum), from_ref(&x), &out)), [4.0, 3.0]);
    assert_eq!(parts(&run(reduce(Fold::Product), from_ref(&x), &out)), [-6.0, 6.0]);
    assert_eq!(exact(&run(reduce(Fold::All), from_ref(&x), &ty(Type::U8, &[]))), [1]);
    let running = Op::Cumulative(Cumulative { fold: Fold::Product, axis: 0, reverse: false });
    let got = run(running, from_ref(&x), &ty(Type::C64, &[3]));
    assert_eq!(parts(&got), [1.0, 1.0, -2.0, 2.0, -6.0, 6.0]);
    let windows = Windows { dimensions: vec![2], padding: vec![[0, 0]], strides: vec![1], dilations: vec![1] };
    let sums = Op::WindowReduce(WindowReduce { fold: Fold::Sum, windows });
    assert_eq!(parts(&run(sums, &[x], &ty(Type::C64, &[2]))), [1.0, 3.0, 3.0, 2.0]);
}

#[test]
fn products_do_not_conjugate() {
    let (a, b) = (complex(Type::C64, &[[1.0, 2.0], [0.0, 1.0]]), complex(Type::C64, &[[3.0, -1.0], [2.0, 2.0]]));
    let dot = Dot { lhs_contract: vec![0], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
    // (1 + 2i)(3 - i) + i(2 + 2i) = 5 + 5i - 2 + 2i
    assert_eq!(parts(&run(Op::Dot(dot), &[a.clone(), b.clone()], &ty(Type::C64, &[]))), [3.0, 7.0]);
    let conv = Conv::plain(1);
    let got = run(Op::Conv(conv), &[a.reshape(&[1, 1, 2]), b.reshape(&[1, 1, 2])], &ty(Type::C64, &[1, 1, 1]));
    assert_eq!(parts(&got), [3.0, 7.0]);
}
