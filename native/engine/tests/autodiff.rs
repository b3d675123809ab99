//! Annotations that only gradients see.

mod tools;

use std::slice::from_ref;

use ex_burn_engine::program::{CustomGrad, Dot, Instruction, Op, Program};
use ex_burn_engine::{Type, Value};
use tools::*;

/// The elementwise product of two vectors.
fn product() -> Op {
    Op::Dot(Dot { lhs_contract: vec![], lhs_batch: vec![0], rhs_contract: vec![], rhs_batch: vec![0] })
}

/// Gradients of the inputs: the upstream gradient times the first capture, and times the second.
fn scaled_by_captures(shape: &[usize]) -> Program {
    let real = ty(Type::F64, shape);
    let times = |capture| Instruction { op: product(), inputs: vec![0, capture], outputs: vec![real.clone()] };
    Program { inputs: vec![real.clone(); 3], instructions: vec![times(1), times(2)], outputs: vec![3, 4] }
}

fn custom(inputs: usize, backward: Program) -> Op {
    Op::CustomGrad(CustomGrad { inputs, backward })
}

#[test]
fn stop_grad_cuts_the_tape() {
    let x = tensor(Type::F64, &[2], &[1., 2.]);
    assert_eq!(numbers(&run(Op::StopGrad, from_ref(&x), &x.ty())), [1., 2.]);
    let x = tracked(&x);
    let stopped = run(Op::StopGrad, from_ref(&x), &x.ty());
    let got = gradients(&product(), &[x, stopped], &ty(Type::F64, &[2]), &tensor(Type::F64, &[2], &[1., 10.]));
    assert_eq!(got[0], [1., 20.], "only the factor that was not stopped");
    let whole = tensor(Type::S32, &[1], &[4.]);
    assert_eq!(numbers(&run(Op::StopGrad, from_ref(&whole), &whole.ty())), [4.]);
}

#[test]
fn custom_grad_answers_its_value() {
    for dtype in [Type::F32, Type::S32] {
        let (x, one) = (tensor(dtype, &[2], &[1., 2.]), tensor(Type::F64, &[2], &[1., 1.]));
        let operands = [x.clone(), one.clone(), one.clone(), one.clone(), one];
        assert_eq!(numbers(&run(custom(2, scaled_by_captures(&[2])), &operands, &x.ty())), [1., 2.]);
    }
}

#[test]
fn custom_grad_takes_gradients_from_its_program() {
    let of = |numbers: &[f64]| tensor(Type::F64, &[2], numbers);
    let (value, a, b) = (tracked(&of(&[7., 8.])), tracked(&of(&[1., 2.])), tracked(&of(&[3., 4.])));
    let captures = [tracked(&of(&[10., 20.])), of(&[-1., -2.])];
    let operands = [value, a, b, captures[0].clone(), captures[1].clone()];
    let op = custom(2, scaled_by_captures(&[2]));
    let got = gradients(&op, &operands, &ty(Type::F64, &[2]), &of(&[1., 3.]));
    assert_eq!(got[0], [0., 0.], "the value passes no gradient on");
    assert_eq!(got[1], [10., 60.]);
    assert_eq!(got[2], [-1., -6.]);
    assert_eq!(got[3], [0., 0.], "nor does a capture");
}

#[test]
fn custom_grad_leaves_constants_alone() {
    let of = |numbers: &[f64]| tensor(Type::F64, &[2], numbers);
    let b = tracked(&of(&[3., 4.]));
    let operands = [of(&[7., 8.]), of(&[1., 2.]), b, of(&[10., 20.]), of(&[5., 6.])];
    let got = gradients(&custom(2, scaled_by_captures(&[2])), &operands, &ty(Type::F64, &[2]), &of(&[1., 1.]));
    assert_eq!(got[1], [0., 0.]);
    assert_eq!(got[2], [5., 6.]);
}

#[test]
fn custom_grad_of_one_input_used_twice_adds_up() {
    let of = |numbers: &[f64]| tensor(Type::F64, &[2], numbers);
    let x = tracked(&of(&[3., 4.]));
    let operands = [of(&[7., 8.]), x.clone(), x, of(&[10., 20.]), of(&[5., 6.])];
    let got = gradients(&custom(2, scaled_by_captures(&[2])), &operands, &ty(Type::F64, &[2]), &of(&[1., 1.]));
    assert_eq!(got[1], [15., 26.]);
}

#[test]
fn a_gradient_of_the_wrong_shape_is_an_error() {
    let x = tracked(&tensor(Type::F64, &[2], &[1., 2.]));
    let wrong = Program { inputs: vec![ty(Type::F64, &[1])], instructions: vec![], outputs: vec![0] };
    let op = custom(1, wrong);
    let value = tensor(Type::F64, &[1], &[1.]);
    let backward = || gradients(&op, &[value.clone(), x.clone()], &ty(Type::F64, &[1]), &value);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(backward)).expect_err("must not be accepted");
    let error = panic.downcast_ref::<ex_burn_engine::Error>().expect("an error of the engine");
    assert_eq!(error.to_string(), "custom_grad: expected f64[2], got f64[1]");
}

#[test]
fn refuses_programs_that_do_not_fit() {
    let x = tensor(Type::F64, &[2], &[1., 2.]);
    let program = scaled_by_captures(&[2]);
    for (inputs, operands) in [(1usize, 4usize), (2, 4), (3, 5), (2, 1)] {
        let operands: Vec<Value> = std::iter::repeat_n(x.clone(), operands).collect();
        let message = error(custom(inputs, program.clone()), &operands, &x.ty());
        assert!(message.starts_with("custom_grad: "), "{message}");
    }
}
