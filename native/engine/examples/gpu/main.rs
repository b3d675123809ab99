//! Times some operations on the first GPU, or the first of the kind that `EX_BURN_DEVICE` names, each until the GPU is done: the
//! median of a hundred calls, in microseconds. Behind it how long a call takes the host, each of twenty calls that are waited for
//! together, and the number of kernels with the time that they take alone. Arguments are beginnings of the names of rows, of which
//! the kernels are listed; without one all rows run.
//!
//! `EX_BURN_DEVICE=vulkan cargo run --release --features gpu --example gpu [ROW..]`

mod kernels;
mod programs;

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use ex_burn_engine::exec::Executable;
use ex_burn_engine::gpu::Adapter;
use ex_burn_engine::program::{Binary, Op, Program};
use ex_burn_engine::train::{Answer, Config, Event, Job, Session};
use ex_burn_engine::{Device, Result, TensorType, Type, Value};

/// Times steps of Adam by the epochs of a run, in microseconds for each step.
fn train(batch: usize, adapter: Adapter) -> Result<()> {
    const STEPS: usize = 100;
    if !wanted(&format!("mlp_step_b{batch}")) {
        return Ok(());
    }
    let program = programs::network(batch);
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

/// Whether a row is asked for.
fn wanted(name: &str) -> bool {
    std::env::args().len() < 2 || std::env::args().skip(1).any(|row| name.starts_with(&row))
}

fn time(name: &str, program: &Program, adapter: Adapter) -> Result<()> {
    if !wanted(name) {
        return Ok(());
    }
    let device = Device::Gpu(adapter);
    let inputs: Vec<Value> = program.inputs.iter().map(|ty| numbers(ty, &device)).collect::<Result<_>>()?;
    let executable = Executable::optimised(program, vec![], &[])?;
    let ask = || executable.run(inputs.clone(), &device).map(drop);
    let run = || ask().and_then(|()| adapter.wait());
    let start = Instant::now();
    run()?;
    let first = start.elapsed().as_millis();
    // From the third run on, a program may be recorded, whose kernels are not seen.
    let ran = kernels::of(run)?;
    let whole = median(run)?;
    let asked = median_of(|| {
        let start = Instant::now();
        ask()?;
        let asked = start.elapsed();
        adapter.wait().map(|()| asked)
    })?;
    let many = median(|| (0..20).try_for_each(|_| ask()).and_then(|()| adapter.wait()))? / 20.0;
    let alone: f64 = ran.iter().map(|ran| ran.time).sum();
    let count = ran.len();
    println!("{name} {whole:.1} (host {asked:.1}, one of 20 {many:.1}, {count} kernels {alone:.1}, first {first} ms)");
    if std::env::args().len() > 1 {
        ran.iter().for_each(|ran| println!("    {} {:.1}", ran.name, ran.time));
    }
    Ok(())
}

/// Times an addition of four elements whose result is read.
fn read_back(adapter: Adapter) -> Result<()> {
    if !wanted("small_op_read_back") {
        return Ok(());
    }
    let device = Device::Gpu(adapter);
    let program = programs::one(Op::Binary(Binary::Add), &[&[4], &[4]], &[4]);
    let inputs: Vec<Value> = program.inputs.iter().map(|ty| numbers(ty, &device)).collect::<Result<_>>()?;
    let executable = Executable::optimised(&program, vec![], &[])?;
    let run = || executable.run(inputs.clone(), &device)?.remove(0).into_bytes();
    println!("small_op_read_back {:.1}", median(|| run().map(drop))?);
    Ok(())
}

/// The median time of a hundred calls, in microseconds.
fn median(run: impl Fn() -> Result<()>) -> Result<f64> {
    median_of(|| {
        let start = Instant::now();
        run().map(|()| start.elapsed())
    })
}

/// The median of a hundred times, or of as many as two seconds allow, in microseconds.
fn median_of(time: impl Fn() -> Result<Duration>) -> Result<f64> {
    let start = Instant::now();
    let mut times = vec![time()?];
    while times.len() < 100 && start.elapsed() < Duration::from_secs(2) {
        times.push(time()?);
    }
    times.sort();
    Ok(times[times.len() / 2].as_nanos() as f64 / 1000.0)
}

fn main() -> Result<()> {
    let kind = std::env::var("EX_BURN_DEVICE").unwrap_or("gpu".to_string());
    let Some(adapter) = Adapter::all().into_iter().find(|adapter| kind == "gpu" || adapter.api() == kind) else {
        println!("there is no {kind}");
        return Ok(());
    };
    println!("{} by {}", adapter.name()?, adapter.api());
    time("add_4", &programs::one(Op::Binary(Binary::Add), &[&[4], &[4]], &[4]), adapter)?;
    for n in [256, 512, 1024, 2048, 4096] {
        if n <= 512 || !adapter.is_software() {
            time(&format!("matmul_{n}"), &programs::product(n), adapter)?;
        }
    }
    time("add_4M", &programs::one(Op::Binary(Binary::Add), &[&[4_000_000], &[4_000_000]], &[4_000_000]), adapter)?;
    time("chain_4M", &programs::chain(4_000_000), adapter)?;
    time("sum_4M", &programs::sum(4_000_000), adapter)?;
    time("softmax_1024", &programs::softmax(1024, 1024), adapter)?;
    let small = adapter.is_software();
    for [n, sides] in if small { vec![[512, 1], [512, 64]] } else { vec![[2048, 1], [1024, 1024], [4096, 4096]] } {
        time(&format!("triangular_{n}x{sides}"), &programs::triangular(n, sides), adapter)?;
    }
    let lines = if small { vec![[64, 1024], [64, 1009]] } else { vec![[4096, 1024], [4096, 1009], [4, 1 << 20]] };
    for [lines, length] in lines {
        time(&format!("fft_{lines}x{length}"), &programs::fourier(lines, length), adapter)?;
    }
    for sizes in if small { vec![[2, 256, 64]] } else { vec![[96, 512, 64], [16, 4096, 64]] } {
        time(&format!("attention_{}x{}x{}", sizes[0], sizes[1], sizes[2]), &programs::attention(sizes), adapter)?;
    }
    time("encoder_fwd_8x128x256", &programs::encoder(), adapter)?;
    read_back(adapter)?;
    for batch in [32, 128] {
        train(batch, adapter)?;
    }
    if !adapter.is_software() {
        time("conv3x3_64_56_b8", &programs::convolution(), adapter)?;
    }
    Ok(())
}
