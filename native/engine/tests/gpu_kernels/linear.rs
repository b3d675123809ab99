//! Products with what is done to their elements, and products of heads as they lie, of small whole numbers against loops over indices.

use ex_burn_engine::exec::Executable;
use ex_burn_engine::program::*;

use super::*;

/// Whole numbers from -4 to 4.
fn whole(seed: u64, len: usize) -> Vec<f32> {
    let mut next = random(seed);
    (0..len).map(|_| (next() * 9.0).floor() as f32 - 4.0).collect()
}

fn f32(shape: &[usize]) -> TensorType {
    TensorType::new(Type::F32, shape)
}

fn step(op: Op, inputs: &[usize], shape: &[usize]) -> Instruction {
    Instruction { op, inputs: inputs.to_vec(), outputs: vec![f32(shape)] }
}

/// `max(x w + b, 0) * c - d` with a number for each column, for each row, and for each element.
fn layer([rows, inner, columns]: [usize; 3]) -> Program {
    let out = [rows, columns];
    let dot = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
    let zero = Op::Constant(Constant { bytes: 0f32.to_le_bytes().to_vec() });
    Program {
        inputs: vec![f32(&[rows, inner]), f32(&[inner, columns]), f32(&[columns]), f32(&[rows, 1]), f32(&out)],
        instructions: vec![
            step(Op::Dot(dot), &[0, 1], &out),
            step(Op::Binary(Binary::Add), &[2, 5], &out),
            step(zero, &[], &[]),
            step(Op::Binary(Binary::Max), &[6, 7], &out),
            step(Op::Binary(Binary::Multiply), &[8, 3], &out),
            step(Op::Binary(Binary::Subtract), &[9, 4], &out),
        ],
        outputs: vec![10],
    }
}

#[test]
fn what_is_done_to_a_product_takes_no_kernel_of_its_own() {
    let Some(gpu) = gpu() else { return };
    // The last ones have so few tiles that the contracted axis is cut in parts, which are then summed by a kernel.
    for ([rows, inner, columns], kernels) in
        [([3, 40, 5], 1), ([300, 70, 130], 1), ([700, 33, 650], 1), ([5, 1000, 7], 2), ([70, 513, 66], 2)]
    {
        let program = layer([rows, inner, columns]);
        let inputs: Vec<Vec<f32>> =
            program.inputs.iter().zip(1..).map(|(ty, seed)| whole(seed, ty.shape.iter().product())).collect();
        let executable = Executable::optimised(&program, vec![], &[]).unwrap();
        let there =
            |(ty, numbers): (&TensorType, &Vec<f32>)| singles(&ty.shape, numbers).to_device(&gpu.device).unwrap();
        let values: Vec<Value> = program.inputs.iter().zip(&inputs).map(there).collect();
        let mut results = vec![];
        let run = || results = executable.run(values, &gpu.device).unwrap();
        assert_eq!(launches(run), kernels, "{rows} x {inner} x {columns}");
        let [x, w, b, c, d] = &inputs[..] else { unreachable!() };
        let expected = (0..rows * columns).map(|at| {
            let (m, n) = (at / columns, at % columns);
            let sum: f32 = (0..inner).map(|k| x[m * inner + k] * w[k * columns + n]).sum();
            f64::from((sum + b[n]).max(0.0) * c[m] - d[at])
        });
        assert!(
            floats(&results.remove(0).to_device(&Device::Cpu).unwrap()).into_iter().eq(expected),
            "{rows} x {inner} x {columns}"
        );
    }
}

#[test]
fn heads_are_multiplied_as_they_lie() {
    let Some(gpu) = gpu() else { return };
    let [batch, steps, heads, size, keys] = [3, 10, 4, 6, 9];
    let (queries, others) = ([batch, steps, heads, size], [batch, keys, heads, size]);
    let out = [batch, heads, steps, keys];
    let (lhs, rhs) = (whole(1, queries.iter().product()), whole(2, others.iter().product()));
    let dot =
        Op::Dot(Dot { lhs_contract: vec![3], lhs_batch: vec![0, 2], rhs_contract: vec![3], rhs_batch: vec![0, 2] });
    let there = [singles(&queries, &lhs), singles(&others, &rhs)].map(|value| value.to_device(&gpu.device).unwrap());
    let mut results = vec![];
    let run = || results = exec::instruction(&dot, there.to_vec(), &[f32(&out)], &gpu.device).unwrap();
    assert_eq!(launches(run), 1);
    let expected = (0..out.iter().product()).map(|at: usize| {
        let (b, h, m, n) = (at / (keys * steps * heads), at / (keys * steps) % heads, at / keys % steps, at % keys);
        let term = |k| lhs[((b * steps + m) * heads + h) * size + k] * rhs[((b * keys + n) * heads + h) * size + k];
        f64::from((0..size).map(term).sum::<f32>())
    });
    assert!(floats(&results.remove(0).to_device(&Device::Cpu).unwrap()).into_iter().eq(expected));
}
