//! Attention whose scores are more than are in memory at once.

use ex_burn_engine::exec::Executable;
use ex_burn_engine::gpu::fallback;
use ex_burn_engine::program::*;
use ex_burn_engine::{Device, TensorType, Type, Value, scalar};

use super::{floats, gpu, launches, random, singles, typed};

/// Queries of `[batch, heads, steps, 4]`, keys alike, values of 3 numbers, a mask, and a number for each row and for each head that
/// scores are multiplied by.
fn attention([batch, heads, steps, keys]: [usize; 4], mask: &[usize]) -> (Program, Vec<Value>) {
    let lead = [batch, heads];
    let of = |rows, columns| [&lead[..], &[rows, columns]].concat();
    let shapes = [of(steps, 4), of(keys, 4), of(keys, 3), mask.to_vec(), of(steps, 1), vec![heads, 1, 1]];
    let inputs: Vec<Value> = shapes
        .iter()
        .zip(1..)
        .map(|(shape, seed)| {
            let mut next = random(seed);
            let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| next() as f32 * 4.0 - 2.0).collect();
            if seed == 4 {
                // Less than half of all is hidden, so that something is seen by each.
                return typed(Type::U8, shape, &numbers.iter().map(|&x| f32::from(x > -1.0)).collect::<Vec<_>>());
            }
            singles(shape, &numbers)
        })
        .collect();
    let scores = of(steps, keys);
    let mut p = Program { inputs: inputs.iter().map(Value::ty).collect(), ..Program::default() };
    let mut emit = |op: Op, inputs: &[usize], shape: &[usize]| {
        let outputs = vec![TensorType::new(Type::F32, shape)];
        p.instructions.push(Instruction { op, inputs: inputs.to_vec(), outputs });
        p.inputs.len() + p.instructions.len() - 1
    };
    let dot = |rhs: usize| {
        let batch = vec![0, 1];
        Op::Dot(Dot { lhs_contract: vec![3], lhs_batch: batch.clone(), rhs_contract: vec![rhs], rhs_batch: batch })
    };
    let fold = |fold| Op::Reduce(Reduce { fold, axes: Some(vec![3]), keep_axes: true });
    let products = emit(dot(3), &[0, 1], &scores);
    let by_rows = emit(Op::Binary(Binary::Multiply), &[products, 4], &scores);
    let scaled = emit(Op::Binary(Binary::Multiply), &[by_rows, 5], &scores);
    let low = emit(Op::Constant(Constant { bytes: scalar::from_f64(Type::F32, -1e9) }), &[], &[]);
    let masked = emit(Op::Select, &[3, scaled, low], &scores);
    let most = emit(fold(Fold::Max), &[masked], &of(steps, 1));
    let below = emit(Op::Binary(Binary::Subtract), &[masked, most], &scores);
    let exp = emit(Op::Unary(Unary::Exp), &[below], &scores);
    let sum = emit(fold(Fold::Sum), &[exp], &of(steps, 1));
    let weights = emit(Op::Binary(Binary::Divide), &[exp, sum], &scores);
    let out = emit(dot(2), &[weights, 2], &of(steps, 3));
    p.outputs = vec![out];
    (p, inputs)
}

#[test]
fn attention_by_blocks_of_rows() {
    let Some(gpu) = gpu() else { return };
    // Blocks of matrices, and of rows; masks for all matrices, for each of a batch, and of keys alone.
    for (sizes, mask) in [
        ([3, 2, 900, 3200], vec![900, 3200]),
        ([3, 2, 900, 3200], vec![3, 1, 900, 3200]),
        ([1, 2, 3001, 6000], vec![1, 1, 1, 6000]),
    ] {
        let (program, inputs) = attention(sizes, &mask);
        let executable = Executable::optimised(&program, vec![], &[]).unwrap();
        let instructions = &executable.program().instructions;
        assert!(instructions.iter().any(|instruction| matches!(instruction.op, Op::Blocked(_))));
        let run = |device: &Device| {
            let there = inputs.iter().map(|value| value.clone().to_device(device).unwrap()).collect();
            executable.run(there, device).unwrap().remove(0).to_device(&Device::Cpu).unwrap()
        };
        fallback::take();
        let there = floats(&run(&gpu.device));
        assert_eq!(fallback::take(), []);
        for (at, (a, b)) in floats(&run(&Device::Cpu)).into_iter().zip(there).enumerate() {
            assert!((a - b).abs() <= 2e-5, "{sizes:?} {mask:?} at {at}: {a} on the CPU, {b} on the GPU");
        }
    }
}

#[test]
fn masks_of_small_attentions_take_no_kernel_of_their_own() {
    let Some(gpu) = gpu() else { return };
    // For all matrices, for each of a batch, for each head, for each matrix, and of keys alone.
    for mask in [vec![20, 64], vec![3, 1, 20, 64], vec![4, 20, 64], vec![3, 4, 20, 64], vec![3, 1, 1, 64], vec![64]] {
        let (program, inputs) = attention([3, 4, 20, 64], &mask);
        let executable = Executable::optimised(&program, vec![], &[]).unwrap();
        let run = |device: &Device| {
            let there = inputs.iter().map(|value| value.clone().to_device(device).unwrap()).collect();
            executable.run(there, device).unwrap().remove(0).to_device(&Device::Cpu).unwrap()
        };
        let mut there = None;
        assert_eq!(launches(|| there = Some(floats(&run(&gpu.device)))), 3, "{mask:?}");
        for (at, (a, b)) in floats(&run(&Device::Cpu)).into_iter().zip(there.unwrap_or_default()).enumerate() {
            assert!((a - b).abs() <= 2e-5, "{mask:?} at {at}: {a} on the CPU, {b} on the GPU");
        }
    }
}
