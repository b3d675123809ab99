//! Times some operations on the first GPU, or the first of the kind that `EX_BURN_DEVICE` names, each until the GPU is done: the
//! median of a hundred calls, in microseconds.
//!
//! `EX_BURN_DEVICE=vulkan cargo run --release --features gpu --example gpu`

use std::sync::{Arc, mpsc};
use std::time::Instant;

use ex_burn_engine::exec::Executable;
use ex_burn_engine::gpu::Adapter;
use ex_burn_engine::program::*;
use ex_burn_engine::train::{Answer, Config, Event, Job, Session};
use ex_burn_engine::{Device, Result, TensorType, Type, Value};

/// Tensors of `f32`, and instructions on them, one after the other.
struct Builder {
    program: Program,
    count: usize,
}

impl Builder {
    fn new(inputs: &[&[usize]]) -> Self {
        let inputs: Vec<TensorType> = inputs.iter().map(|shape| TensorType::new(Type::F32, *shape)).collect();
        Self { count: inputs.len(), program: Program { inputs, ..Program::default() } }
    }

    fn push(&mut self, op: Op, inputs: &[usize], shape: &[usize]) -> usize {
        let outputs = vec![TensorType::new(Type::F32, shape)];
        self.program.instructions.push(Instruction { op, inputs: inputs.to_vec(), outputs });
        self.count += 1;
        self.count - 1
    }

    fn number(&mut self, number: f32) -> usize {
        self.push(Op::Constant(Constant { bytes: number.to_le_bytes().to_vec() }), &[], &[])
    }

    fn end(mut self, result: usize) -> Program {
        self.program.outputs = vec![result];
        self.program
    }
}

fn one(op: Op, inputs: &[&[usize]], out: &[usize]) -> Program {
    let mut builder = Builder::new(inputs);
    let result = builder.push(op, &(0..inputs.len()).collect::<Vec<_>>(), out);
    builder.end(result)
}

fn chain(len: usize) -> Program {
    let mut b = Builder::new(&[&[len], &[len]]);
    let (one, half) = (b.number(1.0), b.number(0.5));
    let product = b.push(Op::Binary(Binary::Multiply), &[0, 1], &[len]);
    let sum = b.push(Op::Binary(Binary::Add), &[product, one], &[len]);
    let tanh = b.push(Op::Unary(Unary::Tanh), &[sum], &[len]);
    let left = b.push(Op::Binary(Binary::Multiply), &[tanh, half], &[len]);
    let minus = b.push(Op::Unary(Unary::Negate), &[0], &[len]);
    let square = b.push(Op::Binary(Binary::Multiply), &[minus, 0], &[len]);
    let exp = b.push(Op::Unary(Unary::Exp), &[square], &[len]);
    let result = b.push(Op::Binary(Binary::Add), &[left, exp], &[len]);
    b.end(result)
}

fn softmax(rows: usize, columns: usize) -> Program {
    let mut b = Builder::new(&[&[rows, columns]]);
    let fold = |fold| Op::Reduce(Reduce { fold, axes: Some(vec![1]), keep_axes: true });
    let largest = b.push(fold(Fold::Max), &[0], &[rows, 1]);
    let below = b.push(Op::Binary(Binary::Subtract), &[0, largest], &[rows, columns]);
    let exp = b.push(Op::Unary(Unary::Exp), &[below], &[rows, columns]);
    let sum = b.push(fold(Fold::Sum), &[exp], &[rows, 1]);
    let result = b.push(Op::Binary(Binary::Divide), &[exp, sum], &[rows, columns]);
    b.end(result)
}

fn product(n: usize) -> Program {
    let dot = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
    one(Op::Dot(dot), &[&[n, n], &[n, n]], &[n, n])
}

fn convolution() -> Program {
    let conv = Conv {
        strides: vec![1, 1],
        padding: vec![[1, 1], [1, 1]],
        input_dilation: vec![1, 1],
        kernel_dilation: vec![1, 1],
        feature_group_size: 1,
        batch_group_size: 1,
        input_permutation: vec![0, 1, 2, 3],
        kernel_permutation: vec![0, 1, 2, 3],
        output_permutation: vec![0, 1, 2, 3],
    };
    one(Op::Conv(conv), &[&[8, 64, 56, 56], &[64, 64, 3, 3]], &[8, 64, 56, 56])
}

fn sum(len: usize) -> Program {
    one(Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false }), &[&[len]], &[])
}

fn triangular(n: usize, sides: usize) -> Program {
    let attrs = TriangularSolve { lower: true, left_side: true, transform_a: TransformA::None };
    one(Op::TriangularSolve(attrs), &[&[n, n], &[n, sides]], &[n, sides])
}

/// Transforms of lines of real numbers.
fn fourier(lines: usize, length: usize) -> Program {
    let op = Op::Fft(Fft { transform: Transform::Fft, eps: 1e-10, length, axis: 1 });
    let mut program = one(op, &[&[lines, length]], &[lines, length]);
    program.instructions[0].outputs[0].dtype = Type::C64;
    program
}

/// A masked attention: heads, steps, and the size of each.
fn attention([heads, steps, size]: [usize; 3]) -> Program {
    let (operand, scores, rows) = ([heads, steps, size], [heads, steps, steps], [heads, steps, 1]);
    let mut b = Builder::new(&[&operand, &operand, &operand, &[steps, steps]]);
    let dot = |rhs: usize| {
        Op::Dot(Dot { lhs_contract: vec![2], lhs_batch: vec![0], rhs_contract: vec![rhs], rhs_batch: vec![0] })
    };
    let fold = |fold| Op::Reduce(Reduce { fold, axes: Some(vec![2]), keep_axes: true });
    let scale = b.number(1.0 / (size as f32).sqrt());
    let products = b.push(dot(2), &[0, 1], &scores);
    let scaled = b.push(Op::Binary(Binary::Multiply), &[products, scale], &scores);
    let masked = b.push(Op::Binary(Binary::Add), &[scaled, 3], &scores);
    let largest = b.push(fold(Fold::Max), &[masked], &rows);
    let below = b.push(Op::Binary(Binary::Subtract), &[masked, largest], &scores);
    let exp = b.push(Op::Unary(Unary::Exp), &[below], &scores);
    let sum = b.push(fold(Fold::Sum), &[exp], &rows);
    let weights = b.push(Op::Binary(Binary::Divide), &[exp, sum], &scores);
    let result = b.push(dot(1), &[weights, 2], &operand);
    b.end(result)
}

/// Two hidden layers and the cross-entropy of labels that are given as one row each.
fn network(batch: usize) -> Program {
    let sizes = [784, 256, 128, 10];
    let shapes: Vec<Vec<usize>> = sizes.windows(2).flat_map(|pair| [vec![pair[0], pair[1]], vec![pair[1]]]).collect();
    let mut inputs: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    let (x, y) = ([batch, 784], [batch, 10]);
    inputs.extend([&x[..], &y[..]]);
    let mut b = Builder::new(&inputs);
    let dot = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
    let zero = b.number(0.0);
    let mut value = 6;
    for layer in 0..3 {
        let out = [batch, sizes[layer + 1]];
        value = b.push(Op::Dot(dot.clone()), &[value, 2 * layer], &out);
        value = b.push(Op::Binary(Binary::Add), &[value, 2 * layer + 1], &out);
        if layer < 2 {
            value = b.push(Op::Binary(Binary::Max), &[value, zero], &out);
        }
    }
    let fold = |fold, keep_axes| Op::Reduce(Reduce { fold, axes: Some(vec![1]), keep_axes });
    let largest = b.push(fold(Fold::Max, true), &[value], &[batch, 1]);
    let largest = b.push(Op::StopGrad, &[largest], &[batch, 1]);
    let below = b.push(Op::Binary(Binary::Subtract), &[value, largest], &[batch, 10]);
    let exp = b.push(Op::Unary(Unary::Exp), &[below], &[batch, 10]);
    let sum = b.push(fold(Fold::Sum, true), &[exp], &[batch, 1]);
    let log = b.push(Op::Unary(Unary::Log), &[sum], &[batch, 1]);
    let logits = b.push(Op::Binary(Binary::Subtract), &[below, log], &[batch, 10]);
    let named = b.push(Op::Binary(Binary::Multiply), &[logits, 7], &[batch, 10]);
    let total = b.push(Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false }), &[named], &[]);
    let rows = b.number(-(batch as f32));
    let loss = b.push(Op::Binary(Binary::Divide), &[total, rows], &[]);
    b.end(loss)
}

/// Times steps of Adam by the epochs of a run, in microseconds for each step.
fn train(batch: usize, adapter: Adapter) -> Result<()> {
    const STEPS: usize = 100;
    let program = network(batch);
    let device = Device::Gpu(adapter);
    let params = program.inputs[..6].iter().map(|ty| numbers(ty, &device)).collect::<Result<Vec<_>>>()?;
    let data = [TensorType::new(Type::F32, [batch * STEPS, 784]), TensorType::new(Type::F32, [batch * STEPS, 10])];
    let data = data.iter().map(|ty| numbers(ty, &Device::Cpu)).collect::<Result<Vec<_>>>()?;
    let steps = vec![Arc::new(Executable::optimised(&program, vec![], &[])?)];
    let config = Config { epochs: 6, batch_size: batch, ..Config::default() };
    let (sender, events) = mpsc::channel();
    let job = Job { steps, params, data: Some(data), ..Job::default() };
    let session = Session::start(config, job, move |event| drop(sender.send(event)))?;
    let mut times = vec![];
    for event in events {
        match event {
            Event::Epoch(report) => {
                times.push(report.seconds * 1e6 / STEPS as f64);
                session.answer(Answer::Continue)?;
            }
            Event::Failed(error) => return Err(error),
            _ => {}
        }
    }
    times.sort_by(f64::total_cmp);
    println!("mlp_step_b{batch} {:.1}", times[times.len() / 2]);
    Ok(())
}

/// A tensor of numbers between -1 and 1.
fn numbers(ty: &TensorType, device: &Device) -> Result<Value> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let bytes = (0..ty.shape.iter().product()).flat_map(|_| next().to_le_bytes()).collect();
    Value::from_bytes(ty, bytes, &Device::Cpu)?.to_device(device)
}

fn time(name: &str, program: &Program, adapter: Adapter) -> Result<()> {
    let device = Device::Gpu(adapter);
    let inputs: Vec<Value> = program.inputs.iter().map(|ty| numbers(ty, &device)).collect::<Result<_>>()?;
    let executable = Executable::optimised(program, vec![], &[])?;
    let run = || executable.run(inputs.clone(), &device).and_then(|_| adapter.wait());
    let start = Instant::now();
    run()?;
    let first = start.elapsed().as_millis();
    let mut times = Vec::new();
    for _ in 0..100 {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_nanos() as f64 / 1000.0);
    }
    times.sort_by(f64::total_cmp);
    println!("{name} {:.1} (first {first} ms)", times[times.len() / 2]);
    Ok(())
}

fn main() -> Result<()> {
    let kind = std::env::var("EX_BURN_DEVICE").unwrap_or("gpu".to_string());
    let Some(adapter) = Adapter::all().into_iter().find(|adapter| kind == "gpu" || adapter.api() == kind) else {
        println!("there is no {kind}");
        return Ok(());
    };
    println!("{} by {}", adapter.name()?, adapter.api());
    time("add_4", &one(Op::Binary(Binary::Add), &[&[4], &[4]], &[4]), adapter)?;
    for n in [256, 512, 1024, 2048, 4096] {
        if n <= 512 || !adapter.is_software() {
            time(&format!("matmul_{n}"), &product(n), adapter)?;
        }
    }
    time("add_4M", &one(Op::Binary(Binary::Add), &[&[4_000_000], &[4_000_000]], &[4_000_000]), adapter)?;
    time("chain_4M", &chain(4_000_000), adapter)?;
    time("sum_4M", &sum(4_000_000), adapter)?;
    time("softmax_1024", &softmax(1024, 1024), adapter)?;
    let small = adapter.is_software();
    for [n, sides] in if small { vec![[512, 1], [512, 64]] } else { vec![[2048, 1], [1024, 1024], [4096, 4096]] } {
        time(&format!("triangular_{n}x{sides}"), &triangular(n, sides), adapter)?;
    }
    for [lines, length] in
        if small { vec![[64, 1024], [64, 1009]] } else { vec![[4096, 1024], [4096, 1009], [4, 1 << 20]] }
    {
        time(&format!("fft_{lines}x{length}"), &fourier(lines, length), adapter)?;
    }
    for sizes in if small { vec![[2, 256, 64]] } else { vec![[96, 512, 64], [16, 4096, 64]] } {
        time(&format!("attention_{}x{}x{}", sizes[0], sizes[1], sizes[2]), &attention(sizes), adapter)?;
    }
    for batch in [32, 128] {
        train(batch, adapter)?;
    }
    if !adapter.is_software() {
        time("conv3x3_64_56_b8", &convolution(), adapter)?;
    }
    Ok(())
}
