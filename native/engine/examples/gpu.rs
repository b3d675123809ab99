//! Times some operations on the first GPU, each until the GPU is done: the median of a hundred calls, in microseconds.
//!
//! `cargo run --release --features gpu --example gpu`

use std::time::Instant;

use ex_burn_engine::exec::Executable;
use ex_burn_engine::gpu::Adapter;
use ex_burn_engine::program::*;
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
    let conv = Conv { padding: vec![[1, 1]; 2], ..Conv::plain(2) };
    one(Op::Conv(conv), &[&[8, 64, 56, 56], &[64, 64, 3, 3]], &[8, 64, 56, 56])
}

fn sum(len: usize) -> Program {
    one(Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false }), &[&[len]], &[])
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
    let Some(adapter) = Adapter::all().into_iter().next() else {
        println!("there is no GPU");
        return Ok(());
    };
    println!("{}", adapter.name()?);
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
    if !adapter.is_software() {
        time("conv3x3_64_56_b8", &convolution(), adapter)?;
    }
    Ok(())
}
