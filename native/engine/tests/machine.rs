//! Loops, branches and calls into the host, against the same in Rust.

mod tools;

use ex_burn_engine::exec::{Executable, Outcome};
use ex_burn_engine::program::{
    Binary, Callback, Cond, Constant, CustomReduce, Extent, Fused, Instruction, Op, Program, Unary, While,
};
use ex_burn_engine::{Device, Error, Result, TensorType, Type, Value};
use tools::*;

fn scalar() -> TensorType {
    ty(Type::F64, &[])
}

fn step(op: Op, inputs: &[usize]) -> Instruction {
    Instruction { op, inputs: inputs.to_vec(), outputs: vec![scalar()] }
}

fn constant(number: f64) -> Instruction {
    step(Op::Constant(Constant { bytes: number.to_le_bytes().to_vec() }), &[])
}

fn binary(op: Binary, inputs: [usize; 2]) -> Instruction {
    step(Op::Binary(op), &inputs)
}

fn hook(id: u64, inputs: &[usize]) -> Instruction {
    Instruction { op: Op::Hook(Callback { id }), inputs: inputs.to_vec(), outputs: vec![] }
}

fn call(id: u64, inputs: &[usize]) -> Instruction {
    step(Op::RuntimeCall(Callback { id }), inputs)
}

fn program(inputs: usize, instructions: Vec<Instruction>, outputs: &[usize]) -> Program {
    Program { inputs: vec![scalar(); inputs], instructions, outputs: outputs.to_vec() }
}

/// Whether the first of `inputs` values is greater than `bound`, after `instructions` that make no values.
fn above(inputs: usize, bound: f64, mut instructions: Vec<Instruction>) -> Program {
    instructions.push(constant(bound));
    let mut compare = binary(Binary::Greater, [0, inputs]);
    compare.outputs = vec![ty(Type::U8, &[])];
    instructions.push(compare);
    program(inputs, instructions, &[inputs + 1])
}

fn number(value: &Value) -> f64 {
    value.to_f64().expect("a scalar")
}

/// Ids and arguments.
type Calls = Vec<(u64, Vec<f64>)>;

/// Runs `program`; `answer` is the host. Answers what was called with what, and the results.
fn run_with(program: &Program, inputs: &[f64], answer: impl Fn(u64, &[f64]) -> Vec<f64>) -> Result<(Calls, Vec<f64>)> {
    let values = |numbers: &[f64]| numbers.iter().map(|&n| tensor(Type::F64, &[], &[n])).collect::<Vec<_>>();
    let mut calls = vec![];
    let mut outcome = Executable::new(program, vec![])?.start(values(inputs), &Device::Cpu)?;
    loop {
        match outcome {
            Outcome::Done(results) => return Ok((calls, results.iter().map(number).collect())),
            Outcome::Call { id, values: arguments, machine } => {
                let arguments: Vec<f64> = arguments.iter().map(number).collect();
                let results = values(&answer(id, &arguments));
                calls.push((id, arguments));
                outcome = machine.resume(results)?;
            }
        }
    }
}

fn no_results(_id: u64, _arguments: &[f64]) -> Vec<f64> {
    vec![]
}

/// `while x > 10 { x -= step }`, with hook 0 in the condition and hook 1 in the body.
fn countdown() -> Program {
    let condition = above(2, 10.0, vec![hook(0, &[0])]);
    let body = program(2, vec![binary(Binary::Subtract, [0, 1]), hook(1, &[2, 0])], &[2]);
    program(2, vec![step(Op::While(While { condition, body }), &[0, 1])], &[2])
}

#[test]
fn a_loop_calls_in_each_iteration() {
    let (calls, results) = run_with(&countdown(), &[16.0, 4.0], no_results).expect("runs");
    let seen = |id, arguments: &[f64]| (id, arguments.to_vec());
    let want = [seen(0, &[16.0]), seen(1, &[12.0, 16.0]), seen(0, &[12.0]), seen(1, &[8.0, 12.0]), seen(0, &[8.0])];
    assert_eq!(calls, want);
    assert_eq!(results, [8.0]);
    assert_eq!(run_with(&countdown(), &[3.0, 4.0], no_results), Ok((vec![seen(0, &[3.0])], vec![3.0])));
}

/// `x > 10 -> call 1; x > 5 -> x; else -> hook 2, -x`, with hook 0 in the second predicate.
fn choice() -> Program {
    let predicates = vec![above(1, 10.0, vec![]), above(1, 5.0, vec![hook(0, &[0])])];
    let negated = program(1, vec![hook(2, &[0]), step(Op::Unary(Unary::Negate), &[0])], &[1]);
    let branches = vec![program(1, vec![call(1, &[0])], &[1]), program(1, vec![], &[0]), negated];
    program(1, vec![step(Op::Cond(Cond { predicates, branches }), &[0]), hook(3, &[1])], &[1, 0])
}

#[test]
fn a_branch_calls_when_it_is_taken() {
    let answer = |id, arguments: &[f64]| if id == 1 { vec![arguments[0] * 100.0] } else { vec![] };
    for (x, ids, y) in [(11.0, vec![1, 3], 1100.0), (7.0, vec![0, 3], 7.0), (2.0, vec![0, 2, 3], -2.0)] {
        let (calls, results) = run_with(&choice(), &[x], answer).expect("runs");
        assert_eq!(calls.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
        assert_eq!(results, [y, x]);
    }
}

#[test]
fn loops_in_branches_in_loops() {
    // while x > 10 { if x > 50 { while x > 30 { x = call 1 (x) } } else { x - 1 } }
    let inner = While { condition: above(1, 30.0, vec![]), body: program(1, vec![call(1, &[0])], &[1]) };
    let shrink = program(1, vec![step(Op::While(inner), &[0])], &[1]);
    let decrease = program(1, vec![constant(1.0), binary(Binary::Subtract, [0, 1])], &[2]);
    let cond = Cond { predicates: vec![above(1, 50.0, vec![])], branches: vec![shrink, decrease] };
    let outer = While { condition: above(1, 10.0, vec![]), body: program(1, vec![step(Op::Cond(cond), &[0])], &[1]) };
    let program = program(1, vec![step(Op::While(outer), &[0])], &[1]);
    let (calls, results) = run_with(&program, &[100.0], |_, x| vec![x[0] / 2.0]).expect("runs");
    assert_eq!(calls, [(1, vec![100.0]), (1, vec![50.0])]);
    assert_eq!(results, [10.0]);
}

#[test]
fn calls_whose_results_nobody_reads_are_made() {
    let program = program(1, vec![call(4, &[0]), hook(5, &[0])], &[0]);
    let (calls, results) = run_with(&program, &[2.0], |id, _| vec![1.0; usize::from(id == 4)]).expect("runs");
    assert_eq!((calls.len(), results), (2, vec![2.0]));
}

#[test]
fn a_run_goes_on_in_another_thread() {
    let executable = Executable::new(&choice(), vec![]).expect("a program");
    let start = executable.start(vec![tensor(Type::F64, &[], &[20.0])], &Device::Cpu);
    let Ok(Outcome::Call { id: 1, machine, .. }) = start else { panic!("{start:?}") };
    drop(executable);
    let next = std::thread::spawn(|| machine.resume(vec![tensor(Type::F64, &[], &[5.0])])).join().expect("no panic");
    let Ok(Outcome::Call { id: 3, values, .. }) = next else { panic!("{next:?}") };
    assert_eq!(values.iter().map(number).collect::<Vec<_>>(), [5.0]);
}

#[test]
fn results_that_the_call_does_not_declare_are_errors() {
    let error = run_with(&program(1, vec![call(0, &[0])], &[1]), &[1.0], no_results).expect_err("no result");
    assert_eq!(error.to_string(), "runtime_call: makes 0 results, 1 declared");
    let error = run_with(&program(1, vec![hook(0, &[0])], &[0]), &[1.0], |_, _| vec![1.0]).expect_err("a result");
    assert_eq!(error.to_string(), "hook: makes 1 results, 0 declared");

    let executable = Executable::new(&program(1, vec![call(0, &[0])], &[1]), vec![]).expect("a program");
    let start = executable.start(vec![tensor(Type::F64, &[], &[1.0])], &Device::Cpu);
    let Ok(Outcome::Call { machine, .. }) = start else { panic!("{start:?}") };
    let error = machine.resume(vec![tensor(Type::F32, &[2], &[1.0, 2.0])]).expect_err("another type");
    assert_eq!(error, Error::Mismatch { op: "runtime_call".into(), expected: scalar(), got: ty(Type::F32, &[2]) });
}

#[test]
fn calls_are_refused_where_nobody_answers() {
    let executable = Executable::new(&countdown(), vec![]).expect("a program");
    let inputs = vec![tensor(Type::F64, &[], &[1.0]); 2];
    let error = executable.run(inputs, &Device::Cpu).expect_err("no host").to_string();
    assert_eq!(error, "hook: calls into the host, which can't answer in the middle of this run");

    let body = program(2, vec![hook(0, &[0]), binary(Binary::Add, [0, 1])], &[2]);
    let fold = Op::CustomReduce(CustomReduce { axes: None, keep_axes: false, body });
    let error = program(2, vec![step(fold, &[0, 1])], &[2]).check().expect_err("a fold that calls").to_string();
    assert_eq!(error, "reduce: its program calls into the host, which only loops, branches and gradients can do");

    let error = program(1, vec![Instruction { outputs: vec![scalar()], ..hook(0, &[0]) }], &[1]).check();
    assert_eq!(error.expect_err("a hook with a result").to_string(), "hook: a hook answers 1 values, not 0");
}

#[test]
fn effects_are_seen_through_programs_inside() {
    assert!(countdown().has_effect() && choice().has_effect());
    let calm = While { condition: above(1, 1.0, vec![]), body: program(1, vec![], &[0]) };
    assert!(!Op::While(calm).has_effect());
}

#[test]
fn programs_of_a_damaged_file_are_refused() {
    let refused = |program: &Program| program.check().expect_err("it can't run").to_string();
    let short = step(Op::Constant(Constant { bytes: vec![0; 4] }), &[]);
    assert!(refused(&program(0, vec![short], &[0])).contains("has 4 bytes, an element has 8"));

    let line = ty(Type::F64, &[3]);
    let negate = Instruction { op: Op::Unary(Unary::Negate), inputs: vec![0], outputs: vec![line.clone()] };
    let body = Program { inputs: vec![line.clone()], instructions: vec![negate], outputs: vec![1] };
    let region = |shape: &[usize], extent: Extent| {
        let (shape, extents, patterns) = (shape.to_vec(), vec![extent], vec![]);
        let op = Op::Fused(Fused { shape, row_axes: 1, extents, patterns, body: body.clone() });
        let fused = Instruction { op, inputs: vec![0], outputs: vec![line.clone()] };
        Program { inputs: vec![line.clone()], instructions: vec![fused], outputs: vec![1] }
    };
    assert_eq!(region(&[3], Extent::Whole).check(), Ok(()));
    for wrong in [region(&[4], Extent::Whole), region(&[3], Extent::Row), region(&[3], Extent::One)] {
        assert!(refused(&wrong).contains("f64[3] has not its extent in"));
    }
}
