//! Training on a GPU against training on the CPU, with the same numbers. Needs a driver, as `gpu.rs` does.
#![cfg(feature = "gpu")]

#[path = "tools/gpu.rs"]
mod machine;
#[path = "tools/weighed.rs"]
mod weighed;

use std::sync::{Arc, Mutex, MutexGuard, mpsc};

use ex_burn_engine::exec::Executable;
use ex_burn_engine::gpu::fallback;
use ex_burn_engine::program::*;
use ex_burn_engine::train::*;
use ex_burn_engine::{Device, Error, TensorType, Type, Value, scalar};

const ROWS: usize = 40;
const BATCH: usize = 16;
const SIZES: [&[usize]; 4] = [&[6, 5], &[5], &[5, 2], &[2]];

/// What runs on the CPU instead is counted for the whole process, so tests take turns.
static TURN: Mutex<()> = Mutex::new(());

fn gpu() -> Option<(MutexGuard<'static, ()>, Device)> {
    let adapter = machine::adapter();
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    adapter.map(|adapter| (turn, Device::Gpu(adapter)))
}

fn tensor(shape: &[usize], number: impl Fn(usize) -> f32) -> Value {
    let bytes = (0..shape.iter().product()).flat_map(|i| number(i).to_le_bytes()).collect();
    Value::from_bytes(&TensorType::new(Type::F32, shape), bytes, &Device::Cpu).unwrap()
}

fn floats(value: &Value) -> Vec<f32> {
    let bytes = value.clone().into_bytes().unwrap();
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

struct Builder(Program);

impl Builder {
    fn push(&mut self, op: Op, inputs: &[usize], shape: &[usize]) -> usize {
        let outputs = vec![TensorType::new(Type::F32, shape)];
        self.0.instructions.push(Instruction { op, inputs: inputs.to_vec(), outputs });
        self.0.inputs.len() + self.0.instructions.len() - 1
    }

    fn number(&mut self, number: f64) -> usize {
        self.push(Op::Constant(Constant { bytes: scalar::from_f64(Type::F32, number) }), &[], &[])
    }
}

/// Two layers and the mean squared error of batches of `rows`; one state, which counts.
fn step(rows: usize) -> Arc<Executable> {
    let (x, y) = ([rows, 6], [rows, 2]);
    let shapes = [&SIZES[..], &[&[1], &x, &y]].concat();
    let inputs = shapes.iter().map(|shape| TensorType::new(Type::F32, *shape)).collect();
    let mut b = Builder(Program { inputs, ..Program::default() });
    let dot = || Op::Dot(Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] });
    let hidden = b.push(dot(), &[5, 0], &[rows, 5]);
    let hidden = b.push(Op::Binary(Binary::Add), &[hidden, 1], &[rows, 5]);
    let hidden = b.push(Op::Unary(Unary::Tanh), &[hidden], &[rows, 5]);
    let guess = b.push(dot(), &[hidden, 2], &[rows, 2]);
    let guess = b.push(Op::Binary(Binary::Add), &[guess, 3], &[rows, 2]);
    let error = b.push(Op::Binary(Binary::Subtract), &[guess, 6], &[rows, 2]);
    let square = b.push(Op::Binary(Binary::Multiply), &[error, error], &[rows, 2]);
    let sum = b.push(Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false }), &[square], &[]);
    let count = b.number(2.0 * rows as f64);
    let loss = b.push(Op::Binary(Binary::Divide), &[sum, count], &[]);
    let one = b.number(1.0);
    let next = b.push(Op::Binary(Binary::Add), &[4, one], &[1]);
    b.0.outputs = vec![loss, next];
    Arc::new(Executable::optimised(&b.0, vec![], &[]).unwrap())
}

fn data(bad_row: Option<usize>) -> Vec<Value> {
    let x =
        tensor(
            &[ROWS, 6],
            |i| if bad_row == Some(i / 6) { f32::NAN } else { ((i * i + 3 * i) % 29) as f32 / 14.0 - 1.0 },
        );
    vec![x, tensor(&[ROWS, 2], |i| ((i * 7) % 11) as f32 / 5.0 - 1.0)]
}

fn job(device: &Device, bad_row: Option<usize>) -> Job {
    let there = |value: Value| value.to_device(device).unwrap();
    let params = SIZES.iter().enumerate();
    let params = params.map(|(n, shape)| there(tensor(shape, |i| ((i * 5 + n) as f32 * 0.7).sin() * 0.5))).collect();
    Job {
        steps: vec![step(BATCH), step(ROWS % BATCH)],
        params,
        states: vec![there(tensor(&[1], |_| 0.0))],
        data: Some(data(bad_row)),
        ..Job::default()
    }
}

struct Ended {
    losses: Vec<f64>,
    skipped: usize,
    params: Vec<Value>,
    state: OptimizerState,
    error: Option<Error>,
}

fn run(config: Config, job: Job) -> Ended {
    let (sender, events) = mpsc::channel();
    let session = Session::start(config, job, move |event| drop(sender.send(event))).unwrap();
    let (mut losses, mut skipped, mut error) = (vec![], 0, None);
    for event in events {
        match event {
            Event::Epoch(report) => {
                losses.push(report.loss);
                skipped += report.skipped;
                session.answer(Answer::LearningRate(config.learning_rate * 0.95f64.powi(losses.len() as i32))).unwrap();
            }
            Event::Failed(failed) => error = Some(failed),
            _ => {}
        }
    }
    let (params, states) = session.parameters();
    let params = [params, states].concat();
    Ended { losses, skipped, params, state: session.optimizer_state(), error }
}

fn assert_close(what: &str, a: &[Value], b: &[Value]) {
    assert_eq!(a.len(), b.len());
    for (number, (a, b)) in a.iter().zip(b).enumerate() {
        let (a, b) = (floats(a), floats(b));
        let scale = a.iter().fold(1e-6f32, |scale, x| scale.max(x.abs()));
        let error = a.iter().zip(&b).fold(0f32, |error, (a, b)| error.max((a - b).abs()));
        assert!(error <= 1e-4 * scale, "{what}, tensor {number}: {error} beside {scale}");
    }
}

/// 51 steps on both.
fn same(what: &str, device: &Device, config: Config, bad_row: Option<usize>) -> Ended {
    let cpu = run(config, job(&Device::Cpu, bad_row));
    fallback::take();
    let gpu = run(config, job(device, bad_row));
    assert_eq!(fallback::take(), [], "{what}: no kernel");
    assert!(cpu.error.is_none() && gpu.error.is_none(), "{what}: {:?}, {:?}", cpu.error, gpu.error);
    assert!(gpu.params.iter().all(|param| param.device() == *device), "{what}: parameters left the GPU");
    assert_close(what, &cpu.params, &gpu.params);
    assert_eq!(cpu.state.count, gpu.state.count, "{what}: steps");
    cpu.state.slots.iter().zip(&gpu.state.slots).for_each(|(cpu, gpu)| assert_close(what, cpu, gpu));
    for (cpu, gpu) in cpu.losses.iter().zip(&gpu.losses) {
        assert!((cpu - gpu).abs() <= 1e-4 * cpu.abs(), "{what}: losses {cpu}, {gpu}");
    }
    gpu
}

fn config(rule: Rule) -> Config {
    Config {
        epochs: 17,
        batch_size: BATCH,
        shuffle: true,
        seed: 3,
        learning_rate: 0.01,
        optimizer: Some(rule),
        ..Config::default()
    }
}

#[test]
fn every_optimizer() {
    let Some((_turn, device)) = gpu() else { return };
    let momentum = Some(0.9);
    let rules = [
        Rule::Sgd(Sgd::default()),
        Rule::Sgd(Sgd { momentum, nesterov: false }),
        Rule::Sgd(Sgd { momentum, nesterov: true }),
        Rule::Adam(Adam::default()),
        Rule::Adamw(Adamw::default()),
        Rule::Rmsprop(Rmsprop { initial_scale: 1.0, ..Rmsprop::default() }),
        Rule::Rmsprop(Rmsprop { initial_scale: 1.0, centered: true, momentum, nesterov: true, ..Rmsprop::default() }),
        Rule::Adagrad(Adagrad::default()),
        Rule::Lion(Lion { decay: 0.1, ..Lion::default() }),
        Rule::Lamb(Lamb { decay: 0.1, ..Lamb::default() }),
        Rule::Muon(Muon { decay: 0.1, ..Muon::default() }),
    ];
    for rule in rules {
        let ended = same(&format!("{rule:?}"), &device, config(rule), None);
        assert_eq!(floats(&ended.params[4]), [51.0], "the state counts steps");
        assert!(ended.losses[16] < ended.losses[0], "{rule:?}: {:?}", ended.losses);
    }
}

#[test]
fn clipping_decay_and_accumulation() {
    let Some((_turn, device)) = gpu() else { return };
    let adam = config(Rule::Adam(Adam::default()));
    let sgd = config(Rule::Sgd(Sgd::default()));
    let configs = [
        Config { clip_value: Some(0.05), ..sgd },
        Config { clip_norm: Some(0.1), ..sgd },
        Config { clip_value: Some(0.2), clip_norm: Some(0.1), weight_decay: 0.02, ..adam },
        Config { accumulate: 2, clip_norm: Some(0.5), ..sgd },
        Config { accumulate: 3, ..adam },
    ];
    for config in configs {
        same(&format!("{config:?}"), &device, config, None);
    }
}

#[test]
fn batches_that_make_one_step_are_averaged_without_loss() {
    let Some((_turn, device)) = gpu() else { return };
    weighed::check(&device);
}

#[test]
fn clipped_elements_that_are_far_apart() {
    let Some((_turn, device)) = gpu() else { return };
    let inputs = vec![TensorType::new(Type::F32, [2]), TensorType::new(Type::F32, [1, 2])];
    let mut b = Builder(Program { inputs, ..Program::default() });
    let product = b.push(Op::Binary(Binary::Multiply), &[0, 1], &[1, 2]);
    let sum = b.push(Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false }), &[product], &[]);
    b.0.outputs = vec![sum];
    let job = Job {
        steps: vec![Arc::new(Executable::optimised(&b.0, vec![], &[]).unwrap())],
        params: vec![tensor(&[2], |_| 0.0).to_device(&device).unwrap()],
        data: Some(vec![tensor(&[1, 2], |i| [3e-21, 1e20][i])]),
        ..Job::default()
    };
    let sgd = config(Rule::Sgd(Sgd::default()));
    let ended = run(Config { epochs: 1, clip_norm: Some(1e10), learning_rate: 1e20, ..sgd }, job);
    // The norm is that of the larger one.
    for (got, want) in floats(&ended.params[0]).into_iter().zip([-3e-11f32, -1e30]) {
        assert!((got / want - 1.0).abs() < 1e-5, "{got}, expected {want}");
    }
}

#[test]
fn batches_that_are_not_finite() {
    let Some((_turn, device)) = gpu() else { return };
    let skip = Config { skip_non_finite: true, ..config(Rule::Adam(Adam::default())) };
    let ended = same("skip", &device, skip, Some(7));
    assert_eq!(ended.skipped, 17, "one batch of each epoch");
    let stop = Config { skip_non_finite: false, ..skip };
    let (cpu, gpu) = (run(stop, job(&Device::Cpu, Some(7))), run(stop, job(&device, Some(7))));
    let message = |ended: &Ended| ended.error.as_ref().expect("an error").to_string();
    assert_eq!(message(&cpu), message(&gpu));
    assert_close("stop", &cpu.params, &gpu.params);
}

#[test]
fn runs_that_go_on() {
    let Some((_turn, device)) = gpu() else { return };
    let first = config(Rule::Adam(Adam::default()));
    let whole = run(first, job(&Device::Cpu, None));
    // The learning rate of a run is that of its first epoch, so the second part starts where the first one ended.
    let half = run(Config { epochs: 8, ..first }, job(&device, None));
    let (params, states) = (half.params[..4].to_vec(), half.params[4..].to_vec());
    let rest = Job { params, states, optimizer_state: Some(half.state), ..job(&device, None) };
    let (sender, events) = mpsc::channel();
    let rate = first.learning_rate * 0.95f64.powi(8);
    let session = Session::start(Config { first_epoch: 9, learning_rate: rate, ..first }, rest, move |event| {
        drop(sender.send(event))
    });
    let session = session.unwrap();
    let mut epoch = 8;
    for event in events {
        if let Event::Epoch(_) = event {
            epoch += 1;
            session.answer(Answer::LearningRate(first.learning_rate * 0.95f64.powi(epoch))).unwrap();
        }
    }
    assert_close("resumed", &whole.params[..4], &session.parameters().0);
}

/// A mean of roots of squares, `|w * x|`: where `x` is 0 it is finite and its gradient is not.
fn rooted(rows: usize) -> Arc<Executable> {
    let inputs = vec![TensorType::new(Type::F32, [1]), TensorType::new(Type::F32, [rows])];
    let mut b = Builder(Program { inputs, ..Program::default() });
    let product = b.push(Op::Binary(Binary::Multiply), &[0, 1], &[rows]);
    let square = b.push(Op::Binary(Binary::Multiply), &[product, product], &[rows]);
    let root = b.push(Op::Unary(Unary::Sqrt), &[square], &[rows]);
    let sum = b.push(Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false }), &[root], &[]);
    let count = b.number(rows as f64);
    let loss = b.push(Op::Binary(Binary::Divide), &[sum, count], &[]);
    b.0.outputs = vec![loss];
    Arc::new(Executable::optimised(&b.0, vec![], &[]).unwrap())
}

#[test]
fn gradients_that_are_not_finite() {
    let Some((_turn, device)) = gpu() else { return };
    let job = |device: &Device| Job {
        steps: vec![rooted(BATCH), rooted(ROWS % BATCH)],
        params: vec![tensor(&[1], |_| 5.0).to_device(device).unwrap()],
        data: Some(vec![tensor(&[ROWS], |i| if i == 7 { 0.0 } else { 1.0 + i as f32 / 40.0 })]),
        ..Job::default()
    };
    let skip = Config { skip_non_finite: true, ..config(Rule::Sgd(Sgd::default())) };
    let (cpu, gpu) = (run(skip, job(&Device::Cpu)), run(skip, job(&device)));
    assert_eq!((cpu.skipped, gpu.skipped), (17, 17), "one batch of each epoch");
    assert_close("skip", &cpu.params, &gpu.params);
    let stop = Config { skip_non_finite: false, ..skip };
    let message = |device| run(stop, job(device)).error.expect("an error").to_string();
    assert!(message(&device).contains("gradient"), "{}", message(&device));
    assert_eq!(message(&Device::Cpu), message(&device));
}
