//! Reshaping and rearranging, for every type.

mod tools;

use std::slice::from_ref;

use ex_burn_engine::program::{Axes, Axis, Op, Pad};
use ex_burn_engine::{Type, Value};
use tools::*;

fn axes(axes: &[usize]) -> Axes {
    Axes { axes: axes.to_vec() }
}

fn pad(config: &[[i64; 3]]) -> Op {
    Op::Pad(Pad { config: config.to_vec() })
}

/// Shape, padding, padded shape, and what 0, 1, 2 ... padded with 9 become.
type PadCase<'a> = (&'a [usize], &'a [[i64; 3]], &'a [usize], &'a [f64]);

/// What the operation does to the numbers 0, 1, 2 ... of a shape.
fn moves(op: Op, from: &[usize], to: &[usize], expected: &[f64]) {
    for dtype in TYPES {
        let result = run(op.clone(), &[iota(dtype, from)], &ty(dtype, to));
        assert_eq!(numbers(&result), expected, "{op:?} of {dtype}");
    }
}

#[test]
fn rearranges_every_type() {
    moves(Op::Reshape, &[2, 3], &[3, 2], &[0., 1., 2., 3., 4., 5.]);
    moves(Op::Reshape, &[1, 1], &[], &[0.]);
    moves(Op::Reshape, &[0, 3], &[3, 0, 2], &[]);
    moves(Op::Transpose(axes(&[1, 0])), &[2, 3], &[3, 2], &[0., 3., 1., 4., 2., 5.]);
    moves(Op::Transpose(axes(&[2, 0, 1])), &[1, 2, 3], &[3, 1, 2], &[0., 3., 1., 4., 2., 5.]);
    moves(Op::Transpose(axes(&[])), &[], &[], &[0.]);
    moves(Op::Transpose(axes(&[1, 0])), &[0, 2], &[2, 0], &[]);
    moves(Op::Reverse(axes(&[1])), &[2, 3], &[2, 3], &[2., 1., 0., 5., 4., 3.]);
    moves(Op::Reverse(axes(&[0, 1])), &[2, 3], &[2, 3], &[5., 4., 3., 2., 1., 0.]);
    moves(Op::Reverse(axes(&[])), &[2], &[2], &[0., 1.]);
    moves(Op::Reverse(axes(&[0])), &[0], &[0], &[]);
}

#[test]
fn broadcasts_by_axes() {
    let b = |list: &[usize]| Op::Broadcast(axes(list));
    moves(b(&[]), &[], &[2, 2], &[0.; 4]);
    moves(b(&[0]), &[2], &[2, 3], &[0., 0., 0., 1., 1., 1.]);
    moves(b(&[1]), &[3], &[2, 3], &[0., 1., 2., 0., 1., 2.]);
    moves(b(&[0, 2]), &[2, 2], &[2, 2, 2], &[0., 1., 0., 1., 2., 3., 2., 3.]);
    moves(b(&[1, 0]), &[2, 3], &[3, 2], &[0., 3., 1., 4., 2., 5.]);
    moves(b(&[0, 1]), &[2, 1], &[2, 2], &[0., 0., 1., 1.]);
    moves(b(&[0]), &[1], &[0], &[]);
}

#[test]
fn pads_as_nx_does() {
    let cases: &[PadCase] = &[
        (&[3], &[[1, 2, 0]], &[6], &[9., 0., 1., 2., 9., 9.]),
        (&[3], &[[0, 0, 1]], &[5], &[0., 9., 1., 9., 2.]),
        (&[3], &[[-1, 0, 0]], &[2], &[1., 2.]),
        (&[3], &[[-1, 1, 0]], &[3], &[1., 2., 9.]),
        (&[3], &[[-1, -1, 2]], &[5], &[9., 9., 1., 9., 9.]),
        (&[3], &[[-5, 4, 0]], &[2], &[9., 9.]),
        (&[3], &[[4, -5, 0]], &[2], &[9., 9.]),
        (&[3], &[[-2, -1, 0]], &[0], &[]),
        (&[3], &[[-1_000_000_000_000, 1_000_000_000_001, 0]], &[4], &[9., 9., 9., 9.]),
        (&[3], &[[2, -2_000_000_004, 1_000_000_000]], &[1], &[9.]),
        (&[0], &[[1, 1, 3]], &[2], &[9., 9.]),
        (&[1], &[[0, 0, 3]], &[1], &[0.]),
        (&[2, 2], &[[0, 1, 0], [1, 0, 1]], &[3, 4], &[9., 0., 9., 1., 9., 2., 9., 3., 9., 9., 9., 9.]),
        (&[2, 2], &[[-1, 0, 0], [1, 0, 0]], &[1, 3], &[9., 2., 3.]),
        (&[], &[], &[], &[0.]),
    ];
    for &(from, config, to, expected) in cases {
        for dtype in TYPES {
            let operands = [iota(dtype, from), tensor(Type::S64, &[], &[9.])];
            assert_eq!(numbers(&run(pad(config), &operands, &ty(dtype, to))), expected, "{config:?} of {dtype}");
        }
    }
    let widened =
        run(pad(&[[1, 0, 0]]), &[iota(Type::S32, &[2]), tensor(Type::F32, &[], &[0.5])], &ty(Type::F32, &[3]));
    assert_eq!(numbers(&widened), [0.5, 0., 1.]);
}

#[test]
fn joins_operands_of_several_types() {
    let parts = [iota(Type::U8, &[2, 1]), tensor(Type::F32, &[2, 2], &[0.5, 1.5, 2.5, 3.5]), iota(Type::S64, &[2, 0])];
    let joined = run(Op::Concatenate(Axis { axis: 1 }), &parts, &ty(Type::F32, &[2, 3]));
    assert_eq!(numbers(&joined), [0., 0.5, 1.5, 1., 2.5, 3.5]);
    let parts = [iota(Type::U8, &[2]), tensor(Type::BF16, &[2], &[5., 6.])];
    let stacked = run(Op::Stack(Axis { axis: 1 }), &parts, &ty(Type::BF16, &[2, 2]));
    assert_eq!(numbers(&stacked), [0., 5., 1., 6.]);
    let scalars = [tensor(Type::S8, &[], &[-1.]), tensor(Type::S8, &[], &[7.])];
    assert_eq!(numbers(&run(Op::Stack(Axis { axis: 0 }), &scalars, &ty(Type::S8, &[2]))), [-1., 7.]);
    for dtype in TYPES {
        let one = run(Op::Concatenate(Axis { axis: 0 }), &[iota(dtype, &[3])], &ty(dtype, &[3]));
        assert_eq!(numbers(&one), [0., 1., 2.]);
        let two = run(Op::Concatenate(Axis { axis: 0 }), &[one.clone(), one], &ty(dtype, &[6]));
        assert_eq!(numbers(&two), [0., 1., 2., 0., 1., 2.]);
    }
}

#[test]
fn refuses_what_does_not_fit() {
    let x = iota(Type::F32, &[2, 3]);
    let zero = iota(Type::F32, &[]);
    let cases: Vec<(Op, Vec<Value>, &[usize])> = vec![
        (Op::Reshape, vec![x.clone()], &[5]),
        (Op::Reshape, vec![x.clone()], &[usize::MAX, 2]),
        (Op::Reshape, vec![], &[5]),
        (Op::Transpose(axes(&[0])), vec![x.clone()], &[2]),
        (Op::Transpose(axes(&[0, 0])), vec![x.clone()], &[2, 2]),
        (Op::Transpose(axes(&[0, 7])), vec![x.clone()], &[2, 2]),
        (Op::Reverse(axes(&[2])), vec![x.clone()], &[2, 3]),
        (Op::Broadcast(axes(&[0])), vec![x.clone()], &[2, 3]),
        (Op::Broadcast(axes(&[0, 3])), vec![x.clone()], &[2, 3]),
        (Op::Broadcast(axes(&[0, 0])), vec![iota(Type::F32, &[1, 1])], &[2, 3]),
        (Op::Broadcast(axes(&[0, 1])), vec![x.clone()], &[2, 4]),
        (pad(&[[0, 0, 0]]), vec![x.clone(), zero.clone()], &[2, 3]),
        (pad(&[[0, 0, -1], [0, 0, 0]]), vec![x.clone(), zero.clone()], &[2, 3]),
        (pad(&[[-3, 0, 0], [0, 0, 0]]), vec![x.clone(), zero.clone()], &[0, 3]),
        (pad(&[[i64::MAX, i64::MAX, 0], [0, 0, 0]]), vec![x.clone(), zero.clone()], &[2, 3]),
        (pad(&[[0, 0, i64::MAX], [0, 0, 0]]), vec![x.clone(), zero.clone()], &[2, 3]),
        (pad(&[[1, 0, 0], [0, 0, 0]]), vec![x.clone(), x.clone()], &[3, 3]),
        (Op::Concatenate(Axis { axis: 0 }), vec![], &[2, 3]),
        (Op::Concatenate(Axis { axis: 2 }), vec![x.clone()], &[2, 3]),
        (Op::Concatenate(Axis { axis: 0 }), vec![x.clone(), zero.clone()], &[2, 3]),
        (Op::Concatenate(Axis { axis: 0 }), vec![x.clone(), iota(Type::F32, &[2, 2])], &[4, 3]),
        (Op::Concatenate(Axis { axis: 1 }), vec![zero.clone(), x.clone()], &[4, 3]),
        (Op::Stack(Axis { axis: 3 }), vec![x.clone()], &[2, 3, 1]),
        (Op::Stack(Axis { axis: 0 }), vec![x.clone(), zero.clone()], &[2, 2, 3]),
    ];
    for (op, inputs, out) in cases {
        let name = op.name();
        let message = error(op, &inputs, &ty(Type::F32, out));
        assert!(message.starts_with(&format!("{name}: ")), "{message}");
    }
}

#[test]
fn gradients_flow_through() {
    let x = iota(Type::F64, &[2, 3]);
    let half = tensor(Type::F64, &[], &[0.5]);
    check_gradients(Op::Reshape, from_ref(&x), &[3, 2]);
    check_gradients(Op::Transpose(axes(&[1, 0])), from_ref(&x), &[3, 2]);
    check_gradients(Op::Reverse(axes(&[0, 1])), from_ref(&x), &[2, 3]);
    check_gradients(Op::Broadcast(axes(&[2, 0])), from_ref(&x), &[3, 2, 2]);
    check_gradients(Op::Broadcast(axes(&[])), from_ref(&half), &[2, 2]);
    check_gradients(pad(&[[1, 2, 1], [0, 1, 2]]), &[x.clone(), half.clone()], &[6, 8]);
    check_gradients(pad(&[[-1, 2, 1], [-1, -1, 0]]), &[x.clone(), half.clone()], &[4, 1]);
    check_gradients(
        Op::Concatenate(Axis { axis: 1 }),
        &[x.clone(), iota(Type::F64, &[2, 1]), iota(Type::S32, &[2, 2])],
        &[2, 6],
    );
    check_gradients(Op::Stack(Axis { axis: 1 }), &[x.clone(), x.clone()], &[2, 2, 3]);
}
