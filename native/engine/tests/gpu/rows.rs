//! Regions that fold their rows.

use super::*;

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
