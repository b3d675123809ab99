//! Linear regression: the program, and the same mathematics in plain `f64`.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use ex_burn_engine::exec::Executable;
use ex_burn_engine::program::{Binary, Constant, Dot, Fold, Instruction, Op, Program, Reduce};
use ex_burn_engine::train::{Config, Event, Job, Rule, Session, Sgd};
use ex_burn_engine::{Device, TensorType, Type, Value, scalar};

/// Columns of `x`.
pub(crate) const COLUMNS: usize = 3;

/// Adds instructions to a program whose inputs are known.
pub(crate) struct Builder(Program);

impl Builder {
    pub(crate) fn new(inputs: Vec<TensorType>) -> Self {
        Self(Program { inputs, ..Program::default() })
    }

    pub(crate) fn push(&mut self, op: Op, inputs: &[usize], dtype: Type, shape: &[usize]) -> usize {
        let output = TensorType::new(dtype, shape);
        self.0.instructions.push(Instruction { op, inputs: inputs.to_vec(), outputs: vec![output] });
        self.0.inputs.len() + self.0.instructions.len() - 1
    }

    pub(crate) fn constant(&mut self, dtype: Type, number: f64) -> usize {
        let bytes = scalar::from_f64(dtype, number);
        self.push(Op::Constant(Constant { bytes }), &[], dtype, &[])
    }

    pub(crate) fn finish(mut self, outputs: &[usize]) -> Arc<Executable> {
        self.0.outputs = outputs.to_vec();
        Arc::new(Executable::new(&self.0, vec![]).expect("a good program"))
    }
}

pub(crate) fn sum() -> Op {
    Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false })
}

pub(crate) fn matmul() -> Op {
    Op::Dot(Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] })
}

/// Inputs `w, b, count, x, y`; outputs the mean squared error and the mean error, and with `step` `count + 1`.
pub(crate) fn program(dtype: Type, rows: usize, step: bool) -> Arc<Executable> {
    let shapes: [&[usize]; 5] = [&[COLUMNS], &[], &[1], &[rows, COLUMNS], &[rows]];
    let mut b = Builder::new(shapes.iter().map(|shape| TensorType::new(dtype, *shape)).collect());
    let product = b.push(matmul(), &[3, 0], dtype, &[rows]);
    let guess = b.push(Op::Binary(Binary::Add), &[product, 1], dtype, &[rows]);
    let error = b.push(Op::Binary(Binary::Subtract), &[guess, 4], dtype, &[rows]);
    let square = b.push(Op::Binary(Binary::Multiply), &[error, error], dtype, &[rows]);
    let (total, squares) = (b.push(sum(), &[error], dtype, &[]), b.push(sum(), &[square], dtype, &[]));
    let (one, n) = (b.constant(dtype, 1.0), b.constant(dtype, rows as f64));
    let loss = b.push(Op::Binary(Binary::Divide), &[squares, n], dtype, &[]);
    let metric = b.push(Op::Binary(Binary::Divide), &[total, n], dtype, &[]);
    let next = b.push(Op::Binary(Binary::Add), &[2, one], dtype, &[1]);
    if step { b.finish(&[loss, metric, next]) } else { b.finish(&[loss, metric]) }
}

/// The rows and the parameters, which start at 0.
#[derive(Clone)]
pub(crate) struct Linear {
    pub(crate) x: Vec<[f64; COLUMNS]>,
    pub(crate) y: Vec<f64>,
    pub(crate) w: [f64; COLUMNS],
    pub(crate) b: f64,
}

/// Loss, mean error and the gradients of `w` and `b` over some rows.
pub(crate) struct Reference {
    pub(crate) loss: f64,
    pub(crate) error: f64,
    pub(crate) w: [f64; COLUMNS],
    pub(crate) b: f64,
}

impl Linear {
    /// Rows without a pattern that would make a wrong order look right.
    pub(crate) fn new(rows: usize) -> Self {
        let x: Vec<[f64; COLUMNS]> =
            (0..rows).map(|i| std::array::from_fn(|j| ((i * i + 3 * i * j + j) % 17) as f64 / 8.0 - 1.0)).collect();
        let y = x.iter().enumerate().map(|(i, x)| 2.0 * x[0] - x[1] + 0.5 + (i % 5) as f64 / 16.0).collect();
        Self { x, y, w: [0.0; COLUMNS], b: 0.0 }
    }

    /// `loss = mean(e^2)` with `e = x w + b - y`, so `dw = 2 mean(e x)` and `db = 2 mean(e)`.
    pub(crate) fn at(&self, rows: &[i64]) -> Reference {
        let mut sums = Reference { loss: 0.0, error: 0.0, w: [0.0; COLUMNS], b: 0.0 };
        let n = rows.len() as f64;
        for &row in rows {
            let x = self.x[row as usize];
            let error = x.iter().zip(self.w).map(|(x, w)| x * w).sum::<f64>() + self.b - self.y[row as usize];
            sums.loss += error * error / n;
            sums.error += error / n;
            sums.b += 2.0 * error / n;
            (0..COLUMNS).for_each(|j| sums.w[j] += 2.0 * error * x[j] / n);
        }
        sums
    }

    /// One step of plain gradient descent.
    pub(crate) fn descend(&mut self, rows: &[i64], rate: f64) -> Reference {
        let here = self.at(rows);
        (0..COLUMNS).for_each(|j| self.w[j] -= rate * here.w[j]);
        self.b -= rate * here.b;
        here
    }

    pub(crate) fn params(&self, dtype: Type) -> Vec<Value> {
        vec![tensor(dtype, &[COLUMNS], &self.w), tensor(dtype, &[], &[self.b])]
    }

    pub(crate) fn batch(&self, dtype: Type, rows: &[i64]) -> Vec<Value> {
        let x: Vec<f64> = rows.iter().flat_map(|&row| self.x[row as usize]).collect();
        let y: Vec<f64> = rows.iter().map(|&row| self.y[row as usize]).collect();
        vec![tensor(dtype, &[rows.len(), COLUMNS], &x), tensor(dtype, &[rows.len()], &y)]
    }

    /// A job in `f64` over all rows, in batches of the given sizes.
    pub(crate) fn job(&self, sizes: &[usize]) -> Job {
        let all: Vec<i64> = (0..self.y.len() as i64).collect();
        Job {
            steps: sizes.iter().map(|&size| program(Type::F64, size, true)).collect(),
            params: self.params(Type::F64),
            states: vec![tensor(Type::F64, &[1], &[0.0])],
            data: Some(self.batch(Type::F64, &all)),
            ..Job::default()
        }
    }
}

pub(crate) fn config(batch_size: usize, epochs: usize) -> Config {
    let optimizer = Some(Rule::Sgd(Sgd::default()));
    Config { epochs, batch_size, shuffle: true, seed: 7, learning_rate: 0.05, optimizer, ..Config::default() }
}

pub(crate) fn start(config: Config, job: Job) -> (Session, Receiver<Event>) {
    let (sender, events) = channel();
    let session = Session::start(config, job, move |event| drop(sender.send(event))).expect("a good job");
    (session, events)
}

pub(crate) fn tensor(dtype: Type, shape: &[usize], elements: &[f64]) -> Value {
    let bytes = elements.iter().flat_map(|&x| scalar::from_f64(dtype, x)).collect();
    Value::from_bytes(&TensorType::new(dtype, shape), bytes, &Device::Cpu).expect("a good tensor")
}

pub(crate) fn elements(value: &Value) -> Vec<f64> {
    let bytes = value.clone().into_bytes().expect("readable");
    let each = bytes.chunks(value.dtype().size());
    each.map(|bytes| scalar::to_f64(value.dtype(), bytes).expect("a real type")).collect()
}

pub(crate) fn assert_close(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "element {i}: {got}, expected {want}");
    }
}
