//! Every operation with a kernel on a GPU, against the CPU. Needs a driver: with `EX_BURN_TEST_DEVICE=gpu`, or the kind of GPU such
//! as `cuda`, none is an error, otherwise the tests do nothing without one and say so.
#![cfg(feature = "gpu")]

mod elementwise;
#[path = "../tools/gpu.rs"]
mod machine;
mod rows;
mod windows;

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
