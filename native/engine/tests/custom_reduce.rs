//! Folds by programs against loops over elements.

mod tools;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ex_burn_engine::exec::stoppable;
use ex_burn_engine::program::{
    Axes, Axis, Binary, Cond, Constant, CustomReduce, CustomWindowReduce, Instruction, Op, Program, Reduce, Unary,
    Windows,
};
use ex_burn_engine::{TensorType, Type, Value, program};
use tools::*;

type Step = fn(f64, f64) -> f64;

fn scalar(dtype: Type) -> TensorType {
    ty(dtype, &[])
}

fn step(op: Op, inputs: &[usize], dtype: Type) -> Instruction {
    Instruction { op, inputs: inputs.to_vec(), outputs: vec![scalar(dtype)] }
}

/// `x + acc * 2`: neither commutative nor associative.
fn horner(dtype: Type) -> Program {
    let two = Op::Constant(Constant { bytes: ex_burn_engine::scalar::from_f64(dtype, 2.0) });
    Program {
        inputs: vec![scalar(dtype); 2],
        instructions: vec![
            step(two, &[], dtype),
            step(Op::Binary(Binary::Multiply), &[1, 2], dtype),
            step(Op::Binary(Binary::Add), &[0, 3], dtype),
        ],
        outputs: vec![4],
    }
}

/// The same by a dot product of vectors of one element, which cannot become a program of vectors.
fn horner_by_dot(dtype: Type) -> Program {
    let line = ty(dtype, &[2]);
    let stack = |inputs: [usize; 2]| Instruction {
        op: Op::Stack(Axis { axis: 0 }),
        inputs: inputs.to_vec(),
        outputs: vec![line.clone()],
    };
    let number = |n: f64| Op::Constant(Constant { bytes: ex_burn_engine::scalar::from_f64(dtype, n) });
    let dot =
        Op::Dot(program::Dot { lhs_contract: vec![0], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] });
    Program {
        inputs: vec![scalar(dtype); 2],
        instructions: vec![
            step(number(1.0), &[], dtype),
            step(number(2.0), &[], dtype),
            stack([0, 1]),
            stack([2, 3]),
            step(dot, &[4, 5], dtype),
        ],
        outputs: vec![6],
    }
}

fn arithmetic(op: Binary, dtype: Type) -> Program {
    Program {
        inputs: vec![scalar(dtype); 2],
        instructions: vec![step(Op::Binary(op), &[0, 1], dtype)],
        outputs: vec![2],
    }
}

fn reduce(axes: Option<&[usize]>, keep_axes: bool, body: &Program) -> Op {
    Op::CustomReduce(CustomReduce { axes: axes.map(<[usize]>::to_vec), keep_axes, body: body.clone() })
}

/// `fold` of the elements of `x` that share an index outside of `axes`, in row-major order.
fn by_loops(shape: &[usize], x: &[f64], axes: &[usize], start: f64, fold: &dyn Fn(f64, f64) -> f64) -> Vec<f64> {
    let kept: Vec<usize> = (0..shape.len()).filter(|axis| !axes.contains(axis)).collect();
    let kept_shape: Vec<usize> = kept.iter().map(|&axis| shape[axis]).collect();
    let mut results = vec![start; kept_shape.iter().product()];
    each_index(shape, |index| {
        let own: Vec<usize> = kept.iter().map(|&axis| index[axis]).collect();
        let result = &mut results[position(&own, &kept_shape)];
        *result = fold(x[position(index, shape)], *result);
    });
    results
}

#[test]
fn folds_in_row_major_order_along_any_axes() {
    let shape = [2, 3, 4];
    let x = noise(1, 24, 3);
    for body in [horner, horner_by_dot] {
        for axes in [vec![], vec![0], vec![1], vec![2], vec![0, 2], vec![1, 0], vec![0, 1, 2]] {
            let want = by_loops(&shape, &x, &axes, 1.0, &|x, acc| x + 2.0 * acc);
            for keep in [false, true] {
                let out: Vec<usize> = (0..3)
                    .filter(|axis| keep || !axes.contains(axis))
                    .map(|axis| if axes.contains(&axis) { 1 } else { shape[axis] })
                    .collect();
                let op = reduce(Some(&axes), keep, &body(Type::F64));
                let got =
                    run(op, &[tensor(Type::F64, &shape, &x), tensor(Type::F64, &[], &[1.0])], &ty(Type::F64, &out));
                assert_close(&format!("{axes:?}"), &numbers(&got), &want, 0.0);
            }
        }
    }
}

#[test]
fn folds_every_type_and_casts_tensor_and_start_to_it() {
    for dtype in TYPES {
        let x = iota(Type::S8, &[3, 2]);
        let got = run(reduce(Some(&[0]), false, &horner(dtype)), &[x, vector(Type::U8, &[1.0])], &ty(dtype, &[2]));
        assert_eq!(numbers(&got), [16.0, 23.0], "{dtype}");
    }
}

#[test]
fn each_operation_rounds_to_the_type() {
    let x = noise(11, 300, 7);
    let bf16: fn(f64) -> f64 = |n| half::bf16::from_f64(n).to_f64();
    let f16: fn(f64) -> f64 = |n| half::f16::from_f64(n).to_f64();
    let f32: fn(f64) -> f64 = |n| f64::from(n as f32);
    for (dtype, round) in [(Type::BF16, bf16), (Type::F16, f16), (Type::F32, f32)] {
        let third = Op::Constant(Constant { bytes: ex_burn_engine::scalar::from_f64(dtype, 1.0 / 3.0) });
        let mut body = horner(dtype);
        body.instructions[0].op = third;
        let x: Vec<f64> = x.iter().map(|&n| round(n)).collect();
        for results in [1, 3] {
            let want =
                by_loops(&[results, 300 / results], &x, &[1], 0.0, &|x, acc| round(x + round(round(1.0 / 3.0) * acc)));
            let operands = [tensor(dtype, &[results, 300 / results], &x), tensor(dtype, &[], &[0.0])];
            let got = run(reduce(Some(&[1]), false, &body), &operands, &ty(dtype, &[results]));
            assert_close(&format!("{dtype} {results}"), &numbers(&got), &want, 0.0);
        }
    }
}

#[test]
fn bounds_may_vary() {
    let x: Vec<f64> = (0..12).map(|n| f64::from(n * 5 % 4 - 2)).collect();
    for dtype in [Type::S2, Type::S4, Type::S32, Type::F8, Type::BF16, Type::F64] {
        let one = Op::Constant(Constant { bytes: ex_burn_engine::scalar::from_f64(dtype, 1.0) });
        let body = Program {
            inputs: vec![scalar(dtype); 2],
            instructions: vec![step(one, &[], dtype), step(Op::Clip, &[1, 0, 2], dtype)],
            outputs: vec![3],
        };
        let operands = [tensor(dtype, &[3, 4], &x), tensor(dtype, &[], &[-2.0])];
        for (axes, shape) in [(&[0][..], &[4][..]), (&[1], &[3]), (&[0, 1], &[])] {
            let want = by_loops(&[3, 4], &x, axes, -2.0, &|x, acc| acc.max(x).min(1.0));
            let got = run(reduce(Some(axes), false, &body), &operands, &ty(dtype, shape));
            assert_close(&format!("{dtype} {shape:?}"), &numbers(&got), &want, 0.0);
        }
    }
}

#[test]
fn many_results_fold_in_parts() {
    let shape = [3, 5000];
    let x: Vec<f64> = noise(13, 15_000, 3).into_iter().map(f64::round).collect();
    let operands = [tensor(Type::S32, &shape, &x), tensor(Type::S32, &[], &[1000.0])];
    let want = by_loops(&shape, &x, &[0], 1000.0, &|x, acc| if x == 0.0 { acc } else { (acc / x).trunc() });
    let got = run(reduce(Some(&[0]), false, &unless_zero(Binary::Quotient)), &operands, &ty(Type::S32, &[5000]));
    assert_close("quotients", &numbers(&got), &want, 0.0);
    let got = run(reduce(Some(&[0]), false, &horner(Type::S32)), &operands, &ty(Type::S32, &[5000]));
    let want = by_loops(&shape, &x, &[0], 1000.0, &|x, acc| x + 2.0 * acc);
    assert_close("sums", &numbers(&got), &want, 0.0);
}

/// `(x + acc * 2) mod divisor`, where the divisor is captured.
fn modular(dtype: Type, divisor: Type) -> Program {
    let mut body = horner(dtype);
    body.inputs.push(scalar(divisor));
    body.instructions[1].inputs = vec![1, 3];
    body.instructions[2].inputs = vec![0, 4];
    body.instructions.push(step(Op::Binary(Binary::Remainder), &[5, 2], dtype));
    body.outputs = vec![6];
    body
}

#[test]
fn divisors_may_be_captured() {
    let x: Vec<f64> = (0..50).map(f64::from).collect();
    let fold = |divisor: f64, ty_of: Type| {
        let operands = [vector(Type::S64, &x), tensor(Type::S64, &[], &[1.0]), tensor(ty_of, &[], &[divisor])];
        (reduce(None, false, &modular(Type::S64, ty_of)), operands)
    };
    for divisor in [97.0, -97.0] {
        let (op, operands) = fold(divisor, Type::S8);
        let want = by_loops(&[50], &x, &[0], 1.0, &|x, acc| (x + 2.0 * acc) % divisor);
        assert_eq!(numbers(&run(op, &operands, &ty(Type::S64, &[]))), want);
    }
    let (op, operands) = fold(0.0, Type::S8);
    assert!(error(op, &operands, &ty(Type::S64, &[])).contains("division by zero"));
}

#[test]
fn nothing_folds_to_the_start() {
    for body in [horner(Type::S32), arithmetic(Binary::Add, Type::S32)] {
        let start = tensor(Type::S32, &[], &[7.0]);
        let empty = tensor(Type::S32, &[0, 2], &[]);
        let op = |axes: &[usize]| reduce(Some(axes), false, &body);
        assert_eq!(numbers(&run(op(&[0]), &[empty.clone(), start.clone()], &ty(Type::S32, &[2]))), [7.0, 7.0]);
        assert_eq!(numbers(&run(op(&[1]), &[empty, start.clone()], &ty(Type::S32, &[0]))), [0.0; 0]);
        let scalar_operand = tensor(Type::S32, &[], &[2.0]);
        let got = run(reduce(None, false, &horner(Type::S32)), &[scalar_operand, start], &ty(Type::S32, &[]));
        assert_eq!(numbers(&got), [16.0]);
    }
}

#[test]
fn plain_arithmetic_folds_as_the_program_says() {
    let shape = [3, 40];
    let x = noise(5, 120, 9);
    let folds: [(Binary, Step); 4] = [
        (Binary::Add, |x, acc| x + acc),
        (Binary::Multiply, |x, acc| x * acc),
        (Binary::Max, f64::max),
        (Binary::Min, f64::min),
    ];
    for (op, fold) in folds {
        let want = by_loops(&shape, &x, &[1], 2.0, &fold);
        let got = run(
            reduce(Some(&[1]), false, &arithmetic(op, Type::F64)),
            &[tensor(Type::F64, &shape, &x), tensor(Type::F64, &[], &[2.0])],
            &ty(Type::F64, &[3]),
        );
        assert_close(&format!("{op:?}"), &numbers(&got), &want, 0.0);
    }
    // Rounded after each step: a wide sum would answer 2^24 + 2.
    let x = vector(Type::F32, &[16_777_216.0, 1.0, 1.0]);
    let sum = reduce(None, false, &arithmetic(Binary::Add, Type::F32));
    assert_eq!(numbers(&run(sum, &[x, tensor(Type::F32, &[], &[0.0])], &ty(Type::F32, &[]))), [16_777_216.0]);
    let bytes = reduce(None, false, &arithmetic(Binary::Add, Type::U8));
    let got = run(bytes, &[vector(Type::U8, &[200.0, 100.0]), vector(Type::U8, &[3.0])], &ty(Type::U8, &[]));
    assert_eq!(numbers(&got), [47.0]);
}

#[test]
fn what_depends_on_captures_alone_may_be_any_operation() {
    let line = ty(Type::F32, &[3]);
    let sum = Op::Reduce(Reduce { fold: program::Fold::Sum, axes: None, keep_axes: false });
    let body = Program {
        inputs: vec![scalar(Type::F32), scalar(Type::F32), line],
        instructions: vec![step(sum, &[2], Type::F32), step(Op::Binary(Binary::Multiply), &[0, 3], Type::F32)],
        outputs: vec![4],
    };
    let x = tensor(Type::F32, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let captured = vector(Type::F32, &[1.0, 2.0, 3.0]);
    let operands = [x, tensor(Type::F32, &[], &[0.0]), captured];
    let got = run(reduce(Some(&[0]), false, &body), &operands, &ty(Type::F32, &[2]));
    assert_eq!(numbers(&got), [18.0, 24.0]);
}

#[test]
fn a_program_may_ignore_its_operands() {
    let one = Op::Constant(Constant { bytes: vec![5] });
    let body =
        Program { inputs: vec![scalar(Type::U8); 2], instructions: vec![step(one, &[], Type::U8)], outputs: vec![2] };
    let last = Program { instructions: vec![], outputs: vec![0], ..body.clone() };
    let operands = [tensor(Type::U8, &[2, 2], &[1.0, 2.0, 3.0, 4.0]), vector(Type::U8, &[0.0])];
    assert_eq!(numbers(&run(reduce(Some(&[0]), false, &body), &operands, &ty(Type::U8, &[2]))), [5.0, 5.0]);
    assert_eq!(numbers(&run(reduce(Some(&[0]), false, &last), &operands, &ty(Type::U8, &[2]))), [3.0, 4.0]);
}

/// `if x != 0, do: op(acc, x), else: acc`.
fn unless_zero(op: Binary) -> Program {
    let number = scalar(Type::S32);
    let zero = Op::Constant(Constant { bytes: vec![0; 4] });
    let predicate = Program {
        inputs: vec![number.clone(); 2],
        instructions: vec![step(zero, &[], Type::S32), step(Op::Binary(Binary::NotEqual), &[0, 2], Type::U8)],
        outputs: vec![3],
    };
    let divided = Program { instructions: vec![step(Op::Binary(op), &[1, 0], Type::S32)], ..arithmetic(op, Type::S32) };
    let kept = Program { inputs: vec![number; 2], instructions: vec![], outputs: vec![1] };
    let cond = Cond { predicates: vec![predicate], branches: vec![divided, kept] };
    Program { instructions: vec![step(Op::Cond(cond), &[0, 1], Type::S32)], ..arithmetic(op, Type::S32) }
}

#[test]
fn a_branch_that_no_element_takes_does_not_fail() {
    let operands = [tensor(Type::S32, &[2, 3], &[2.0, 0.0, 5.0, 0.0, 3.0, 0.0]), tensor(Type::S32, &[], &[100.0])];
    for (op, want) in [(Binary::Quotient, [10.0, 33.0]), (Binary::Remainder, [0.0, 1.0])] {
        let body = unless_zero(op);
        assert_eq!(numbers(&run(reduce(Some(&[1]), false, &body), &operands, &ty(Type::S32, &[2]))), want);
    }
    let taken = reduce(Some(&[1]), false, &arithmetic(Binary::Quotient, Type::S32));
    assert!(error(taken, &operands, &ty(Type::S32, &[2])).contains("division by zero"));
}

#[test]
fn folds_windows_over_padding_that_holds_the_start() {
    let windows =
        Windows { dimensions: vec![2, 2], padding: vec![[1, -1], [0, 2]], strides: vec![1, 2], dilations: vec![1, 2] };
    let (shape, start) = ([3, 4], 2.0);
    let x = noise(9, 12, 4);
    let mut want = vec![];
    each_index(&[2, 2], |window| {
        let mut acc = start;
        each_index(&[2, 2], |tap| {
            let row = (window[0] + tap[0]) as i64 - 1;
            let column = window[1] * 2 + tap[1] * 2;
            let inside = row >= 0 && column < 4;
            let element = if inside { x[position(&[row as usize, column], &shape)] } else { start };
            acc = element + 2.0 * acc;
        });
        want.push(acc);
    });
    for body in [horner, horner_by_dot] {
        let op = Op::CustomWindowReduce(CustomWindowReduce { windows: windows.clone(), body: body(Type::F64) });
        let operands = [tensor(Type::F64, &shape, &x), tensor(Type::F64, &[], &[start])];
        assert_close("windows", &numbers(&run(op, &operands, &ty(Type::F64, &[2, 2]))), &want, 0.0);
    }
}

#[test]
fn folds_have_the_gradients_of_their_programs() {
    let x = tensor(Type::F64, &[3, 2], &[0.5, -1.5, 2.0, 1.0, -0.3, 0.7]);
    let start = tensor(Type::F64, &[], &[0.4]);
    let mut body = horner(Type::F64);
    body.instructions.push(step(Op::Unary(Unary::Tanh), &[4], Type::F64));
    body.outputs = vec![5];
    for body in [body, arithmetic(Binary::Multiply, Type::F64)] {
        check_gradients(reduce(Some(&[0]), false, &body), &[x.clone(), start.clone()], &[2]);
    }
}

#[test]
fn programs_of_another_signature_are_refused() {
    let operands = [vector(Type::F32, &[1.0, 2.0]), tensor(Type::F32, &[], &[0.0])];
    let out = ty(Type::F32, &[]);
    let message = error(reduce(None, false, &horner(Type::F64)), &operands, &out);
    assert_eq!(message, "reduce: the fold takes (f64[], f64[]), not (f32[], f32[])");
    let none = Program { outputs: vec![], ..horner(Type::F32) };
    assert_eq!(error(reduce(None, false, &none), &operands, &out), "reduce: the fold answers (), not (f32[])");
    let axis = reduce(Some(&[3]), false, &horner(Type::F32));
    assert_eq!(error(axis, &operands, &out), "reduce: axis 3 of a tensor of rank 1");
    let message = error(reduce(None, false, &horner(Type::F32)), &operands[..1], &out);
    assert_eq!(message, "reduce: needs a tensor, an initial value and one result");
    let lines = [operands[0].clone(), operands[0].clone()];
    let message = error(reduce(None, false, &horner(Type::F32)), &lines, &out);
    assert_eq!(message, "reduce: starts from a scalar, got f32[2]");
}

#[test]
fn a_run_that_is_stopped_ends() {
    let stopped = Arc::new(AtomicBool::new(true));
    let operands = [vector(Type::F32, &[1.0, 2.0]), tensor(Type::F32, &[], &[0.0])];
    let op = reduce(None, false, &horner(Type::F32));
    let message = stoppable(&stopped, || error(op.clone(), &operands, &ty(Type::F32, &[])));
    assert_eq!(message, "reduce: stopped, because its caller has ended");
    assert_eq!(numbers(&run(op, &operands, &ty(Type::F32, &[]))), [4.0]);
}

#[test]
fn reversed_and_transposed_operands_fold_in_their_own_order() {
    let x = iota(Type::S32, &[2, 3]);
    let reversed = run(Op::Reverse(Axes { axes: vec![1] }), std::slice::from_ref(&x), &ty(Type::S32, &[2, 3]));
    let transposed = run(Op::Transpose(Axes { axes: vec![1, 0] }), &[x], &ty(Type::S32, &[3, 2]));
    let start = tensor(Type::S32, &[], &[0.0]);
    let fold = |x: &Value| {
        numbers(&run(reduce(None, false, &horner(Type::S32)), &[x.clone(), start.clone()], &ty(Type::S32, &[])))
    };
    assert_eq!(fold(&reversed), [111.0]);
    assert_eq!(fold(&transposed), [81.0]);
}
