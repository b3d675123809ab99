//! What reads elements from elsewhere: windows, convolutions, gathers.

use super::*;

#[test]
fn windows() {
    let Some((_turn, device)) = gpu() else { return };
    for dtype in [Type::F32, Type::S32, Type::F16, Type::BF16] {
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
