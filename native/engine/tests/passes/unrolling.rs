//! Loops that become their iterations.

use ex_burn_engine::exec::Executable;
use ex_burn_engine::program::{Axes, Binary, Dot, DynamicSlice, Op, Program, While};
use ex_burn_engine::{Device, Type};

use crate::builder::{Builder, optimised, same};
use crate::tools::{exact, integers, numbers, tensor, ty};

const F32: Type = Type::F32;
const U8: Type = Type::U8;
const S32: Type = Type::S32;

/// `while i < end, do: {i + 1, step(i, x)}`, whose operands are the number, a value of `shape`, and captures.
fn counting(end: f64, captures: &[ex_burn_engine::TensorType], x: (Type, &[usize]), step: Step) -> Op {
    let inputs = [&[ty(S32, &[]), ty(x.0, x.1)], captures].concat();
    let mut condition = Builder::new(&inputs);
    let end = condition.constant(S32, end);
    let goes_on = condition.emit(Op::Binary(Binary::Less), &[0, end], ty(U8, &[]));
    let mut body = Builder::new(&inputs);
    let one = body.constant(S32, 1.0);
    let next = body.binary(Binary::Add, 0, one);
    let x = step(&mut body);
    Op::While(While { condition: condition.finish(&[goes_on]), body: body.finish(&[next, x]) })
}

type Step = fn(&mut Builder) -> usize;

/// The loop from 0 on over the last input, with its result.
fn looping(op: Op, inputs: &[ex_burn_engine::TensorType], operands: &[usize]) -> Program {
    let mut b = Builder::new(inputs);
    let zero = b.constant(S32, 0.0);
    let state = [ty(S32, &[]), inputs[0].clone()];
    let all = b.all(op, &[&[zero], operands].concat(), &state);
    b.finish(&[all, all + 1])
}

fn has_loop(program: &Program) -> bool {
    program.instructions.iter().any(|instruction| matches!(instruction.op, Op::While(_)))
}

/// x * x + i
fn square(b: &mut Builder) -> usize {
    let number = b.emit(Op::Cast, &[0], ty(F32, &[]));
    let square = b.binary(Binary::Multiply, 1, 1);
    b.binary(Binary::Add, square, number)
}

#[test]
fn a_loop_of_known_length_becomes_its_iterations() {
    let vector = [ty(F32, &[2])];
    let program = looping(counting(4.0, &[], (F32, &[2]), square), &vector, &[0]);
    assert!(!has_loop(&optimised(&program, &[])) && has_loop(&optimised(&program, &["unrolling"])));
    let got = same(&program, &[tensor(F32, &[2], &[1.0, -2.0])]);
    // 1, 1, 2, 6, 39 and -2, 4, 17, 291, 84684.
    assert_eq!(got.iter().map(numbers).collect::<Vec<_>>(), [vec![4.0], vec![39.0, 84684.0]]);
}

#[test]
fn a_loop_that_never_begins_is_what_it_was_given() {
    let program = looping(counting(0.0, &[], (F32, &[2]), square), &[ty(F32, &[2])], &[0]);
    assert!(!has_loop(&optimised(&program, &[])));
    let got = same(&program, &[tensor(F32, &[2], &[1.0, -2.0])]);
    assert_eq!(got.iter().map(numbers).collect::<Vec<_>>(), [vec![0.0], vec![1.0, -2.0]]);
}

#[test]
fn loops_that_are_long_or_heavy_or_of_unknown_length_stay() {
    let long = looping(counting(1e6, &[], (F32, &[2]), square), &[ty(F32, &[2])], &[0]);
    let matrix: Step = |b| {
        let dot = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
        b.emit(Op::Dot(dot), &[1, 1], ty(F32, &[2, 2]))
    };
    let heavy = looping(counting(3.0, &[], (F32, &[2, 2]), matrix), &[ty(F32, &[2, 2])], &[0]);
    let mut b = Builder::new(&[ty(S32, &[]), ty(F32, &[2])]);
    let all = b.all(counting(4.0, &[], (F32, &[2]), square), &[0, 1], &[ty(S32, &[]), ty(F32, &[2])]);
    let unknown = b.finish(&[all + 1]);
    assert!([&long, &heavy, &unknown].into_iter().all(|program| has_loop(&optimised(program, &[]))));
}

/// Compiling takes time as the length of the program, so there is an end to it.
#[test]
fn of_many_loops_the_first_ones_are_unrolled() {
    let vector = ty(F32, &[2]);
    let mut b = Builder::new(std::slice::from_ref(&vector));
    let zero = b.constant(S32, 0.0);
    let mut x = 0;
    for _ in 0..200 {
        x = b.all(counting(60.0, &[], (F32, &[2]), square), &[zero, x], &[ty(S32, &[]), vector.clone()]) + 1;
    }
    let program = optimised(&b.finish(&[x]), &["fusion"]);
    let loops = program.instructions.iter().filter(|instruction| matches!(instruction.op, Op::While(_))).count();
    let count = program.instructions.len();
    assert!((1..200).contains(&loops) && (10_000..25_000).contains(&count), "{loops} loops, {count} instructions");
}

/// What they compute is constant, so that nothing is left of their iterations by which to count them.
#[test]
fn endless_loops_of_constants_stay() {
    let state = [ty(U8, &[]), ty(F32, &[2])];
    let whole = |outputs: &[usize]| Builder::new(&state).finish(outputs);
    let mut body = Builder::new(&state);
    let goes_on = body.binary(Binary::BitwiseOr, 0, 0);
    for body in [whole(&[0, 1]), body.finish(&[goes_on, 1])] {
        let mut b = Builder::new(&[ty(F32, &[2])]);
        let goes_on = b.constant(U8, 1.0);
        let all = b.all(Op::While(While { condition: whole(&[0]), body }), &[goes_on, 0], &state);
        assert!(has_loop(&optimised(&b.finish(&[all + 1]), &[])));
    }
}

/// x shifted by element i of a table, in a loop in a loop.
#[test]
fn elements_of_captured_tensors_become_constants() {
    let table = ty(U8, &[4]);
    let rotate: Step = |b| {
        let slice = DynamicSlice { lengths: vec![1], strides: vec![1] };
        let one = b.emit(Op::DynamicSlice(slice), &[2, 0], ty(U8, &[1]));
        let shift = b.reshape(one, &[]);
        let shift = b.emit(Op::Cast, &[shift], ty(Type::U32, &[]));
        b.binary(Binary::LeftShift, 1, shift)
    };
    let types = [ty(Type::U32, &[3]), table.clone()];
    let inner = counting(4.0, std::slice::from_ref(&table), (Type::U32, &[3]), rotate);
    for has_reverse in [false, true] {
        let mut body = Builder::new(&[ty(S32, &[]), types[0].clone(), table.clone()]);
        let (zero, one) = (body.constant(S32, 0.0), body.constant(S32, 1.0));
        let next = body.binary(Binary::Add, 0, one);
        let mut x = body.all(inner.clone(), &[zero, 1, 2], &[ty(S32, &[]), types[0].clone()]) + 1;
        if has_reverse {
            x = body.emit(Op::Reverse(Axes { axes: vec![0] }), &[x], types[0].clone());
        }
        let outer = counting(2.0, std::slice::from_ref(&table), (Type::U32, &[3]), |_| 1);
        let Op::While(outer) = outer else { panic!("{outer} is a loop") };
        let outer = While { body: body.finish(&[next, x]), ..outer };
        let program = looping(Op::While(outer), &types, &[0, 1]);
        let captured = integers(U8, &[1, 0, 2, 1]);
        let executable = Executable::optimised(&program, vec![captured.clone()], &[]).expect("a valid program");
        // What is reversed in between is no elementwise operation: the outer loop stays, and knows no elements.
        assert_eq!(has_loop(executable.program()), has_reverse, "{}", executable.text());
        assert_eq!(executable.text().contains("slice"), has_reverse, "{}", executable.text());
        let x = integers(Type::U32, &[1, 5, 1 << 31]);
        let got = executable.run(vec![x.clone()], &Device::Cpu).expect("it runs");
        assert_eq!(exact(&got[1]), [256, 1280, 0]);
        assert_eq!(exact(&same(&program, &[x, captured])[1]), [256, 1280, 0]);
    }
}
