//! Programs that are timed.

use ex_burn_engine::program::*;
use ex_burn_engine::{TensorType, Type};

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

    /// The last axis through the weights and the bias from `first` on.
    fn dense(&mut self, value: usize, first: usize, out: &[usize]) -> usize {
        let last = out.len() - 1;
        let dot = Dot { lhs_contract: vec![last], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
        let product = self.push(Op::Dot(dot), &[value, first], out);
        self.push(Op::Binary(Binary::Add), &[product, first + 1], out)
    }

    /// A fold of the last axis, which stays.
    fn fold(&mut self, fold: Fold, value: usize, shape: &[usize]) -> usize {
        let last = shape.len() - 1;
        let row = [&shape[..last], &[1]].concat();
        self.push(Op::Reduce(Reduce { fold, axes: Some(vec![last]), keep_axes: true }), &[value], &row)
    }

    fn softmax(&mut self, value: usize, shape: &[usize]) -> usize {
        let largest = self.fold(Fold::Max, value, shape);
        let below = self.push(Op::Binary(Binary::Subtract), &[value, largest], shape);
        let exp = self.push(Op::Unary(Unary::Exp), &[below], shape);
        let sum = self.fold(Fold::Sum, exp, shape);
        self.push(Op::Binary(Binary::Divide), &[exp, sum], shape)
    }

    /// With the scale and the bias from `first` on.
    fn layer_norm(&mut self, value: usize, first: usize, shape: &[usize]) -> usize {
        let last = shape.len() - 1;
        let row = [&shape[..last], &[1]].concat();
        let (count, least) = (self.number(shape[last] as f32), self.number(1e-5));
        let sum = self.fold(Fold::Sum, value, shape);
        let mean = self.push(Op::Binary(Binary::Divide), &[sum, count], &row);
        let distance = self.push(Op::Binary(Binary::Subtract), &[value, mean], shape);
        let square = self.push(Op::Binary(Binary::Multiply), &[distance, distance], shape);
        let sum = self.fold(Fold::Sum, square, shape);
        let variance = self.push(Op::Binary(Binary::Divide), &[sum, count], &row);
        let variance = self.push(Op::Binary(Binary::Add), &[variance, least], &row);
        let scale = self.push(Op::Unary(Unary::Rsqrt), &[variance], &row);
        let value = self.push(Op::Binary(Binary::Multiply), &[distance, scale], shape);
        let value = self.push(Op::Binary(Binary::Multiply), &[value, first], shape);
        self.push(Op::Binary(Binary::Add), &[value, first + 1], shape)
    }

    fn gelu(&mut self, value: usize, shape: &[usize]) -> usize {
        let (root, one, half) = (self.number(std::f32::consts::FRAC_1_SQRT_2), self.number(1.0), self.number(0.5));
        let scaled = self.push(Op::Binary(Binary::Multiply), &[value, root], shape);
        let erf = self.push(Op::Unary(Unary::Erf), &[scaled], shape);
        let sum = self.push(Op::Binary(Binary::Add), &[erf, one], shape);
        let product = self.push(Op::Binary(Binary::Multiply), &[value, sum], shape);
        self.push(Op::Binary(Binary::Multiply), &[product, half], shape)
    }

    fn end(mut self, result: usize) -> Program {
        self.program.outputs = vec![result];
        self.program
    }
}

pub(crate) fn one(op: Op, inputs: &[&[usize]], out: &[usize]) -> Program {
    let mut builder = Builder::new(inputs);
    let result = builder.push(op, &(0..inputs.len()).collect::<Vec<_>>(), out);
    builder.end(result)
}

pub(crate) fn chain(len: usize) -> Program {
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

pub(crate) fn softmax(rows: usize, columns: usize) -> Program {
    let mut b = Builder::new(&[&[rows, columns]]);
    let result = b.softmax(0, &[rows, columns]);
    b.end(result)
}

pub(crate) fn product(n: usize) -> Program {
    let dot = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
    one(Op::Dot(dot), &[&[n, n], &[n, n]], &[n, n])
}

pub(crate) fn convolution() -> Program {
    let conv = Conv { padding: vec![[1, 1]; 2], ..Conv::plain(2) };
    one(Op::Conv(conv), &[&[8, 64, 56, 56], &[64, 64, 3, 3]], &[8, 64, 56, 56])
}

pub(crate) fn sum(len: usize) -> Program {
    one(Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false }), &[&[len]], &[])
}

pub(crate) fn triangular(n: usize, sides: usize) -> Program {
    let attrs = TriangularSolve { lower: true, left_side: true, transform_a: TransformA::None };
    one(Op::TriangularSolve(attrs), &[&[n, n], &[n, sides]], &[n, sides])
}

/// Transforms of lines of real numbers.
pub(crate) fn fourier(lines: usize, length: usize) -> Program {
    let op = Op::Fft(Fft { transform: Transform::Fft, eps: 1e-10, length, axis: 1 });
    let mut program = one(op, &[&[lines, length]], &[lines, length]);
    program.instructions[0].outputs[0].dtype = Type::C64;
    program
}

/// A masked attention: heads, steps, and the size of each.
pub(crate) fn attention([heads, steps, size]: [usize; 3]) -> Program {
    let (operand, scores) = ([heads, steps, size], [heads, steps, steps]);
    let mut b = Builder::new(&[&operand, &operand, &operand, &[steps, steps]]);
    let dot = |rhs: usize| {
        Op::Dot(Dot { lhs_contract: vec![2], lhs_batch: vec![0], rhs_contract: vec![rhs], rhs_batch: vec![0] })
    };
    let scale = b.number(1.0 / (size as f32).sqrt());
    let products = b.push(dot(2), &[0, 1], &scores);
    let scaled = b.push(Op::Binary(Binary::Multiply), &[products, scale], &scores);
    let masked = b.push(Op::Binary(Binary::Add), &[scaled, 3], &scores);
    let weights = b.softmax(masked, &scores);
    let result = b.push(dot(1), &[weights, 2], &operand);
    b.end(result)
}

/// A layer of a transformer's encoder on `[8, 128, 256]` with 4 heads and 1,024 hidden units, as PyTorch's: norms come last.
pub(crate) fn encoder() -> Program {
    let (x, square, vector) = ([8, 128, 256], [256, 256], [256]);
    let (wide, hidden, narrow) = ([256, 1024], [1024], [1024, 256]);
    let layers: [&[usize]; 12] =
        [&square, &vector, &square, &vector, &square, &vector, &square, &vector, &wide, &hidden, &narrow, &vector];
    let norms: [&[usize]; 4] = [&vector; 4];
    let mut b = Builder::new(&[&[&x[..]], &layers[..], &norms].concat());
    let heads: Vec<usize> = (0..3)
        .map(|part| {
            let value = b.dense(0, 1 + 2 * part, &x);
            b.push(Op::Reshape, &[value], &[8, 128, 4, 64])
        })
        .collect();
    let axes = |lhs: [usize; 2], rhs: [usize; 2], lhs_contract: usize, rhs_contract: usize| {
        Op::Dot(Dot {
            lhs_contract: vec![lhs_contract],
            lhs_batch: lhs.to_vec(),
            rhs_contract: vec![rhs_contract],
            rhs_batch: rhs.to_vec(),
        })
    };
    let scores = [8, 4, 128, 128];
    let value = b.push(axes([0, 2], [0, 2], 3, 3), &[heads[0], heads[1]], &scores);
    let eighth = b.number(0.125);
    let value = b.push(Op::Binary(Binary::Multiply), &[value, eighth], &scores);
    let value = b.softmax(value, &scores);
    let value = b.push(axes([0, 1], [0, 2], 3, 1), &[value, heads[2]], &[8, 4, 128, 64]);
    let value = b.push(Op::Transpose(Axes { axes: vec![0, 2, 1, 3] }), &[value], &[8, 128, 4, 64]);
    let value = b.push(Op::Reshape, &[value], &x);
    let value = b.dense(value, 7, &x);
    let value = b.push(Op::Binary(Binary::Add), &[0, value], &x);
    let middle = b.layer_norm(value, 13, &x);
    let value = b.dense(middle, 9, &[8, 128, 1024]);
    let value = b.gelu(value, &[8, 128, 1024]);
    let value = b.dense(value, 11, &x);
    let value = b.push(Op::Binary(Binary::Add), &[middle, value], &x);
    let value = b.layer_norm(value, 15, &x);
    b.end(value)
}

/// Two hidden layers and the cross-entropy of labels that are given as one row each.
pub(crate) fn network(batch: usize) -> Program {
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
