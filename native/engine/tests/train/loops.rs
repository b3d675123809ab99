//! Gradients through loops, which are compared with those that plain loops over numbers compute.

use std::sync::Arc;

use ex_burn_engine::exec::Executable;
use ex_burn_engine::program::{Binary, Cond, Constant, DynamicSlice, Instruction, Op, Program, Unary, While};
use ex_burn_engine::train::{Pass, gradients};
use ex_burn_engine::{Device, TensorType, Type, Value, scalar};

use crate::linear::{assert_close, elements, sum, tensor};

const F64: Type = Type::F64;

fn ty(dtype: Type, shape: &[usize]) -> TensorType {
    TensorType::new(dtype, shape)
}

/// A program that grows; its methods answer ids.
struct Build(Program);

impl Build {
    fn new(inputs: &[TensorType]) -> Self {
        Self(Program { inputs: inputs.to_vec(), ..Program::default() })
    }

    fn all(&mut self, op: Op, inputs: &[usize], outputs: &[TensorType]) -> usize {
        let first = self.0.value_types().len();
        self.0.instructions.push(Instruction { op, inputs: inputs.to_vec(), outputs: outputs.to_vec() });
        first
    }

    fn one(&mut self, op: Op, inputs: &[usize], dtype: Type, shape: &[usize]) -> usize {
        self.all(op, inputs, &[ty(dtype, shape)])
    }

    /// Of the type of the left operand.
    fn binary(&mut self, op: Binary, left: usize, right: usize) -> usize {
        let ty = self.0.value_types()[left].clone();
        let dtype = if op.is_predicate() { Type::U8 } else { ty.dtype };
        self.one(Op::Binary(op), &[left, right], dtype, &ty.shape)
    }

    fn tanh(&mut self, x: usize) -> usize {
        let ty = self.0.value_types()[x].clone();
        self.one(Op::Unary(Unary::Tanh), &[x], ty.dtype, &ty.shape)
    }

    fn number(&mut self, dtype: Type, number: f64) -> usize {
        self.one(Op::Constant(Constant { bytes: scalar::from_f64(dtype, number) }), &[], dtype, &[])
    }

    fn with(&mut self, op: Binary, x: usize, number: f64) -> usize {
        let dtype = self.0.value_types()[x].dtype;
        let number = self.number(dtype, number);
        self.binary(op, x, number)
    }

    /// A loop over these operands.
    fn repeat(&mut self, operands: &[usize], states: usize, condition: Build, body: Build) -> usize {
        let types: Vec<TensorType> = operands.iter().map(|&id| self.0.value_types()[id].clone()).collect();
        let attrs = While { condition: condition.0, body: body.0 };
        self.all(Op::While(attrs), operands, &types[..states])
    }

    fn done(mut self, outputs: &[usize]) -> Self {
        self.0.outputs = outputs.to_vec();
        self
    }
}

/// The gradients of the program, optimised as those of users are.
fn pass(program: Build, params: usize, inputs: &[Value]) -> Pass {
    let program = Arc::new(Executable::optimised(&program.0, vec![], &[]).expect("a good program"));
    gradients(&program, params, inputs.to_vec(), &Device::Cpu).expect("gradients")
}

/// Loss and gradients are one program: Burn's tape takes time for the way back.
fn assert_program(pass: &Pass) {
    assert!(pass.times[1].is_zero(), "followed by the tape");
}

/// `i < rounds` and the like.
fn compare(types: &[TensorType], op: Binary, bound: f64) -> Build {
    let mut b = Build::new(types);
    let test = b.with(op, 0, bound);
    b.done(&[test])
}

/// `x = tanh(x * w)` from `x` on while `test(i, bound)`, where `i` starts from `start` and `step` is added; then the sum.
fn powers(dtype: Type, counter: Type, [start, step, bound]: [f64; 3], test: Binary) -> Build {
    let types = [ty(counter, &[]), ty(dtype, &[2]), ty(dtype, &[2])];
    let mut body = Build::new(&types);
    let next = body.with(Binary::Add, 0, step);
    let product = body.binary(Binary::Multiply, 1, 2);
    let result = body.tanh(product);
    let mut b = Build::new(&types[1..]);
    let i = b.number(counter, start);
    let first = b.repeat(&[i, 0, 1], 2, compare(&types, test, bound), body.done(&[next, result]));
    let loss = b.one(sum(), &[first + 1], dtype, &[]);
    b.done(&[loss])
}

const X: [f64; 2] = [0.7, -1.1];
const W: [f64; 2] = [1.3, 0.9];

/// The gradients of `x` and `w` after so many rounds.
fn derived(rounds: usize) -> [Vec<f64>; 2] {
    let (mut by_x, mut by_w) = (vec![], vec![]);
    for (x, w) in X.into_iter().zip(W) {
        let mut states = vec![x];
        (0..rounds).for_each(|i| states.push((states[i] * w).tanh()));
        let (mut g, mut of_w) = (1.0, 0.0);
        for i in (0..rounds).rev() {
            let slope = g * (1.0 - states[i + 1] * states[i + 1]);
            (g, of_w) = (slope * w, of_w + slope * states[i]);
        }
        by_x.push(g);
        by_w.push(of_w);
    }
    [by_x, by_w]
}

#[test]
fn a_loop_has_the_gradient_of_its_iterations_in_every_float_type() {
    for (dtype, tolerance) in [(F64, 1e-14), (Type::F32, 1e-6), (Type::F16, 1e-2), (Type::BF16, 5e-2)] {
        for rounds in [0, 1, 2, 7] {
            let program = powers(dtype, Type::S32, [0.0, 1.0, rounds as f64], Binary::Less);
            let pass = pass(program, 2, &[tensor(dtype, &[2], &X), tensor(dtype, &[2], &W)]);
            assert_program(&pass);
            for (got, want) in pass.gradients.iter().zip(derived(rounds)) {
                assert_eq!(got.dtype(), dtype);
                assert_close(&elements(got), &want, tolerance);
            }
        }
    }
}

#[test]
fn counters_may_start_anywhere_and_go_in_steps_up_or_down() {
    let up = [[3.0, 2.0, 10.0], [3.0, 2.0, 9.0]];
    let counts = [
        (Type::U8, up[0], Binary::Less, 4),
        (Type::S64, up[1], Binary::Less, 3),
        (Type::U32, up[1], Binary::LessEqual, 4),
        (Type::S16, [5.0, -1.0, 0.0], Binary::Greater, 5),
        (Type::S8, [5.0, -2.0, -1.0], Binary::GreaterEqual, 4),
        (Type::S32, [-2.0, 3.0, 7.0], Binary::NotEqual, 3),
    ];
    for (counter, numbers, test, rounds) in counts {
        let pass = pass(powers(F64, counter, numbers, test), 2, &[tensor(F64, &[2], &X), tensor(F64, &[2], &W)]);
        assert_program(&pass);
        let want = derived(rounds);
        assert_close(&elements(&pass.gradients[0]), &want[0], 1e-14);
        assert_close(&elements(&pass.gradients[1]), &want[1], 1e-14);
    }
}

/// A round that counts, and makes `x = tanh(x * w)`.
fn tanh_of_product(types: &[TensorType]) -> Build {
    let mut body = Build::new(types);
    let next = body.with(Binary::Add, 0, 1.0);
    let product = body.binary(Binary::Multiply, 1, 2);
    let result = body.tanh(product);
    body.done(&[next, result])
}

/// `x = tanh(x * w)` for at most 20 rounds, while the sum of the squares is above 0.8.
#[test]
fn a_loop_may_end_before_it_must() {
    let types = [ty(Type::S32, &[]), ty(F64, &[2]), ty(F64, &[2])];
    let mut condition = Build::new(&types);
    let squares = condition.binary(Binary::Multiply, 1, 1);
    let total = condition.one(sum(), &[squares], F64, &[]);
    let [large, few] = [condition.with(Binary::Greater, total, 0.8), condition.with(Binary::Less, 0, 20.0)];
    let both = condition.binary(Binary::LogicalAnd, large, few);
    let mut b = Build::new(&types[1..]);
    let i = b.number(Type::S32, 0.0);
    let first = b.repeat(&[i, 0, 1], 2, condition.done(&[both]), tanh_of_product(&types));
    let loss = b.one(sum(), &[first + 1], F64, &[]);
    let pass = pass(b.done(&[loss, first]), 2, &[tensor(F64, &[2], &X), tensor(F64, &[2], &W)]);
    assert_program(&pass);
    let rounds = elements(&pass.outputs[1])[0];
    assert!(rounds > 1.0 && rounds < 20.0, "{rounds} rounds");
    let want = derived(rounds as usize);
    assert_close(&elements(&pass.gradients[0]), &want[0], 1e-14);
    assert_close(&elements(&pass.gradients[1]), &want[1], 1e-14);
}

/// How many rounds there are is a number that the program takes.
#[test]
fn a_loop_without_a_known_end_is_followed_by_the_tape() {
    let types = [ty(Type::S32, &[]), ty(F64, &[2]), ty(F64, &[2]), ty(Type::S32, &[])];
    let mut condition = Build::new(&types);
    let less = condition.binary(Binary::Less, 0, 3);
    let mut b = Build::new(&types[1..]);
    let i = b.number(Type::S32, 0.0);
    let first = b.repeat(&[i, 0, 1, 2], 2, condition.done(&[less]), tanh_of_product(&types));
    let loss = b.one(sum(), &[first + 1], F64, &[]);
    let rounds = tensor(Type::S32, &[], &[5.0]);
    let pass = pass(b.done(&[loss]), 2, &[tensor(F64, &[2], &X), tensor(F64, &[2], &W), rounds]);
    assert!(!pass.times[1].is_zero());
    let want = derived(5);
    assert_close(&elements(&pass.gradients[0]), &want[0], 1e-14);
    assert_close(&elements(&pass.gradients[1]), &want[1], 1e-14);
}

const STEPS: usize = 6;

fn row() -> Op {
    Op::DynamicSlice(DynamicSlice { lengths: vec![1, 2], strides: vec![1, 1] })
}

/// Through a sequence: `y[i + 1] = tanh(y[i] * w + x[i])`. All of it is state, as Axon writes it, and what was written is read
/// again.
fn recurrent(dtype: Type) -> Build {
    let types = [ty(Type::S32, &[]), ty(dtype, &[STEPS + 1, 2]), ty(dtype, &[STEPS, 2]), ty(dtype, &[2])];
    let mut body = Build::new(&types);
    let zero = body.number(Type::S32, 0.0);
    let next = body.with(Binary::Add, 0, 1.0);
    let before = body.one(row(), &[1, 0, zero], dtype, &[1, 2]);
    let x = body.one(row(), &[2, 0, zero], dtype, &[1, 2]);
    let product = body.binary(Binary::Multiply, before, 3);
    let sums = body.binary(Binary::Add, product, x);
    let h = body.tanh(sums);
    let written = body.one(Op::PutSlice, &[1, h, next, zero], dtype, &[STEPS + 1, 2]);
    let body = body.done(&[next, written, 2, 3]);
    let mut b = Build::new(&types[1..]);
    let i = b.number(Type::S32, 0.0);
    let operands = [i, 0, 1, 2];
    let first = b.repeat(&operands, 4, compare(&types, Binary::Less, STEPS as f64), body);
    let weighted = b.binary(Binary::Multiply, first + 1, first + 1);
    let loss = b.one(sum(), &[weighted], dtype, &[]);
    b.done(&[loss])
}

/// The gradients of the first `y`, of `x` and of `w`, of the sum of the squares of `y`.
fn of_recurrent(y: &[f64], x: &[f64], w: &[f64]) -> [Vec<f64>; 3] {
    let mut all = y.to_vec();
    for at in 2..all.len() {
        all[at] = (all[at - 2] * w[at % 2] + x[at - 2]).tanh();
    }
    let mut g: Vec<f64> = all.iter().map(|y| 2.0 * y).collect();
    let (mut of_x, mut of_w) = (vec![0.0; x.len()], vec![0.0; 2]);
    for at in (2..all.len()).rev() {
        let slope = g[at] * (1.0 - all[at] * all[at]);
        of_x[at - 2] = slope;
        of_w[at % 2] += slope * all[at - 2];
        g[at - 2] += slope * w[at % 2];
        g[at] = 0.0;
    }
    [g, of_x, of_w]
}

#[test]
fn sequences_are_read_and_written_row_by_row() {
    let number = |i: usize| (i * i % 7) as f64 / 4.0 - 0.7;
    let (y, x): (Vec<f64>, Vec<f64>) =
        ((1..=2 * STEPS + 2).map(number).collect(), (5..2 * STEPS + 5).map(number).collect());
    let want = of_recurrent(&y, &x, &W);
    for (dtype, tolerance) in [(F64, 1e-14), (Type::F32, 1e-6), (Type::BF16, 5e-2)] {
        let inputs = [tensor(dtype, &[STEPS + 1, 2], &y), tensor(dtype, &[STEPS, 2], &x), tensor(dtype, &[2], &W)];
        let pass = pass(recurrent(dtype), 3, &inputs);
        assert_program(&pass);
        for (got, want) in pass.gradients.iter().zip(&want) {
            assert_close(&elements(got), want, tolerance);
        }
    }
}

/// `x = x * w` three times in each of four rounds, in which `w` grows by 0.1: the loss is the sum of `x w^3 (w + 0.1)^3 ...`.
#[test]
fn loops_in_loops_have_gradients() {
    let types = [ty(Type::S32, &[]), ty(F64, &[2]), ty(F64, &[2])];
    let count = |bound| compare(&types, Binary::Less, bound);
    let mut inner = Build::new(&types);
    let next = inner.with(Binary::Add, 0, 1.0);
    let product = inner.binary(Binary::Multiply, 1, 2);
    let inner = inner.done(&[next, product]);
    let mut outer = Build::new(&types);
    let next = outer.with(Binary::Add, 0, 1.0);
    let i = outer.number(Type::S32, 0.0);
    let first = outer.repeat(&[i, 1, 2], 2, count(3.0), inner);
    let grown = outer.with(Binary::Add, 2, 0.1);
    let outer = outer.done(&[next, first + 1, grown]);
    let mut b = Build::new(&types[1..]);
    let i = b.number(Type::S32, 0.0);
    let first = b.repeat(&[i, 0, 1], 3, count(4.0), outer);
    let loss = b.one(sum(), &[first + 1], F64, &[]);
    let pass = pass(b.done(&[loss]), 2, &[tensor(F64, &[2], &X), tensor(F64, &[2], &W)]);
    assert_program(&pass);
    let factors = W.map(|w| (0..4).map(|round| w + 0.1 * f64::from(round)).collect::<Vec<f64>>());
    let products: Vec<f64> = factors.iter().map(|of| of.iter().map(|w| w.powi(3)).product()).collect();
    let slopes = (0..2).map(|at| X[at] * products[at] * factors[at].iter().map(|w| 3.0 / w).sum::<f64>());
    assert_close(&elements(&pass.gradients[0]), &products, 1e-13);
    assert_close(&elements(&pass.gradients[1]), &slopes.collect::<Vec<_>>(), 1e-12);
}

/// `x = if i is 1 or 3 { x * w } else { tanh(x) }` for `i` below 5.
#[test]
fn branches_in_loops_have_gradients() {
    let types = [ty(Type::S32, &[]), ty(F64, &[2]), ty(F64, &[2])];
    let mut predicate = Build::new(&types);
    let odd = predicate.with(Binary::Remainder, 0, 2.0);
    let mut product = Build::new(&types);
    let times = product.binary(Binary::Multiply, 1, 2);
    let mut tanh = Build::new(&types);
    let bent = tanh.tanh(1);
    let branches = vec![product.done(&[times]).0, tanh.done(&[bent]).0];
    let cond = Op::Cond(Cond { predicates: vec![predicate.done(&[odd]).0], branches });
    let mut body = Build::new(&types);
    let next = body.with(Binary::Add, 0, 1.0);
    let result = body.one(cond, &[0, 1, 2], F64, &[2]);
    let mut b = Build::new(&types[1..]);
    let i = b.number(Type::S32, 0.0);
    let condition = compare(&types, Binary::Less, 5.0);
    let first = b.repeat(&[i, 0, 1], 2, condition, body.done(&[next, result]));
    let loss = b.one(sum(), &[first + 1], F64, &[]);
    let pass = pass(b.done(&[loss]), 2, &[tensor(F64, &[2], &X), tensor(F64, &[2], &W)]);
    assert_program(&pass);
    let of = |x: f64, w: f64| {
        let (mut x, mut by_x, mut by_w) = (x, 1.0, 0.0);
        for i in 0..5 {
            (x, by_x, by_w) = if i % 2 == 1 {
                (x * w, by_x * w, by_w * w + x)
            } else {
                let slope = 1.0 - x.tanh() * x.tanh();
                (x.tanh(), by_x * slope, by_w * slope)
            };
        }
        [by_x, by_w]
    };
    let want: Vec<[f64; 2]> = X.iter().zip(W).map(|(&x, w)| of(x, w)).collect();
    for (number, gradient) in pass.gradients.iter().enumerate() {
        assert_close(&elements(gradient), &[want[0][number], want[1][number]], 1e-14);
    }
}
