//! Loops whose rows go their own way: which are cut in blocks of rows, and what they answer.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ex_burn_engine::exec::{Plan, stoppable};
use ex_burn_engine::program::{
    Binary, Callback, Dot, DynamicSlice, Fold, Instruction, Op, Program, Slice, Unary, While,
};
use ex_burn_engine::{Device, TensorType, Type, Value, passes};

use crate::builder::{Builder, names, optimised, run};
use crate::tools::{assert_close, noise, numbers, tensor, ty};

const UNITS: usize = 64;

/// What a loop's body does to its rows besides.
type More = fn(&mut Builder, usize) -> usize;

fn nothing(_: &mut Builder, h: usize) -> usize {
    h
}

/// `h = tanh(x[i] + h w)` for `i` from 0 below 3, and `h` of each step. The state is `i`, `h`, the steps; `x` and `w` stay.
fn recurrent(dtype: Type, rows: usize, more: More) -> Program {
    let [state, steps] = [ty(dtype, &[rows, UNITS]), ty(dtype, &[3, rows, UNITS])];
    let types = [ty(Type::S32, &[]), state.clone(), steps.clone(), steps, ty(dtype, &[UNITS, UNITS])];
    let mut condition = Builder::new(&types);
    let bound = condition.constant(Type::S32, 3.0);
    let less = condition.emit(Op::Binary(Binary::Less), &[0, bound], ty(Type::U8, &[]));
    let mut body = Builder::new(&types);
    let (zero, one) = (body.constant(Type::S32, 0.0), body.constant(Type::S32, 1.0));
    let lengths = vec![1, rows, UNITS];
    let part = ty(dtype, &lengths);
    let cut = Op::DynamicSlice(DynamicSlice { lengths, strides: vec![1; 3] });
    let x = body.emit(cut, &[3, 0, zero, zero], part);
    let x = body.reshape(x, &state.shape);
    let dot = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
    let product = body.emit(Op::Dot(dot), &[1, 4], state);
    let sum = body.binary(Binary::Add, x, product);
    let h = body.unary(Unary::Tanh, sum);
    let h = more(&mut body, h);
    let row = body.reshape(h, &[1, rows, UNITS]);
    let steps = body.emit(Op::PutSlice, &[2, row, 0, zero, zero], types[2].clone());
    let next = body.binary(Binary::Add, 0, one);
    around(&types, condition.finish(&[less]), body.finish(&[next, h, steps, 3, 4]))
}

/// The program that answers `h` and the steps of a loop.
fn around(types: &[TensorType], condition: Program, body: Program) -> Program {
    let mut b = Builder::new(&types[1..]);
    let start = b.constant(Type::S32, 0.0);
    let mut program = b.finish(&[]);
    let inputs = vec![start, 0, 1, 2, 3];
    program.instructions.push(Instruction {
        op: Op::While(While { condition, body }),
        inputs,
        outputs: types.to_vec(),
    });
    Program { outputs: vec![start + 2, start + 3], ..program }
}

fn operands(dtype: Type, rows: usize) -> Vec<Value> {
    let shapes: [&[usize]; 4] = [&[rows, UNITS], &[3, rows, UNITS], &[3, rows, UNITS], &[UNITS, UNITS]];
    let value = |(seed, shape): (u64, &[usize])| {
        let numbers: Vec<f64> = noise(seed, shape.iter().product(), 1000).iter().map(|n| n / 8000.0).collect();
        tensor(dtype, shape, &numbers)
    };
    (1..).zip(shapes).map(value).collect()
}

/// The same by loops over numbers: `h` and the steps.
fn expected(inputs: &[Value], rows: usize) -> [Vec<f64>; 2] {
    let [mut h, _, x, w] = [0, 1, 2, 3].map(|i: usize| numbers(&inputs[i]));
    let mut steps = vec![];
    for step in x.chunks(rows * UNITS) {
        let sum = |row: usize, j: usize| (0..UNITS).map(|k| h[row * UNITS + k] * w[k * UNITS + j]).sum::<f64>();
        h = (0..rows * UNITS).map(|at| (step[at] + sum(at / UNITS, at % UNITS)).tanh()).collect();
        steps.extend_from_slice(&h);
    }
    [h, steps]
}

/// The program after this pass alone.
fn cut(program: &Program) -> Program {
    let others: Vec<String> = passes::names().filter(|name| *name != "rows").map(String::from).collect();
    passes::optimise(program, &others).expect("a valid program")
}

#[test]
fn each_block_of_rows_runs_through_all_steps() {
    for (rows, blocks, block) in [(16, 2, 8), (32, 2, 16), (36, 3, 12), (80, 5, 16)] {
        let program = recurrent(Type::F64, rows, nothing);
        assert_eq!(names(&cut(&program)), ["constant", "rows"]);
        let text = cut(&program).to_string();
        assert!(
            text.contains(&format!("{{blocks: {blocks}, operands: [null,0,1,1,null], results: [null,0,1,1,null]}}")),
            "{text}"
        );
        assert!(text.contains(&format!("f64[{block},64] = dot(%1, %4)")), "{text}");
        assert!(text.contains(&format!("f64[{rows},64] = dot(%1, %4)")), "{text}");
    }
}

#[test]
fn blocks_answer_what_the_loop_answers() {
    for (dtype, tolerance) in [(Type::F64, 1e-12), (Type::F32, 1e-5)] {
        for rows in [16, 32, 36, 80] {
            let (program, inputs) = (recurrent(dtype, rows, nothing), operands(dtype, rows));
            let want = expected(&inputs, rows);
            for fast in [optimised(&program, &[]), cut(&program), optimised(&program, &["rows"])] {
                for (got, want) in run(&fast, &inputs).iter().zip(&want) {
                    assert_close("rows", &numbers(got), want, tolerance);
                }
            }
        }
    }
}

#[test]
fn rows_that_read_each_other_stay_together() {
    let mean: More = |b, h| {
        let sum = b.reduce(Fold::Sum, h, &[0], true);
        b.binary(Binary::Subtract, h, sum)
    };
    let turned: More = |b, h| {
        let reversed =
            b.emit(Op::Reverse(ex_burn_engine::program::Axes { axes: vec![0] }), &[h], ty(Type::F64, &[32, UNITS]));
        b.binary(Binary::Add, h, reversed)
    };
    for more in [mean, turned] {
        assert_eq!(names(&cut(&recurrent(Type::F64, 32, more))), ["constant", "while"]);
    }
    // Sums along a row read no other.
    let shares: More = |b, h| {
        let sum = b.reduce(Fold::Max, h, &[1], true);
        b.binary(Binary::Subtract, h, sum)
    };
    assert_eq!(names(&cut(&recurrent(Type::F64, 32, shares))), ["constant", "rows"]);
}

#[test]
fn too_few_rows_and_rows_that_no_block_divides_stay() {
    for rows in [8, 15, 37] {
        assert_eq!(names(&cut(&recurrent(Type::F64, rows, nothing))), ["constant", "while"], "{rows}");
    }
}

#[test]
fn a_condition_that_reads_rows_keeps_the_loop_whole() {
    let mut program = recurrent(Type::F64, 32, nothing);
    let Op::While(attrs) = &mut program.instructions[1].op else { panic!("a loop") };
    let mut condition = Builder::new(&attrs.condition.inputs);
    let most = condition.reduce(Fold::Max, 1, &[0, 1], false);
    let bound = condition.constant(Type::F64, 0.5);
    let less = condition.emit(Op::Binary(Binary::Less), &[most, bound], ty(Type::U8, &[]));
    attrs.condition = condition.finish(&[less]);
    assert_eq!(names(&cut(&program)), ["constant", "while"]);
}

#[test]
fn a_loop_that_calls_into_the_host_stays_whole() {
    let calls: More = |b, h| {
        b.emit(Op::RuntimeCall(Callback { id: 1 }), &[0], ty(Type::S32, &[]));
        h
    };
    assert_eq!(names(&cut(&recurrent(Type::F64, 32, calls))), ["constant", "while"]);
}

#[test]
fn blocks_end_when_their_run_is_stopped() {
    let plan = Plan::new(&cut(&recurrent(Type::F64, 32, nothing))).expect("a valid program");
    let stop = Arc::new(AtomicBool::new(true));
    let error = stoppable(&stop, || plan.run(operands(Type::F64, 32), &Device::Cpu)).expect_err("stopped");
    assert!(error.to_string().contains("its caller has ended"), "{error}");
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    let whole = cut(&recurrent(Type::F64, 32, nothing));
    let broken = |change: fn(&mut ex_burn_engine::program::Rows)| {
        let mut program = whole.clone();
        let Op::Rows(rows) = &mut program.instructions[1].op else { panic!("rows") };
        change(rows);
        program.check().expect_err("it does not fit").to_string()
    };
    assert!(broken(|rows| rows.blocks = 5).contains("can't be cut in 5 blocks along axis 0"));
    assert!(broken(|rows| rows.blocks = 0).contains("can't be cut in 0 blocks"));
    assert!(broken(|rows| rows.blocks = 4).contains("a block takes"));
    assert!(broken(|rows| rows.operands[1] = Some(2)).contains("along axis 2"));
    assert!(broken(|rows| rows.results.truncate(rows.results.len() - 1)).contains("there are axes of 4 values, not 5"));
}

/// `h = tanh(x[i] + h w + 1)` for so many steps one by one; `h`, its sums over all rows, and `h` without these.
fn unrolled(rows: usize, steps: usize) -> Program {
    let state = ty(Type::F64, &[rows, UNITS]);
    let [all, matrix, bias] = [vec![steps, rows, UNITS], vec![UNITS, UNITS], vec![UNITS]].map(|s| ty(Type::F64, &s));
    let mut b = Builder::new(&[state.clone(), all, matrix, bias]);
    let one = b.constant(Type::F64, 1.0);
    let ones = b.broadcast(one, &state.shape, &[]);
    let mut h = 0;
    for step in 0..steps {
        let (starts, lengths) = (vec![step, 0, 0], vec![1, rows, UNITS]);
        let part = ty(Type::F64, &lengths);
        let x = b.emit(Op::Slice(Slice { starts, lengths, strides: vec![1; 3] }), &[1], part);
        let x = b.reshape(x, &state.shape);
        let x = b.binary(Binary::Add, x, 3);
        let dot = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
        let product = b.emit(Op::Dot(dot), &[h, 2], state.clone());
        let sum = b.binary(Binary::Add, product, x);
        let raised = b.binary(Binary::Add, sum, ones);
        h = b.unary(Unary::Tanh, raised);
    }
    let sums = b.reduce(Fold::Sum, h, &[0], false);
    let rest = b.binary(Binary::Subtract, h, sums);
    b.finish(&[h, sums, rest])
}

#[test]
fn a_chain_of_products_is_one_operation_up_to_what_reads_all_rows() {
    let program = unrolled(32, 9);
    let fast = names(&cut(&program));
    assert_eq!(fast[fast.len() - 3..], ["rows", "sum", "subtract"]);
    // What a step alone reads is computed in it.
    assert!(["dot", "tanh", "add"].iter().all(|op| !fast.contains(&op.to_string())), "{fast:?}");
    // Too short a chain gains little.
    assert!(!names(&cut(&unrolled(32, 4))).contains(&"rows".to_string()));
    let inputs: Vec<Value> = [vec![32, UNITS], vec![9, 32, UNITS], vec![UNITS, UNITS], vec![UNITS]]
        .iter()
        .zip(1..)
        .map(|(shape, seed)| {
            let numbers: Vec<f64> = noise(seed, shape.iter().product(), 1000).iter().map(|n| n / 8000.0).collect();
            tensor(Type::F64, shape, &numbers)
        })
        .collect();
    let [mut h, x, w, bias] = [0, 1, 2, 3].map(|i: usize| numbers(&inputs[i]));
    for x in x.chunks(32 * UNITS) {
        let sum = |row: usize, j: usize| (0..UNITS).map(|k| h[row * UNITS + k] * w[k * UNITS + j]).sum::<f64>();
        h = (0..32 * UNITS).map(|at| (x[at] + bias[at % UNITS] + sum(at / UNITS, at % UNITS) + 1.0).tanh()).collect();
    }
    let sums: Vec<f64> = (0..UNITS).map(|j| (0..32).map(|row| h[row * UNITS + j]).sum()).collect();
    let rest: Vec<f64> = h.iter().enumerate().map(|(at, h)| h - sums[at % UNITS]).collect();
    for fast in [optimised(&program, &[]), cut(&program)] {
        for (got, want) in run(&fast, &inputs).iter().zip([&h, &sums, &rest]) {
            assert_close("chain", &numbers(got), want, 1e-11);
        }
    }
}
