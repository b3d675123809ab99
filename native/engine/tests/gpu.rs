//! Every operation with a kernel on a GPU, against the CPU. Needs a driver: with `EX_BURN_TEST_DEVICE=gpu`, or the kind of GPU such
//! as `cuda`, none is an error, otherwise the tests do nothing without one and say so.
#![cfg(feature = "gpu")]

#[path = "tools/gpu.rs"]
mod machine;

use std::sync::{Mutex, MutexGuard};

use ex_burn_engine::exec;
use ex_burn_engine::gpu::fallback;
use ex_burn_engine::program::*;
use ex_burn_engine::{Device, TensorType, Type, Value, ops};

/// What runs on the CPU instead is counted for the whole process, so tests take turns.
static TURN: Mutex<()> = Mutex::new(());

fn gpu() -> Option<(MutexGuard<'static, ()>, Device)> {
    let adapter = machine::adapter();
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    adapter.map(|adapter| (turn, Device::Gpu(adapter)))
}

/// A number for each index, of all sizes and both signs; every 31st is one of those at the ends.
fn numbers(len: usize, seed: u64) -> Vec<f32> {
    const ENDS: [f32; 12] =
        [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, 0.5, -0.5, 88.0, -103.0];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..len)
        .map(|i| {
            let size = (next() * 16.0 - 10.0).exp2();
            let x = if next() < 0.5 { -size } else { size };
            if i % 31 == 0 { ENDS[(i / 31) % ENDS.len()] } else { x }
        })
        .collect()
}

fn single(shape: &[usize], seed: u64) -> Value {
    let bytes = numbers(shape.iter().product(), seed).into_iter().flat_map(f32::to_le_bytes).collect();
    Value::from_bytes(&TensorType::new(Type::F32, shape), bytes, &Device::Cpu).unwrap()
}

/// Numbers of a type: those of [`single`] that it holds.
fn value(dtype: Type, shape: &[usize], seed: u64) -> Value {
    ops::cast(single(shape, seed), dtype).unwrap()
}

fn floats(value: &Value) -> Vec<f64> {
    let wide = ops::cast(value.clone(), Type::F64).unwrap();
    let bytes = wide.into_bytes().unwrap();
    bytes.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// Runs the operation on both devices and compares, in units of the last place of the larger result.
fn same(device: &Device, op: &Op, inputs: &[Value], out: TensorType, units: f64) {
    let cpu = exec::instruction(op, inputs.to_vec(), std::slice::from_ref(&out), &Device::Cpu).unwrap();
    let there: Vec<Value> = inputs.iter().map(|value| value.clone().to_device(device).unwrap()).collect();
    fallback::take();
    let gpu = exec::instruction(op, there, std::slice::from_ref(&out), device).unwrap();
    assert_eq!(fallback::take(), [], "{op} of {out} has no kernel");
    assert_eq!(gpu[0].device(), *device);
    let epsilon = match out.dtype {
        Type::BF16 => 1.0 / 128.0,
        Type::F16 => 1.0 / 1024.0,
        Type::F32 => f64::from(f32::EPSILON),
        _ => 0.0,
    };
    let least = f64::from(f32::MIN_POSITIVE);
    let back = gpu[0].clone().to_device(&Device::Cpu).unwrap();
    for (i, (a, b)) in floats(&cpu[0]).into_iter().zip(floats(&back)).enumerate() {
        let close = (a - b).abs() <= units * epsilon * a.abs().max(least);
        assert!(close || a == b || (a.is_nan() && b.is_nan()), "{op} of {out} at {i}: {a} on the CPU, {b} on the GPU");
    }
}

#[test]
fn small_halves() {
    let Some((_turn, device)) = gpu() else { return };
    let sizes = [1e-9f32, 2.9e-8, 3.0e-8, 4.4e-8, 8.9e-8, 5.5e-6, 6.097_555e-5, 6.1e-5, 65519.9, 65520.0];
    let bytes = sizes.into_iter().flat_map(f32::to_le_bytes).collect();
    let x = Value::from_bytes(&TensorType::new(Type::F32, [10]), bytes, &Device::Cpu).unwrap();
    same(&device, &Op::Cast, &[x], TensorType::new(Type::F16, [10]), 0.0);
}

const UNARY: [(Unary, f64); 19] = [
    (Unary::Abs, 0.0),
    (Unary::Ceil, 0.0),
    (Unary::Cos, 2.0),
    (Unary::Erf, 2.0),
    (Unary::Exp, 2.0),
    (Unary::Expm1, 2.0),
    (Unary::Floor, 0.0),
    (Unary::IsInfinity, 0.0),
    (Unary::IsNan, 0.0),
    (Unary::Log, 2.0),
    (Unary::Log1p, 2.0),
    (Unary::LogicalNot, 0.0),
    (Unary::Negate, 0.0),
    (Unary::Round, 0.0),
    (Unary::Rsqrt, 4.0),
    (Unary::Sigmoid, 4.0),
    (Unary::Sign, 0.0),
    (Unary::Sin, 2.0),
    (Unary::Sqrt, 2.0),
];

#[test]
fn functions_of_one_float() {
    let Some((_turn, device)) = gpu() else { return };
    let mut failed = false;
    for (op, units) in UNARY.into_iter().chain([(Unary::Tanh, 2.0)]) {
        let predicate = matches!(op, Unary::IsInfinity | Unary::IsNan | Unary::LogicalNot);
        for dtype in [Type::F32, Type::F16, Type::BF16] {
            let out = if predicate { Type::U8 } else { dtype };
            let units = if dtype == Type::F32 { units } else { units.min(1.0) };
            let (x, out) = (value(dtype, &[37, 41], 1), TensorType::new(out, [37, 41]));
            let run = || same(&device, &Op::Unary(op), &[x], out, units);
            failed |= std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err();
        }
    }
    assert!(!failed);
}

#[test]
fn functions_of_two_floats() {
    use Binary::*;
    let Some((_turn, device)) = gpu() else { return };
    let arithmetic = [(Add, 0.0), (Divide, 3.0), (Max, 0.0), (Min, 0.0), (Multiply, 0.0), (Subtract, 0.0)];
    let predicates = [Equal, NotEqual, Greater, GreaterEqual, Less, LessEqual, LogicalAnd, LogicalOr, LogicalXor];
    for dtype in [Type::F32, Type::F16, Type::BF16] {
        let (a, b) = (value(dtype, &[5, 1, 37], 1), value(dtype, &[41, 1], 2));
        for (op, units) in arithmetic {
            same(&device, &Op::Binary(op), &[a.clone(), b.clone()], TensorType::new(dtype, [5, 41, 37]), units);
        }
        for op in predicates {
            same(&device, &Op::Binary(op), &[a.clone(), b.clone()], TensorType::new(Type::U8, [5, 41, 37]), 0.0);
            same(&device, &Op::Binary(op), &[a.clone(), a.clone()], TensorType::new(Type::U8, [5, 1, 37]), 0.0);
        }
    }
}

const INTEGERS: [Type; 6] = [Type::U8, Type::U16, Type::U32, Type::S8, Type::S16, Type::S32];

#[test]
fn functions_of_integers() {
    use Binary::*;
    let Some((_turn, device)) = gpu() else { return };
    for dtype in INTEGERS {
        let (a, b) = (value(dtype, &[300], 1), value(dtype, &[300], 2));
        for op in [Add, Subtract, Multiply, Max, Min, BitwiseAnd, BitwiseOr, BitwiseXor] {
            same(&device, &Op::Binary(op), &[a.clone(), b.clone()], TensorType::new(dtype, [300]), 0.0);
        }
        for op in [Equal, NotEqual, Greater, Less, LessEqual, LogicalAnd, LogicalXor] {
            same(&device, &Op::Binary(op), &[a.clone(), b.clone()], TensorType::new(Type::U8, [300]), 0.0);
        }
        for op in [Unary::Abs, Unary::Negate, Unary::Sign, Unary::BitwiseNot, Unary::LogicalNot] {
            let out = if op == Unary::LogicalNot { Type::U8 } else { dtype };
            same(&device, &Op::Unary(op), std::slice::from_ref(&a), TensorType::new(out, [300]), 0.0);
        }
    }
    let (a, b) = (value(Type::U32, &[300], 1), ops::cast(value(Type::U8, &[300], 2), Type::U32).unwrap());
    for op in [LeftShift, RightShift] {
        same(&device, &Op::Binary(op), &[a.clone(), b.clone()], TensorType::new(Type::U32, [300]), 0.0);
    }
}

#[test]
fn casts() {
    let Some((_turn, device)) = gpu() else { return };
    let floats = [Type::F32, Type::F16, Type::BF16];
    for from in INTEGERS.into_iter().chain(floats) {
        for to in INTEGERS.into_iter().chain(floats) {
            if from.is_int() && from.bits() == 32 && to.is_float() && to.bits() < 32 {
                continue;
            }
            same(&device, &Op::Cast, &[value(from, &[1000], 3)], TensorType::new(to, [1000]), 0.0);
        }
    }
}

#[test]
fn choices() {
    let Some((_turn, device)) = gpu() else { return };
    let inputs = [value(Type::S16, &[4, 1], 1), single(&[7], 2), single(&[], 3)];
    same(&device, &Op::Select, &inputs, TensorType::new(Type::F32, [4, 7]), 0.0);
    let limits = [single(&[50], 1), value(Type::F32, &[], 40), ops::cast(value(Type::U8, &[], 7), Type::F32).unwrap()];
    same(&device, &Op::Clip, &limits, TensorType::new(Type::F32, [50]), 0.0);
}

#[test]
fn movements() {
    let Some((_turn, device)) = gpu() else { return };
    for dtype in [Type::F32, Type::U8, Type::BF16] {
        let x = value(dtype, &[4, 5, 6], 1);
        let of = |shape: &[usize]| TensorType::new(dtype, shape);
        let axes = |axes: &[usize]| Axes { axes: axes.to_vec() };
        same(&device, &Op::Reshape, std::slice::from_ref(&x), of(&[2, 60]), 0.0);
        same(&device, &Op::Transpose(axes(&[2, 0, 1])), std::slice::from_ref(&x), of(&[6, 4, 5]), 0.0);
        same(&device, &Op::Reverse(axes(&[0, 2])), std::slice::from_ref(&x), of(&[4, 5, 6]), 0.0);
        same(&device, &Op::Broadcast(axes(&[1, 2, 3])), std::slice::from_ref(&x), of(&[3, 4, 5, 6]), 0.0);
        let slice = Slice { starts: vec![1, 0, 2], lengths: vec![3, 5, 4], strides: vec![2, 3, 1] };
        same(&device, &Op::Slice(slice), &[x], of(&[2, 2, 4]), 0.0);
    }
}

#[test]
fn reductions() {
    let Some((_turn, device)) = gpu() else { return };
    let folds = [Fold::All, Fold::Any, Fold::Sum, Fold::Max, Fold::Min];
    let shape = [3usize, 40, 70];
    for fold in folds {
        for axes in [vec![0], vec![1], vec![2], vec![0, 2], vec![0, 1, 2]] {
            for dtype in [Type::F32, Type::S32, Type::U32] {
                let x = ops::cast(value(Type::S8, &shape, 5), dtype).unwrap();
                let kept: Vec<usize> = (0..3).filter(|axis| !axes.contains(axis)).map(|axis| shape[axis]).collect();
                let out = if matches!(fold, Fold::All | Fold::Any) { Type::U8 } else { dtype };
                let op = Op::Reduce(Reduce { fold, axes: Some(axes.clone()), keep_axes: false });
                same(&device, &op, &[x], TensorType::new(out, kept), 2.0);
            }
        }
    }
    let long = ops::cast(value(Type::U8, &[300_000], 5), Type::F32).unwrap();
    let op = Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false });
    same(&device, &op, &[long], TensorType::new(Type::F32, []), 2.0);
}

#[test]
fn products() {
    let Some((_turn, device)) = gpu() else { return };
    let dot = |lhs_contract: usize, rhs_contract: usize, batch: &[usize]| {
        Op::Dot(Dot {
            lhs_contract: vec![lhs_contract],
            lhs_batch: batch.to_vec(),
            rhs_contract: vec![rhs_contract],
            rhs_batch: batch.to_vec(),
        })
    };
    for dtype in [Type::F32, Type::S32, Type::U8] {
        let small = |shape: &[usize], seed| ops::cast(value(Type::S8, shape, seed), dtype).unwrap();
        let of = |shape: &[usize]| TensorType::new(dtype, shape);
        same(&device, &dot(1, 0, &[]), &[small(&[37, 65], 1), small(&[65, 20], 2)], of(&[37, 20]), 8.0);
        same(&device, &dot(0, 1, &[]), &[small(&[65, 37], 1), small(&[20, 65], 2)], of(&[37, 20]), 8.0);
        same(&device, &dot(2, 1, &[0]), &[small(&[3, 7, 9], 1), small(&[3, 9, 5], 2)], of(&[3, 7, 5]), 8.0);
    }
}

#[test]
fn what_has_no_kernel_runs_on_the_cpu_and_is_counted() {
    let Some((_turn, device)) = gpu() else { return };
    let x = single(&[9], 1);
    let op = Op::Unary(Unary::Acosh);
    let there = x.clone().to_device(&device).unwrap();
    fallback::take();
    let result = exec::instruction(&op, vec![there], &[x.ty()], &device).unwrap();
    assert_eq!(fallback::take(), [("acosh".to_string(), "f32", 1)]);
    assert_eq!(result[0].device(), device);
}

#[test]
fn windows() {
    let Some((_turn, device)) = gpu() else { return };
    for dtype in [Type::F32, Type::S32] {
        let x = ops::cast(value(Type::S8, &[3, 17, 13], 1), dtype).unwrap();
        let windows = Windows {
            dimensions: vec![1, 3, 2],
            padding: vec![[0, 0], [2, 1], [-1, 3]],
            strides: vec![1, 2, 1],
            dilations: vec![1, 2, 3],
        };
        let out = TensorType::new(dtype, [3, (17 + 3 - 5) / 2 + 1, 13 + 2 - 4 + 1]);
        for fold in [Fold::Sum, Fold::Max, Fold::Min] {
            let op = Op::WindowReduce(WindowReduce { fold, windows: windows.clone() });
            same(&device, &op, std::slice::from_ref(&x), out.clone(), 2.0);
        }
    }
}

#[test]
fn convolutions() {
    let Some((_turn, device)) = gpu() else { return };
    let small = |shape: &[usize], seed| ops::cast(value(Type::S8, shape, seed), Type::F32).unwrap();
    let plain = Conv { padding: vec![[1, 1]; 2], ..Conv::plain(2) };
    let inputs = [small(&[2, 4, 9, 8], 1), small(&[6, 4, 3, 3], 2)];
    same(&device, &Op::Conv(plain.clone()), &inputs, TensorType::new(Type::F32, [2, 6, 9, 8]), 4.0);
    let spread = Conv {
        strides: vec![2, 1],
        padding: vec![[2, -1], [0, 3]],
        input_dilation: vec![2, 3],
        kernel_dilation: vec![2, 1],
        feature_group_size: 2,
        ..plain.clone()
    };
    let inputs = [small(&[2, 4, 9, 8], 1), small(&[6, 2, 3, 3], 2)];
    let out = TensorType::new(Type::F32, [2, 6, (17 + 1 - 5) / 2 + 1, 22 + 3 - 3 + 1]);
    same(&device, &Op::Conv(spread), &inputs, out, 4.0);
    let last = Conv {
        input_permutation: vec![0, 3, 1, 2],
        kernel_permutation: vec![3, 2, 0, 1],
        output_permutation: vec![0, 3, 1, 2],
        ..plain
    };
    let inputs = [small(&[2, 9, 8, 4], 1), small(&[3, 3, 4, 6], 2)];
    same(&device, &Op::Conv(last), &inputs, TensorType::new(Type::F32, [2, 9, 8, 6]), 4.0);
}

#[test]
fn gathers() {
    let Some((_turn, device)) = gpu() else { return };
    let places = |numbers: &[i32], shape: &[usize]| {
        let bytes = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        Value::from_bytes(&TensorType::new(Type::S32, shape), bytes, &Device::Cpu).unwrap()
    };
    let x = single(&[4, 5, 6], 1);
    let of = |shape: &[usize]| TensorType::new(Type::F32, shape);
    let two = places(&[3, 0, 1, 1, 2, 4], &[2, 3]);
    same(&device, &Op::Take(Axis { axis: 1 }), &[x.clone(), two.clone()], of(&[4, 2, 3, 6]), 0.0);
    let pairs = places(&[3, 0, 1, 5, 2, 4], &[3, 2]);
    same(&device, &Op::Gather(Axes { axes: vec![0, 2] }), &[x.clone(), pairs], of(&[3, 5]), 0.0);
    let along = places(&[0, 3, 2, 1, 0, 3, 1, 1, 2, 0, 3, 3], &[4, 3]);
    let line = single(&[4, 4], 2);
    same(&device, &Op::TakeAlongAxis(Axis { axis: 1 }), &[line, along], of(&[4, 3]), 0.0);
    let starts = [places(&[9], &[]), places(&[-3], &[]), places(&[2], &[])];
    let slice = Op::DynamicSlice(DynamicSlice { lengths: vec![2, 3, 4], strides: vec![1, 2, 1] });
    let inputs = [&[x][..], &starts].concat();
    same(&device, &slice, &inputs, of(&[2, 2, 4]), 0.0);
}

#[test]
fn results_of_parts() {
    let Some((_turn, device)) = gpu() else { return };
    let x = single(&[4, 5], 1);
    let of = |shape: &[usize]| TensorType::new(Type::F32, shape);
    let cases = [([1, 2, 0], [0, 1, 2]), ([-1, 0, 1], [2, -3, 0]), ([-3, 1, 2], [-2, -2, 1])];
    for (rows, columns) in cases {
        let length = |n: i64, [low, high, interior]: [i64; 3]| (n + (n - 1) * interior + low + high) as usize;
        let out = of(&[length(4, rows), length(5, columns)]);
        same(&device, &Op::Pad(Pad { config: vec![rows, columns] }), &[x.clone(), value(Type::F32, &[], 5)], out, 0.0);
    }
    let parts = [x.clone(), single(&[4, 3], 2), single(&[4, 1], 3)];
    same(&device, &Op::Concatenate(Axis { axis: 1 }), &parts, of(&[4, 9]), 0.0);
    same(&device, &Op::Stack(Axis { axis: 1 }), &[x.clone(), single(&[4, 5], 2)], of(&[4, 2, 5]), 0.0);
    let start =
        |n: i32| Value::from_bytes(&TensorType::new(Type::S32, []), n.to_le_bytes().to_vec(), &Device::Cpu).unwrap();
    same(&device, &Op::PutSlice, &[x, single(&[2, 2], 4), start(9), start(-1)], of(&[4, 5]), 0.0);
}

/// A program of f32 tensors of one shape, of which rows are folded.
fn rows(shape: &[usize], ops: Vec<(Op, Vec<usize>, bool)>) -> Program {
    let row = [&shape[..shape.len() - 1], &[1]].concat();
    let of = |shape: &[usize]| TensorType::new(Type::F32, shape);
    let instructions: Vec<Instruction> = ops
        .into_iter()
        .map(|(op, inputs, folded)| Instruction { op, inputs, outputs: vec![of(if folded { &row } else { shape })] })
        .collect();
    Program { inputs: vec![of(shape)], outputs: vec![instructions.len()], instructions }
}

#[test]
fn regions_that_fold_rows() {
    let Some((_turn, device)) = gpu() else { return };
    let fold = |fold| Op::Reduce(Reduce { fold, axes: Some(vec![2]), keep_axes: true });
    let binary = |op: Binary, a: usize, b: usize| (Op::Binary(op), vec![a, b], false);
    let shape = [3, 50, 77];
    let softmax = vec![
        (fold(Fold::Max), vec![0], true),
        binary(Binary::Subtract, 0, 1),
        (Op::Unary(Unary::Exp), vec![2], false),
        (fold(Fold::Sum), vec![3], true),
        binary(Binary::Divide, 3, 4),
    ];
    let distances = vec![
        (fold(Fold::Sum), vec![0], true),
        binary(Binary::Subtract, 0, 1),
        binary(Binary::Multiply, 2, 2),
        (fold(Fold::Sum), vec![3], true),
        (Op::Unary(Unary::Sqrt), vec![4], true),
    ];
    let x = ops::cast(value(Type::S8, &shape, 3), Type::F32).unwrap();
    for ops in [softmax, distances] {
        let program = rows(&shape, ops);
        let executable = exec::Executable::optimised(&program, vec![], &[]).unwrap();
        assert!(matches!(executable.program().instructions[..], [Instruction { op: Op::Fused(_), .. }]));
        let cpu = executable.run(vec![x.clone()], &Device::Cpu).unwrap();
        fallback::take();
        let gpu = executable.run(vec![x.clone().to_device(&device).unwrap()], &device).unwrap();
        assert_eq!(fallback::take(), []);
        let back = gpu[0].clone().to_device(&Device::Cpu).unwrap();
        for (a, b) in floats(&cpu[0]).into_iter().zip(floats(&back)) {
            // A GPU may take 0 for what is below the least normal number.
            let bound = 4.0 * f64::from(f32::EPSILON) * a.abs() + f64::from(f32::MIN_POSITIVE);
            assert!((a - b).abs() <= bound, "{a} on the CPU, {b} on the GPU");
        }
    }
}
