//! Runs whose gradient is the weighted mean of the rows, whatever the batches.

use std::sync::{Arc, mpsc};

use ex_burn_engine::exec::Executable;
use ex_burn_engine::program::{Binary, Constant, Fold, Instruction, Op, Program, Reduce};
use ex_burn_engine::train::{Answer, Config, Event, Job, Rule, Session, Sgd};
use ex_burn_engine::{Device, TensorType, Type, Value, scalar};

/// Rows with their weights, of which each is a batch, and what one step of gradient descent makes of a parameter of 0.
struct Case {
    dtype: Type,
    rows: Vec<(f64, f64)>,
    clip_norm: Option<f64>,
    rate: f64,
    end: f64,
}

/// What no sum holds, in units of any of its batches, and what small parts of vanish in 16 bits.
fn cases() -> Vec<Case> {
    let alike = |count, x| vec![(x, 1.0); count];
    let case = |dtype, rows, clip_norm, rate, end| Case { dtype, rows, clip_norm, rate, end };
    vec![
        case(Type::BF16, alike(512, 1.0), None, 1.0, -1.0),
        case(Type::F16, alike(100, 1000.0), None, 1e-3, -1.0),
        case(Type::F16, [alike(1, 2f64.powi(-20)), alike(127, 0.0)].concat(), None, 2f64.powi(27), -1.0),
        case(Type::F16, alike(2, 6e4), Some(1.0), 1.0, -1.0),
        // Exactly 0, of which a step of such a rate would show the least rest.
        case(Type::F32, [0.1, -0.1, 0.7, -0.7, 0.3, -0.3].map(|x| (x, 1.0)).to_vec(), None, 1e30, 0.0),
        case(Type::F32, alike(2, 2e38), Some(1.0), 1.0, -1.0),
        case(Type::F32, alike(3, 1e10), Some(1e-36), 1e36, -1.0),
        case(Type::F32, alike(3, 1e-25), Some(5e-26), 1e25, -0.5),
        case(Type::F32, alike(2, 1e38), Some(1e-36), 1e36, -1.0),
        case(Type::F32, vec![(1e10, 1e-30), (3.0, 1.0), (5.0, 1.0)], None, 1.0, -4.0),
        case(Type::F32, vec![(0.0, 0.0), (3.0, 1.0), (0.0, 0.0), (5.0, 3.0)], None, 1.0, -4.5),
    ]
}

/// `loss = p * sum(x * weight) / sum(weight)`, and the weight of the batch.
fn step(dtype: Type) -> Program {
    let (scalar, row) = (TensorType::new(dtype, []), TensorType::new(dtype, [1]));
    let instruction =
        |op, inputs: &[usize], ty: &TensorType| Instruction { op, inputs: inputs.to_vec(), outputs: vec![ty.clone()] };
    let sum = || Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false });
    let instructions = vec![
        instruction(sum(), &[2], &scalar),
        // A row that weighs nothing has no share of nothing.
        instruction(Op::Constant(Constant { bytes: scalar::from_f64(dtype, 1e-37) }), &[], &scalar),
        instruction(Op::Binary(Binary::Max), &[3, 4], &scalar),
        instruction(Op::Binary(Binary::Divide), &[2, 5], &row),
        instruction(Op::Binary(Binary::Multiply), &[1, 6], &row),
        instruction(sum(), &[7], &scalar),
        instruction(Op::Binary(Binary::Multiply), &[0, 8], &scalar),
    ];
    Program { inputs: vec![scalar.clone(), row.clone(), row], instructions, outputs: vec![9, 3] }
}

/// The parameter behind the step.
fn run(case: &Case, device: &Device) -> f64 {
    let value = |shape: &[usize], numbers: Vec<f64>| {
        let bytes = numbers.into_iter().flat_map(|x| scalar::from_f64(case.dtype, x)).collect();
        Value::from_bytes(&TensorType::new(case.dtype, shape), bytes, &Device::Cpu).expect("a tensor")
    };
    let (rows, weights): (Vec<f64>, Vec<f64>) = case.rows.iter().copied().unzip();
    let count = rows.len();
    let job = Job {
        steps: vec![Arc::new(Executable::optimised(&step(case.dtype), vec![], &[]).expect("a good program"))],
        params: vec![value(&[], vec![0.0]).to_device(device).expect("moved")],
        data: Some(vec![value(&[count], rows), value(&[count], weights)]),
        ..Job::default()
    };
    let config = Config {
        batch_size: 1,
        accumulate: count,
        weighted: true,
        learning_rate: case.rate,
        clip_norm: case.clip_norm,
        optimizer: Some(Rule::Sgd(Sgd::default())),
        ..Config::default()
    };
    let (sender, events) = mpsc::channel();
    let session = Session::start(config, job, move |event| drop(sender.send(event))).expect("a good job");
    for event in events {
        match event {
            Event::Epoch(_) => drop(session.answer(Answer::Continue).expect("an epoch waits")),
            Event::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
    session.parameters().0[0].clone().to_device(&Device::Cpu).expect("read").to_f64().expect("a number")
}

/// All cases on `device`.
pub(crate) fn check(device: &Device) {
    for case in cases() {
        let (got, end) = (run(&case, device), case.end);
        let tolerance = if case.dtype == Type::F32 { 1e-6 } else { 1e-2 };
        let Case { dtype, rows, clip_norm, .. } = &case;
        assert!((got - end).abs() <= tolerance, "{dtype} {:?} {clip_norm:?}: {got}, expected {end}", &rows[..2]);
    }
}
