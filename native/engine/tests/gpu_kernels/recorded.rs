//! Programs whose kernels are asked for together once they ran a few times.

use ex_burn_engine::exec::Executable;
use ex_burn_engine::gpu::{fallback, replays};
use ex_burn_engine::program::*;
use ex_burn_engine::{Device, TensorType, Type, Value};

use super::{Gpu, floats, gpu, random, singles};

/// `tanh(x w + b)`, the sums of the rows of its squares, and `x` itself; after `function`.
fn layer(function: Unary) -> Program {
    let f32 = |shape: &[usize]| TensorType::new(Type::F32, shape);
    let (x, out) = (f32(&[6, 5]), f32(&[6, 4]));
    let step = |op: Op, inputs: &[usize], out: &TensorType| Instruction {
        op,
        inputs: inputs.to_vec(),
        outputs: vec![out.clone()],
    };
    let dot = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
    let sum = Reduce { fold: Fold::Sum, axes: Some(vec![1]), keep_axes: false };
    Program {
        inputs: vec![x.clone(), f32(&[5, 4]), f32(&[4])],
        instructions: vec![
            step(Op::Unary(function), &[0], &x),
            step(Op::Dot(dot), &[3, 1], &out),
            step(Op::Binary(Binary::Add), &[4, 2], &out),
            step(Op::Unary(Unary::Tanh), &[5], &out),
            step(Op::Binary(Binary::Multiply), &[6, 6], &out),
            step(Op::Reduce(sum), &[7], &f32(&[6])),
        ],
        outputs: vec![6, 8, 0],
    }
}

/// The program without fusion, which would leave too few instructions.
fn executable(program: &Program) -> Executable {
    Executable::optimised(program, vec![], &["fusion".into(), "patterns".into()]).unwrap()
}

fn numbers(shape: &[usize], seed: u64) -> Value {
    let mut next = random(seed);
    singles(shape, &(0..shape.iter().product()).map(|_| next() as f32 * 2.0 + 1.0).collect::<Vec<_>>())
}

fn inputs(x: u64, w: u64) -> [Value; 3] {
    [numbers(&[6, 5], x), numbers(&[5, 4], w), numbers(&[4], w + 100)]
}

impl Gpu {
    fn there(&self, values: &[Value]) -> Vec<Value> {
        values.iter().map(|value| value.clone().to_device(&self.device).unwrap()).collect()
    }
}

fn assert_right(executable: &Executable, inputs: &[Value], results: Vec<Value>) {
    let expected = executable.run(inputs.to_vec(), &Device::Cpu).unwrap();
    for (result, expected) in results.into_iter().zip(expected) {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
        let result = result.to_device(&Device::Cpu).unwrap();
        assert_eq!(result.ty(), expected.ty());
        assert!(floats(&result).iter().zip(&floats(&expected)).all(near), "{result:?} is not {expected:?}");
    }
}

#[test]
fn each_run_of_a_recording_answers_for_its_own_inputs() {
    let Some(gpu) = gpu() else { return };
    let executable = executable(&layer(Unary::Sqrt));
    let before = replays();
    // Inputs that stay, that change, and that come back; on the GPU already, and not.
    let runs: Vec<[Value; 3]> =
        [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (5, 2), (1, 1)].map(|(x, w)| inputs(x, w)).into();
    let kept = gpu.there(&runs[0]);
    let results: Vec<Vec<Value>> = runs
        .iter()
        .enumerate()
        .map(|(number, inputs)| {
            let inputs = if number == 6 { kept.clone() } else { inputs.to_vec() };
            executable.run(inputs, &gpu.device).unwrap()
        })
        .collect();
    assert_eq!(replays() - before, 5);
    // None was written over by a later run.
    for (inputs, results) in runs.iter().zip(results) {
        assert_right(&executable, inputs, results);
    }
}

#[test]
fn what_the_cpu_helps_with_is_not_recorded() {
    let Some(gpu) = gpu() else { return };
    let executable = executable(&layer(Unary::Acosh));
    let inputs = inputs(7, 7);
    let before = replays();
    fallback::take();
    for _ in 0..5 {
        assert_right(&executable, &inputs, executable.run(gpu.there(&inputs), &gpu.device).unwrap());
    }
    assert_eq!(replays(), before);
    assert_eq!(fallback::take(), [("acosh".to_string(), "f32", 5)]);
}

#[test]
fn a_recording_can_be_left_out() {
    let Some(gpu) = gpu() else { return };
    let off = ["fusion", "patterns", "recording"].map(String::from);
    let executable = Executable::optimised(&layer(Unary::Sqrt), vec![], &off).unwrap();
    let inputs = inputs(8, 8);
    let before = replays();
    for _ in 0..5 {
        assert_right(&executable, &inputs, executable.run(gpu.there(&inputs), &gpu.device).unwrap());
    }
    assert_eq!(replays(), before);
}

#[test]
fn threads_share_recordings() {
    let Some(gpu) = gpu() else { return };
    let executables = [Unary::Sqrt, Unary::Exp, Unary::Log].map(|function| executable(&layer(function)));
    let before = replays();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (executables, device) = (&executables, &gpu.device);
            scope.spawn(move || {
                for run in 0..20 {
                    let executable = &executables[(thread + run) % 3];
                    let inputs = inputs((thread * 100 + run) as u64, thread as u64);
                    assert_right(executable, &inputs, executable.run(inputs.to_vec(), device).unwrap());
                }
            });
        }
    });
    assert!(replays() - before >= 100);
}

#[test]
fn memory_of_a_recording_is_given_back_with_its_program() {
    let Some(gpu) = gpu() else { return };
    let Device::Gpu(adapter) = gpu.device else { return };
    let f32 = |shape: &[usize]| TensorType::new(Type::F32, shape);
    let step = |op: Unary, input: usize| Instruction {
        op: Op::Unary(op),
        inputs: vec![input],
        outputs: vec![f32(&[1 << 20])],
    };
    let functions = [Unary::Abs, Unary::Sqrt, Unary::Exp, Unary::Log, Unary::Tanh];
    let instructions = functions.into_iter().enumerate().map(|(input, op)| step(op, input)).collect();
    let program = Program { inputs: vec![f32(&[1 << 20])], instructions, outputs: vec![5] };
    let x = gpu.there(&[numbers(&[1 << 20], 3)]);
    let run = |executable: &Executable| executable.run(x.clone(), &gpu.device).map(drop).unwrap();
    // Kernels are made, layouts sent.
    let first = executable(&program);
    run(&first);
    adapter.release_memory().unwrap();
    let before = adapter.memory().unwrap();
    for _ in 0..3 {
        let executable = executable(&program);
        (0..5).for_each(|_| run(&executable));
        // The input, the result and what is between them, at least two at once.
        assert!(adapter.memory().unwrap().in_use >= before.in_use + (2 << 22));
    }
    adapter.release_memory().unwrap();
    let after = adapter.memory().unwrap();
    assert!(after.in_use < before.in_use + (1 << 20), "{before:?} became {after:?}");
    assert!(after.reserved < before.reserved + (1 << 24), "{before:?} became {after:?}");
}
