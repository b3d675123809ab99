//! Slices, gathers and scatters, for every type of data and of indices.

mod tools;

use std::slice::from_ref;

use ex_burn_engine::program::{Axes, Axis, DynamicSlice, Op, Slice};
use ex_burn_engine::{Type, Value};
use tools::*;

const INTEGERS: [Type; 8] = [Type::U8, Type::U16, Type::U32, Type::U64, Type::S8, Type::S16, Type::S32, Type::S64];

fn slice(starts: &[usize], lengths: &[usize], strides: &[usize]) -> Op {
    Op::Slice(Slice { starts: starts.to_vec(), lengths: lengths.to_vec(), strides: strides.to_vec() })
}

fn dynamic(lengths: &[usize], strides: &[usize]) -> Op {
    Op::DynamicSlice(DynamicSlice { lengths: lengths.to_vec(), strides: strides.to_vec() })
}

fn gather(axes: &[usize]) -> Op {
    Op::Gather(Axes { axes: axes.to_vec() })
}

fn add(axes: &[usize]) -> Op {
    Op::IndexedAdd(Axes { axes: axes.to_vec() })
}

fn put(axes: &[usize]) -> Op {
    Op::IndexedPut(Axes { axes: axes.to_vec() })
}

fn scalar(number: f64) -> Value {
    tensor(Type::S64, &[], &[number])
}

fn at(shape: &[usize], indices: &[f64]) -> Value {
    tensor(Type::S32, shape, indices)
}

#[test]
fn slices() {
    for dtype in TYPES {
        let x = iota(dtype, &[3, 4]);
        let cases: &[(Op, &[usize], &[f64])] = &[
            (slice(&[1, 1], &[2, 2], &[1, 1]), &[2, 2], &[5., 6., 9., 10.]),
            (slice(&[0, 0], &[3, 4], &[2, 3]), &[2, 2], &[0., 3., 8., 11.]),
            (slice(&[0, 0], &[3, 4], &[1, 1]), &[3, 4], &[0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11.]),
            (slice(&[3, 1], &[0, 2], &[1, 1]), &[0, 2], &[]),
            (slice(&[2, 0], &[1, 4], &[5, 5]), &[1, 1], &[8.]),
        ];
        for (op, out, expected) in cases {
            assert_eq!(numbers(&run(op.clone(), from_ref(&x), &ty(dtype, out))), *expected, "{op:?} of {dtype}");
        }
        assert_eq!(numbers(&run(slice(&[], &[], &[]), &[iota(dtype, &[])], &ty(dtype, &[]))), [0.]);
    }
}

#[test]
fn dynamic_starts_are_clamped() {
    let x = iota(Type::F32, &[3, 4]);
    let cases: &[(f64, f64, &[f64])] =
        &[(1., 1., &[5., 6., 9., 10.]), (-7., 9., &[2., 3., 6., 7.]), (100., 0., &[4., 5., 8., 9.])];
    for &(row, column, expected) in cases {
        let operands = [x.clone(), scalar(row), tensor(Type::S16, &[], &[column])];
        assert_eq!(numbers(&run(dynamic(&[2, 2], &[1, 1]), &operands, &ty(Type::F32, &[2, 2]))), expected);
    }
    let strided = run(dynamic(&[3, 3], &[2, 2]), &[x.clone(), scalar(0.), scalar(9.)], &ty(Type::F32, &[2, 2]));
    assert_eq!(numbers(&strided), [1., 3., 9., 11.]);
    for dtype in INTEGERS {
        let operands = [iota(Type::U8, &[4]), tensor(dtype, &[], &[3.])];
        assert_eq!(numbers(&run(dynamic(&[2], &[1]), &operands, &ty(Type::U8, &[2]))), [2., 3.]);
    }
    let huge = Value::from_bytes(&ty(Type::U64, &[]), u64::MAX.to_le_bytes().to_vec(), &Default::default());
    let operands = [iota(Type::U8, &[4]), huge.expect("eight bytes")];
    assert_eq!(numbers(&run(dynamic(&[1], &[1]), &operands, &ty(Type::U8, &[1]))), [3.]);
}

#[test]
fn put_slice_writes_a_block() {
    for dtype in TYPES {
        let part = tensor(Type::U8, &[2, 1], &[50., 60.]);
        let operands = [iota(dtype, &[2, 3]), part, scalar(5.), scalar(1.)];
        let result = run(Op::PutSlice, &operands, &ty(dtype, &[2, 3]));
        assert_eq!(numbers(&result), [0., 50., 2., 3., 60., 5.], "{dtype}");
    }
    let operands = [iota(Type::U8, &[2]), tensor(Type::F32, &[1], &[0.5]), scalar(-1.)];
    assert_eq!(numbers(&run(Op::PutSlice, &operands, &ty(Type::F32, &[2]))), [0.5, 1.]);
    let operands = [iota(Type::U8, &[]), tensor(Type::U8, &[], &[9.])];
    assert_eq!(numbers(&run(Op::PutSlice, &operands, &ty(Type::U8, &[]))), [9.]);
    let operands = [iota(Type::U8, &[2]), iota(Type::U8, &[0]), scalar(1.)];
    assert_eq!(numbers(&run(Op::PutSlice, &operands, &ty(Type::U8, &[2]))), [0., 1.]);
}

#[test]
fn gathers_by_any_axes() {
    let x = [2usize, 3, 4];
    for dtype in TYPES {
        let value = iota(dtype, &x);
        let one = run(gather(&[0, 1, 2]), &[value.clone(), at(&[2, 3], &[1., 2., 3., 0., 1., 2.])], &ty(dtype, &[2]));
        assert_eq!(numbers(&one), [23., 6.], "{dtype}");
        let rows = run(gather(&[1]), &[value.clone(), at(&[2, 1], &[2., 0.])], &ty(dtype, &[2, 2, 4]));
        assert_eq!(
            numbers(&rows),
            [8., 9., 10., 11., 20., 21., 22., 23., 0., 1., 2., 3., 12., 13., 14., 15.],
            "batch, then the axes that are left, {dtype}"
        );
        let swapped = run(gather(&[2, 0]), &[value, at(&[1, 2, 2], &[3., 1., 0., 0.])], &ty(dtype, &[1, 2, 3]));
        assert_eq!(numbers(&swapped), [15., 19., 23., 0., 4., 8.], "{dtype}");
    }
    for dtype in INTEGERS {
        let picks = tensor(dtype, &[3, 1], &[2., 2., 0.]);
        assert_eq!(numbers(&run(gather(&[0]), &[iota(Type::F32, &[3]), picks], &ty(Type::F32, &[3]))), [2., 2., 0.]);
    }
    let none = run(gather(&[0]), &[iota(Type::F32, &[3, 2]), at(&[0, 1], &[])], &ty(Type::F32, &[0, 2]));
    assert!(numbers(&none).is_empty());
}

#[test]
fn flattened_updates_are_read_row_by_row() {
    let operands = [iota(Type::F32, &[3, 2]), at(&[2, 1], &[2., 0.]), vector(Type::F32, &[10., 20., 30., 40.])];
    assert_eq!(numbers(&run(put(&[0]), &operands, &ty(Type::F32, &[3, 2]))), [30., 40., 2., 3., 10., 20.]);
}

#[test]
fn indexed_add_accumulates_and_put_keeps_the_last() {
    for dtype in TYPES {
        let target = iota(dtype, &[3, 2]);
        let indices = at(&[3, 1], &[2., 0., 2.]);
        let updates = tensor(Type::U8, &[3, 2], &[10., 20., 30., 40., 50., 60.]);
        let operands = [target, indices, updates];
        let added = run(add(&[0]), &operands, &ty(dtype, &[3, 2]));
        assert_eq!(numbers(&added), [30., 41., 2., 3., 64., 85.], "{dtype}");
        let replaced = run(put(&[0]), &operands, &ty(dtype, &[3, 2]));
        assert_eq!(numbers(&replaced), [30., 40., 2., 3., 50., 60.], "{dtype}");
    }
    let columns = [iota(Type::F32, &[2, 3]), at(&[2, 1], &[2., 0.]), tensor(Type::F32, &[2, 2], &[10., 20., 30., 40.])];
    assert_eq!(numbers(&run(add(&[1]), &columns, &ty(Type::F32, &[2, 3]))), [30., 1., 12., 43., 4., 25.]);
    let points = [iota(Type::F32, &[2, 3]), at(&[2, 2], &[1., 2., 1., 2.]), tensor(Type::F32, &[2], &[10., 20.])];
    assert_eq!(numbers(&run(add(&[0, 1]), &points, &ty(Type::F32, &[2, 3]))), [0., 1., 2., 3., 4., 35.]);
    assert_eq!(numbers(&run(put(&[0, 1]), &points, &ty(Type::F32, &[2, 3]))), [0., 1., 2., 3., 4., 20.]);
    let wraps = [tensor(Type::U8, &[1], &[250.]), at(&[2, 1], &[0., 0.]), tensor(Type::U8, &[2], &[10., 1.])];
    assert_eq!(numbers(&run(add(&[0]), &wraps, &ty(Type::U8, &[1]))), [5.]);
    let widened = [iota(Type::S32, &[2]), at(&[1, 1], &[1.]), tensor(Type::F32, &[1], &[0.5])];
    assert_eq!(numbers(&run(add(&[0]), &widened, &ty(Type::F32, &[2]))), [0., 1.5]);
    let nothing = [iota(Type::F32, &[2]), at(&[0, 1], &[]), tensor(Type::F32, &[0], &[])];
    assert_eq!(numbers(&run(add(&[0]), &nothing, &ty(Type::F32, &[2]))), [0., 1.]);
}

#[test]
fn takes_along_an_axis() {
    for dtype in TYPES {
        let x = iota(dtype, &[2, 3]);
        let take = |axis| Op::Take(Axis { axis });
        let picks = at(&[2, 2], &[1., 0., 0., 1.]);
        let rows = run(take(0), &[x.clone(), picks], &ty(dtype, &[2, 2, 3]));
        assert_eq!(numbers(&rows), [3., 4., 5., 0., 1., 2., 0., 1., 2., 3., 4., 5.], "{dtype}");
        let one = run(take(1), &[x.clone(), at(&[], &[2.])], &ty(dtype, &[2]));
        assert_eq!(numbers(&one), [2., 5.], "{dtype}");
        let along = |axis| Op::TakeAlongAxis(Axis { axis });
        let picked = run(along(1), &[x.clone(), at(&[2, 4], &[2., 0., 2., 1., 0., 0., 1., 2.])], &ty(dtype, &[2, 4]));
        assert_eq!(numbers(&picked), [2., 0., 2., 1., 3., 3., 4., 5.], "{dtype}");
        let picked = run(along(0), &[x, at(&[1, 3], &[1., 0., 1.])], &ty(dtype, &[1, 3]));
        assert_eq!(numbers(&picked), [3., 1., 5.], "{dtype}");
    }
    let none = run(Op::Take(Axis { axis: 0 }), &[iota(Type::F32, &[0, 2]), at(&[0], &[])], &ty(Type::F32, &[0, 2]));
    assert!(numbers(&none).is_empty());
}

#[test]
fn indices_out_of_range_are_errors() {
    let x = iota(Type::F32, &[2, 3]);
    let out = ty(Type::F32, &[1]);
    let message = error(gather(&[0, 1]), &[x.clone(), at(&[1, 2], &[1., 3.])], &out);
    assert_eq!(message, "gather: index 3 is out of bounds for axis 1 in shape [2, 3]");
    let message = error(gather(&[0, 1]), &[x.clone(), at(&[1, 2], &[-1., 0.])], &out);
    assert_eq!(message, "gather: index -1 is out of bounds for axis 0 in shape [2, 3]");
    for op in [add(&[0]), put(&[0])] {
        let operands = [x.clone(), at(&[1, 1], &[2.]), iota(Type::F32, &[1, 3])];
        assert!(error(op, &operands, &ty(Type::F32, &[2, 3])).contains("index 2 is out of bounds for axis 0"));
    }
    let message = error(Op::Take(Axis { axis: 1 }), &[x.clone(), at(&[1], &[3.])], &ty(Type::F32, &[2, 1]));
    assert_eq!(message, "take: index 3 is out of bounds for axis 0 in shape [3, 2]");
    let along = Op::TakeAlongAxis(Axis { axis: 0 });
    assert!(error(along, &[x, at(&[1, 3], &[0., 2., 0.])], &ty(Type::F32, &[1, 3])).contains("index 2 is out"));
    let huge = Value::from_bytes(&ty(Type::U64, &[1, 1]), u64::MAX.to_le_bytes().to_vec(), &Default::default());
    let message = error(gather(&[0]), &[iota(Type::F32, &[2]), huge.expect("eight bytes")], &out);
    assert!(message.contains("index 18446744073709551615 is out of bounds"), "{message}");
}

#[test]
fn refuses_what_does_not_fit() {
    let x = iota(Type::F32, &[2, 3]);
    let cases: Vec<(Op, Vec<Value>, &[usize])> = vec![
        (slice(&[0], &[1], &[1]), vec![x.clone()], &[1]),
        (slice(&[0, 2], &[1, 2], &[1, 1]), vec![x.clone()], &[1, 2]),
        (slice(&[0, usize::MAX], &[1, 2], &[1, 1]), vec![x.clone()], &[1, 2]),
        (slice(&[0, 0], &[1, 2], &[0, 1]), vec![x.clone()], &[1, 2]),
        (slice(&[0, 0], &[1, 2], &[1, 1]), vec![x.clone()], &[2, 2]),
        (slice(&[0, 0], &[1, 2], &[1, 1]), vec![x.clone()], &[]),
        (dynamic(&[1, 1], &[1, 1]), vec![x.clone(), scalar(0.)], &[1, 1]),
        (dynamic(&[3, 1], &[1, 1]), vec![x.clone(), scalar(0.), scalar(0.)], &[3, 1]),
        (dynamic(&[1, 1], &[1, 1]), vec![x.clone(), scalar(0.), x.clone()], &[1, 1]),
        (dynamic(&[1, 1], &[1, 1]), vec![x.clone(), scalar(0.), at(&[2], &[0., 0.])], &[1, 1]),
        (dynamic(&[1, 1], &[1, 1]), vec![], &[1, 1]),
        (Op::PutSlice, vec![x.clone(), iota(Type::F32, &[3, 1]), scalar(0.), scalar(0.)], &[2, 3]),
        (Op::PutSlice, vec![x.clone(), iota(Type::F32, &[1]), scalar(0.), scalar(0.)], &[2, 3]),
        (Op::PutSlice, vec![x.clone(), x.clone(), scalar(0.)], &[2, 3]),
        (gather(&[0]), vec![x.clone(), scalar(0.)], &[3]),
        (gather(&[0]), vec![x.clone(), at(&[1, 2], &[0., 0.])], &[1, 3]),
        (gather(&[]), vec![x.clone(), at(&[1, 0], &[])], &[1, 2, 3]),
        (gather(&[2]), vec![x.clone(), at(&[1, 1], &[0.])], &[1, 3]),
        (gather(&[0, 0]), vec![x.clone(), at(&[1, 2], &[0., 0.])], &[1, 3]),
        (gather(&[0]), vec![x.clone(), iota(Type::F32, &[1, 1])], &[1, 3]),
        (gather(&[0]), vec![x.clone(), at(&[1, 1], &[0.])], &[3]),
        (add(&[0]), vec![x.clone(), at(&[1, 1], &[0.]), iota(Type::F32, &[4])], &[2, 3]),
        (put(&[0]), vec![x.clone(), at(&[1, 1], &[0.]), iota(Type::F32, &[1, 3])], &[3, 2]),
        (Op::Take(Axis { axis: 2 }), vec![x.clone(), at(&[1], &[0.])], &[2, 3]),
        (Op::TakeAlongAxis(Axis { axis: 1 }), vec![x.clone(), at(&[1, 1], &[0.])], &[1, 1]),
        (Op::TakeAlongAxis(Axis { axis: 1 }), vec![x.clone(), at(&[2], &[0., 0.])], &[2]),
    ];
    for (op, inputs, out) in cases {
        let name = op.name();
        let message = error(op, &inputs, &ty(Type::F32, out));
        assert!(message.starts_with(&format!("{name}: ")), "{message}");
    }
}

#[test]
fn gradients_flow_through() {
    let x = tensor(Type::F64, &[3, 4], &noise(1, 12, 9));
    check_gradients(slice(&[0, 1], &[3, 3], &[2, 2]), from_ref(&x), &[2, 2]);
    check_gradients(dynamic(&[2, 2], &[1, 1]), &[x.clone(), scalar(9.), scalar(1.)], &[2, 2]);
    let part = tensor(Type::F64, &[2, 2], &noise(2, 4, 9));
    check_gradients(Op::PutSlice, &[x.clone(), part, scalar(1.), scalar(1.)], &[3, 4]);
    check_gradients(gather(&[1]), &[x.clone(), at(&[3, 1], &[2., 0., 2.])], &[3, 3]);
    check_gradients(gather(&[1, 0]), &[x.clone(), at(&[2, 2], &[3., 2., 3., 2.])], &[2]);
    let updates = tensor(Type::F64, &[3, 4], &noise(3, 12, 9));
    let rows = at(&[3, 1], &[2., 0., 2.]);
    check_gradients(add(&[0]), &[x.clone(), rows.clone(), updates.clone()], &[3, 4]);
    check_gradients(put(&[0]), &[x.clone(), rows, updates.clone()], &[3, 4]);
    check_gradients(put(&[0]), &[x.clone(), at(&[3, 1], &[1., 0., 2.]), updates], &[3, 4]);
    let columns = tensor(Type::F64, &[2, 3], &noise(4, 6, 9));
    check_gradients(add(&[1]), &[x.clone(), at(&[2, 1], &[3., 1.]), columns], &[3, 4]);
    check_gradients(Op::Take(Axis { axis: 0 }), &[x.clone(), at(&[2, 2], &[1., 1., 0., 2.])], &[2, 2, 4]);
    check_gradients(Op::Take(Axis { axis: 1 }), &[x.clone(), at(&[3], &[1., 1., 0.])], &[3, 3]);
    let picks = at(&[3, 2], &[0., 0., 3., 1., 2., 2.]);
    check_gradients(Op::TakeAlongAxis(Axis { axis: 1 }), &[x.clone(), picks], &[3, 2]);
    check_gradients(Op::TakeAlongAxis(Axis { axis: 1 }), &[x.clone(), at(&[3, 1], &[3., 0., 3.])], &[3, 1]);
    check_gradients(Op::TakeAlongAxis(Axis { axis: 0 }), &[x, at(&[1, 4], &[2., 0., 1., 2.])], &[1, 4]);
}
