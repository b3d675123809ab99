//! Parts of tensors: what is put together and taken apart again, and what is computed where it is read. The programs answer what
//! they did before.

use ex_burn_engine::program::{Axis, Binary, Dot, DynamicSlice, Fold, Op, Pad, Program, Slice, Unary, While};
use ex_burn_engine::{Type, Value, passes};

use crate::builder::{Builder, optimised, same};
use crate::tools::{iota, noise, numbers, tensor, ty};

const F32: Type = Type::F32;
const S32: Type = Type::S32;

/// The text of a program after one pass alone, and dead code away.
fn after(pass: &str, program: &Program) -> String {
    let keep = [pass, "dead_code"];
    let others: Vec<String> = passes::names().filter(|name| !keep.contains(name)).map(String::from).collect();
    passes::optimise(program, &others).expect("a valid program").to_string()
}

fn cut(b: &mut Builder, x: usize, starts: &[usize], lengths: &[usize]) -> usize {
    let attrs = Slice { starts: starts.to_vec(), lengths: lengths.to_vec(), strides: vec![1; starts.len()] };
    b.emit(Op::Slice(attrs), &[x], ty(F32, lengths))
}

fn random(seed: u64, shape: &[usize]) -> Value {
    let numbers = noise(seed, shape.iter().product(), 1000).into_iter().map(|n| n / 400.0).collect::<Vec<_>>();
    tensor(F32, shape, &numbers)
}

#[test]
fn a_part_of_a_stack_is_what_was_stacked() {
    let mut b = Builder::new(&[ty(F32, &[2, 3]), ty(F32, &[2, 3])]);
    let stack = b.emit(Op::Stack(Axis { axis: 1 }), &[0, 1], ty(F32, &[2, 2, 3]));
    let last = cut(&mut b, stack, &[0, 1, 0], &[2, 1, 3]);
    let piece = cut(&mut b, stack, &[0, 1, 1], &[2, 1, 2]);
    let program = b.finish(&[last, piece]);
    let text = after("layout", &program);
    assert!(text.contains("f32[2,1,3] = reshape(%1)") && text.contains("slice(%2)"), "{text}");
    same(&program, &[random(1, &[2, 3]), random(2, &[2, 3])]);
}

#[test]
fn a_part_of_a_joined_tensor_is_a_part_of_one_of_them() {
    let mut b = Builder::new(&[ty(F32, &[2, 3]), ty(F32, &[2, 4])]);
    let joined = b.emit(Op::Concatenate(Axis { axis: 1 }), &[0, 1], ty(F32, &[2, 7]));
    let second = cut(&mut b, joined, &[0, 3], &[2, 4]);
    let within = cut(&mut b, joined, &[1, 4], &[1, 2]);
    let of_both = cut(&mut b, joined, &[0, 2], &[2, 2]);
    let program = b.finish(&[second, within, of_both]);
    let text = after("layout", &program);
    assert!(text.contains("= slice(%1) {lengths: [1,2], starts: [1,1], strides: [1,1]}"), "{text}");
    assert!(text.contains("= slice(%2) {lengths: [2,2], starts: [0,2], strides: [1,1]}"), "{text}");
    assert!(text.contains("return %1, "), "{text}");
    same(&program, &[random(3, &[2, 3]), random(4, &[2, 4])]);
}

/// As the way back through a loop has it: one step of a sequence of zeros is a gradient.
#[test]
fn what_is_beside_a_written_part_does_not_wait_for_it() {
    let mut b = Builder::new(&[ty(F32, &[3, 1, 2]), ty(F32, &[3, 4, 2])]);
    let (zero, place) = (b.constant(S32, 0.0), b.constant(S32, 7.0));
    // A start beyond the last place is moved to it: the last step is written.
    let written = b.emit(Op::PutSlice, &[1, 0, zero, place, zero], ty(F32, &[3, 4, 2]));
    let last = cut(&mut b, written, &[0, 3, 0], &[3, 1, 2]);
    let first = cut(&mut b, written, &[0, 0, 0], &[3, 2, 2]);
    let row = cut(&mut b, written, &[2, 3, 1], &[1, 1, 1]);
    let both = cut(&mut b, written, &[0, 2, 0], &[3, 2, 2]);
    let program = b.finish(&[last, first, row, both]);
    let text = after("layout", &program);
    assert!(text.contains("= slice(%1) {lengths: [3,2,2], starts: [0,0,0]"), "{text}");
    assert!(text.contains("= slice(%0) {lengths: [1,1,1], starts: [2,0,1]"), "{text}");
    assert!(text.contains("= slice(%4) {lengths: [3,2,2], starts: [0,2,0]"), "{text}");
    assert!(text.contains("return %0, "), "{text}");
    same(&program, &[random(5, &[3, 1, 2]), random(6, &[3, 4, 2])]);
}

/// As the gradient of a sequence's last step has it: one step of a sequence padded with zeros.
#[test]
fn what_is_beside_a_padded_part_is_what_it_is_padded_with() {
    let mut b = Builder::new(&[ty(F32, &[3, 1, 2]), ty(F32, &[])]);
    let zero = b.constant(F32, 0.0);
    let config = vec![[0, 0, 0], [3, 1, 0], [0, 0, 0]];
    let whole = ty(F32, &[3, 5, 2]);
    let by_zero = b.emit(Op::Pad(Pad { config: config.clone() }), &[0, zero], whole.clone());
    let by_input = b.emit(Op::Pad(Pad { config }), &[0, 1], whole);
    let spread =
        b.emit(Op::Pad(Pad { config: vec![[0, 0, 0], [3, 0, 0], [0, 1, 1]] }), &[0, zero], ty(F32, &[3, 4, 4]));
    let part = cut(&mut b, by_zero, &[0, 3, 0], &[3, 1, 2]);
    let row = cut(&mut b, by_zero, &[2, 3, 1], &[1, 1, 1]);
    let first = cut(&mut b, by_zero, &[0, 1, 0], &[3, 2, 2]);
    let last = cut(&mut b, by_input, &[0, 4, 0], &[3, 1, 2]);
    let both = cut(&mut b, by_input, &[0, 2, 0], &[3, 2, 2]);
    let apart = cut(&mut b, spread, &[0, 3, 1], &[3, 1, 2]);
    let program = b.finish(&[part, row, first, last, both, apart]);
    let text = after("layout", &program);
    assert!(text.contains("= slice(%0) {lengths: [1,1,1], starts: [2,0,1]"), "{text}");
    assert!(text.contains("f32[3,2,2] = constant() {0.0}"), "{text}");
    assert!(text.contains("f32[3,1,2] = broadcast(%1)"), "{text}");
    assert!(text.matches("= pad(").count() == 2 && text.contains("return %0, "), "{text}");
    same(&program, &[random(7, &[3, 1, 2]), tensor(F32, &[], &[2.5])]);
}

#[test]
fn what_a_constant_chooses_is_known() {
    let mut b = Builder::new(&[ty(F32, &[3])]);
    let (never, always, half) = (b.constant(Type::U8, 0.0), b.constant(Type::U8, 1.0), b.constant(F32, 0.5));
    let kept = b.emit(Op::Select, &[never, half, 0], ty(F32, &[3]));
    let other = b.emit(Op::Select, &[always, half, 0], ty(F32, &[3]));
    let program = b.finish(&[kept, other]);
    let text = after("algebraic", &program);
    assert!(text.contains("return %0, %1") && text.contains("%1: f32[3] = constant() {0.5}"), "{text}");
    same(&program, &[random(7, &[3])]);
}

/// `tanh(x)` and what its gradient is multiplied by, with a product between forth and back.
fn forth_and_back(kept: bool) -> Program {
    let mut b = Builder::new(&[ty(F32, &[4, 4]), ty(F32, &[4, 4])]);
    let y = b.unary(Unary::Tanh, 0);
    let square = b.binary(Binary::Multiply, y, y);
    let one = b.constant(F32, 1.0);
    let one = b.broadcast(one, &[4, 4], &[]);
    let slope = b.binary(Binary::Subtract, one, square);
    let dot = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
    let product = b.emit(Op::Dot(dot), &[y, 1], ty(F32, &[4, 4]));
    let back = b.unary(Unary::Negate, product);
    let down = b.binary(Binary::Multiply, back, slope);
    b.finish(&if kept { vec![down, slope] } else { vec![down] })
}

#[test]
fn what_the_way_back_needs_of_a_function_is_computed_there() {
    let inputs = [random(14, &[4, 4]), random(15, &[4, 4])];
    let program = forth_and_back(false);
    let text = optimised(&program, &[]).to_string();
    assert!(text.contains("f32[4,4] = tanh(%0)\n  %3: f32[4,4] = dot(%2, %1)"), "{text}");
    same(&program, &inputs);
    // What is an output is made where it was.
    let program = forth_and_back(true);
    assert!(optimised(&program, &[]).to_string().contains("%2: f32[4,4], %3: f32[4,4] = fused(%0)"), "{program}");
    same(&program, &inputs);
}

/// A loop that reads a step of a sequence it captures, and answers the last one it has read.
#[test]
fn a_step_of_a_captured_sequence_stays_what_it_was() {
    let types = [ty(S32, &[]), ty(F32, &[1, 2]), ty(F32, &[1, 2]), ty(F32, &[8, 2])];
    let mut condition = Builder::new(&types);
    let end = condition.constant(S32, 8.0);
    let less = condition.emit(Op::Binary(Binary::Less), &[0, end], ty(Type::U8, &[]));
    let mut body = Builder::new(&types);
    let (one, zero) = (body.constant(S32, 1.0), body.constant(S32, 0.0));
    let next = body.binary(Binary::Add, 0, one);
    let part = DynamicSlice { lengths: vec![1, 2], strides: vec![1, 1] };
    let x = body.emit(Op::DynamicSlice(part), &[3, 0, zero], ty(F32, &[1, 2]));
    let doubled = body.binary(Binary::Add, x, x);
    let sum = body.binary(Binary::Add, 1, doubled);
    let attrs = While { condition: condition.finish(&[less]), body: body.finish(&[next, sum, x]) };
    let mut b = Builder::new(&types[1..]);
    let start = b.constant(S32, 0.0);
    let operands = [start, 0, 1, 2];
    let outputs = types[..3].to_vec();
    let first = b.all(Op::While(attrs), &operands, &outputs);
    let total = b.reduce(Fold::Sum, first + 1, &[0], false);
    let program = b.finish(&[total, first + 2]);
    let got = same(&program, &[tensor(F32, &[1, 2], &[0.0, 1.0]), random(16, &[1, 2]), iota(F32, &[8, 2])]);
    assert_eq!(numbers(&got[0]), [2.0 * 56.0, 2.0 * 64.0 + 1.0]);
    assert_eq!(numbers(&got[1]), [14.0, 15.0]);
}
