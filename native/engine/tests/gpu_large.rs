//! Operations that are computed another way on a GPU where they are large, against the CPU. Needs a driver, as `gpu.rs` does.
#![cfg(feature = "gpu")]

#[path = "tools/gpu.rs"]
mod machine;

use ex_burn_engine::exec::Executable;
use ex_burn_engine::program::*;
use ex_burn_engine::{Device, TensorType, Type, Value};

fn gpu() -> Option<Device> {
    machine::adapter().map(Device::Gpu)
}

fn tensor(shape: &[usize], seed: usize) -> Value {
    let number = |i: usize| ((i * 37 + seed * 11) as f32 * 0.618).sin();
    let bytes = (0..shape.iter().product()).flat_map(|i| number(i).to_le_bytes()).collect();
    Value::from_bytes(&TensorType::new(Type::F32, shape), bytes, &Device::Cpu).unwrap()
}

fn floats(value: &Value) -> Vec<f32> {
    let bytes = value.clone().into_bytes().unwrap();
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// Both within a share of the largest element.
fn same(device: &Device, program: &Program, share: f32) {
    let inputs: Vec<Value> = program.inputs.iter().enumerate().map(|(n, ty)| tensor(&ty.shape, n)).collect();
    let executable = Executable::optimised(program, vec![], &[]).unwrap();
    let cpu = executable.run(inputs.clone(), &Device::Cpu).unwrap();
    let gpu = executable.run(inputs, device).unwrap();
    for (cpu, gpu) in cpu.iter().zip(&gpu) {
        assert_eq!((gpu.device(), gpu.ty()), (device.clone(), cpu.ty()));
        let (cpu, gpu) = (floats(cpu), floats(gpu));
        let scale = cpu.iter().fold(0f32, |scale, x| scale.max(x.abs()));
        let error = cpu.iter().zip(&gpu).fold(0f32, |error, (a, b)| error.max((a - b).abs()));
        assert!(error <= share * scale, "{error} beside {scale}: {program:?}");
    }
}

fn single(shape: &[usize]) -> TensorType {
    TensorType::new(Type::F32, shape)
}

#[test]
fn convolutions() {
    let Some(device) = gpu() else { return };
    let plain = Conv { padding: vec![[1, 1]; 2], ..Conv::plain(2) };
    let last = vec![0, 3, 1, 2];
    let cases = [
        (plain.clone(), [2, 16, 20, 21], [24, 16, 3, 3], [2, 24, 20, 21]),
        (
            Conv { strides: vec![2, 3], kernel_dilation: vec![2, 1], padding: vec![[2, 1], [0, 2]], ..plain.clone() },
            [3, 16, 24, 33],
            [32, 16, 3, 2],
            [3, 32, 12, 12],
        ),
        (
            Conv { input_dilation: vec![2, 1], padding: vec![[0, 1], [-1, 0]], ..plain.clone() },
            [1, 32, 10, 22],
            [32, 32, 2, 3],
            [1, 32, 19, 19],
        ),
        (
            Conv {
                input_permutation: last.clone(),
                output_permutation: last,
                kernel_permutation: vec![3, 2, 0, 1],
                ..plain
            },
            [2, 20, 21, 16],
            [3, 3, 16, 24],
            [2, 20, 21, 24],
        ),
    ];
    for (conv, x, kernel, out) in cases {
        let instruction = Instruction { op: Op::Conv(conv), inputs: vec![0, 1], outputs: vec![single(&out)] };
        let inputs = vec![single(&x), single(&kernel)];
        same(&device, &Program { inputs, instructions: vec![instruction], outputs: vec![2] }, 2e-6);
    }
}

/// A softmax of rows, what it weighs, and sums that were folded on the way. The operands repeat in all ways.
fn rows(rows: usize, columns: usize) -> Program {
    let (whole, row) = (single(&[rows, columns]), single(&[rows, 1]));
    let inputs = vec![whole.clone(), single(&[1, columns]), row.clone(), single(&[1, 1])];
    let mut program = Program { inputs, ..Program::default() };
    let mut push = |op: Op, inputs: &[usize], ty: &TensorType| {
        program.instructions.push(Instruction { op, inputs: inputs.to_vec(), outputs: vec![ty.clone()] });
        program.instructions.len() + 3
    };
    let fold = |fold| Op::Reduce(Reduce { fold, axes: Some(vec![1]), keep_axes: true });
    let two = Op::Binary;
    let largest = push(fold(Fold::Max), &[0], &row);
    let below = push(two(Binary::Subtract), &[0, largest], &whole);
    let exp = push(Op::Unary(Unary::Exp), &[below], &whole);
    let sum = push(fold(Fold::Sum), &[exp], &row);
    let soft = push(two(Binary::Divide), &[exp, sum], &whole);
    let square = push(two(Binary::Multiply), &[soft, 0], &whole);
    let energy = push(fold(Fold::Sum), &[square], &row);
    let apart = push(two(Binary::Subtract), &[square, energy], &whole);
    let [by_column, by_row] = [1, 2].map(|id| push(two(Binary::Multiply), &[apart, id], &whole));
    let sum = push(two(Binary::Add), &[by_column, by_row], &whole);
    let result = push(two(Binary::Add), &[sum, 3], &whole);
    program.outputs = vec![result, soft, energy];
    program
}

#[test]
fn rows_in_one_kernel() {
    let Some(device) = gpu() else { return };
    for (count, columns) in [(3, 32), (5, 33), (64, 100), (2, 1000), (7, 4097)] {
        same(&device, &rows(count, columns), 4e-6);
    }
}
