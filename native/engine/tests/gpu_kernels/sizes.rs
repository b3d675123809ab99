//! Lines around the sizes of groups of threads and of parts, along every axis of tensors of any rank and of any type, against
//! the CPU.

use ex_burn_engine::gpu::fallback;
use ex_burn_engine::program::*;
use ex_burn_engine::{Device, TensorType, Type, Value, exec};

use super::{Gpu, floats, gpu, random, typed, words};

const LENGTHS: [usize; 8] = [1, 31, 33, 255, 257, 1025, 2049, 100_003];

const TYPES: [Type; 13] = [
    Type::F32,
    Type::F16,
    Type::BF16,
    Type::S32,
    Type::U32,
    Type::S16,
    Type::U16,
    Type::S8,
    Type::U8,
    Type::S4,
    Type::U4,
    Type::S2,
    Type::U2,
];

/// Whole numbers of which many are equal, and zeros of both signs; not many, so that `f32` has their sums.
fn whole(dtype: Type, shape: &[usize], seed: u64) -> Value {
    let mut next = random(seed);
    let least = if dtype.class() == ex_burn_engine::Class::Unsigned { 0.0 } else { -2.0 };
    let numbers: Vec<f32> = (0..shape.iter().product::<usize>())
        .map(|i| if i % 7 == 0 && dtype.is_float() { -0.0 } else { (next() * 4.0 + least) as i32 as f32 })
        .collect();
    typed(dtype, shape, &numbers)
}

/// The same with what is no number.
fn mixed(dtype: Type, shape: &[usize], seed: u64) -> Value {
    if !dtype.is_float() {
        return whole(dtype, shape, seed);
    }
    let mut next = random(seed);
    let ends = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0];
    let number = |i: usize, next: f64| if i % 9 == 4 { ends[(next * 6.0) as usize] } else { (next * 9.0) as f32 - 4.0 };
    let numbers: Vec<f32> = (0..shape.iter().product()).map(|i| number(i, next())).collect();
    typed(dtype, shape, &numbers)
}

/// Runs the operation on both devices; no element may differ.
fn same(gpu: &Gpu, op: &Op, inputs: &[Value], outputs: &[TensorType]) {
    let here = exec::instruction(op, inputs.to_vec(), outputs, &Device::Cpu).unwrap();
    for (here, there) in here.iter().zip(gpu.run(op, inputs, outputs)) {
        assert_eq!(here.ty(), there.ty(), "{op}");
        for (at, (a, b)) in floats(here).into_iter().zip(floats(&there)).enumerate() {
            let equal = a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
            assert!(equal, "{op} of {:?} at {at}: {a} on the CPU, {b} on the GPU", inputs[0].ty());
        }
    }
}

/// What orders a tensor along an axis.
fn orders(gpu: &Gpu, x: &Value, axis: usize) {
    let places = || [TensorType::new(Type::S32, x.shape())];
    for direction in [Direction::Asc, Direction::Desc] {
        let attrs = Sort { axis, direction };
        same(gpu, &Op::Sort(attrs.clone()), std::slice::from_ref(x), &[x.ty()]);
        same(gpu, &Op::Argsort(attrs), std::slice::from_ref(x), &places());
    }
    for extremum in [Extremum::Max, Extremum::Min] {
        for tie_break in [TieBreak::Low, TieBreak::High] {
            let mut shape = x.shape();
            shape[axis] = 1;
            let attrs = ArgReduce { extremum, axis: Some(axis), keep_axis: true, tie_break };
            same(gpu, &Op::ArgReduce(attrs), std::slice::from_ref(x), &[TensorType::new(Type::U32, shape)]);
        }
    }
}

fn folds(gpu: &Gpu, x: &Value, axis: usize) {
    for fold in [Fold::Sum, Fold::Max, Fold::Min] {
        for reverse in [false, true] {
            let op = Op::Cumulative(Cumulative { fold, axis, reverse });
            same(gpu, &op, std::slice::from_ref(x), &[x.ty()]);
        }
    }
}

#[test]
fn lines_of_any_length() {
    let Some(gpu) = gpu() else { return };
    for (seed, length) in LENGTHS.into_iter().enumerate() {
        for dtype in [Type::F32, Type::S32, Type::U8] {
            orders(&gpu, &mixed(dtype, &[length], seed as u64), 0);
            folds(&gpu, &whole(dtype, &[length], seed as u64), 0);
        }
        let x = mixed(Type::F32, &[2, length], 40 + seed as u64);
        for k in [1, length.div_ceil(2), length] {
            let outputs = [TensorType::new(Type::F32, [2, k]), TensorType::new(Type::S32, [2, k])];
            same(&gpu, &Op::TopK(TopK { k }), std::slice::from_ref(&x), &outputs);
        }
    }
}

#[test]
fn every_axis_of_any_rank_and_type() {
    let Some(gpu) = gpu() else { return };
    let shapes: [&[usize]; 5] = [&[5], &[3, 4], &[4, 1, 35], &[2, 3, 2, 3], &[2, 1, 3, 2, 2]];
    for (seed, dtype) in TYPES.into_iter().enumerate() {
        for shape in shapes {
            for axis in 0..shape.len() {
                orders(&gpu, &mixed(dtype, shape, seed as u64), axis);
                // Sums of narrow floats are rounded elsewhere.
                if !dtype.is_float() || dtype.bits() == 32 {
                    folds(&gpu, &whole(dtype, shape, seed as u64), axis);
                }
            }
        }
    }
}

#[test]
fn scalars_are_lines_of_one() {
    let Some(gpu) = gpu() else { return };
    let x = typed(Type::F32, &[], &[3.5]);
    let sort = Sort { axis: 0, direction: Direction::Asc };
    same(&gpu, &Op::Sort(sort.clone()), std::slice::from_ref(&x), &[x.ty()]);
    same(&gpu, &Op::Argsort(sort), std::slice::from_ref(&x), &[TensorType::new(Type::S32, [])]);
    let attrs = ArgReduce { extremum: Extremum::Max, axis: None, keep_axis: false, tie_break: TieBreak::Low };
    same(&gpu, &Op::ArgReduce(attrs), &[x], &[TensorType::new(Type::S32, [])]);
}

#[test]
fn updates_of_tables_of_any_length_and_type() {
    let Some(gpu) = gpu() else { return };
    let lengths = LENGTHS.map(|length| (Type::F32, length));
    for (seed, (dtype, length)) in lengths.into_iter().chain(TYPES.map(|dtype| (dtype, 70))).enumerate() {
        let mut next = random(seed as u64);
        // Some of a row many times, of most rows none.
        let indices: Vec<i64> = (0..257).map(|_| (next() * next() * length as f64) as i64).collect();
        let inputs = |columns: &[usize]| {
            let [x, updates] = [length, 257].map(|rows| whole(dtype, &[&[rows], columns].concat(), seed as u64));
            [x, words(Type::U32, &[257, 1], &indices), updates]
        };
        for inputs in [inputs(&[]), inputs(&[3]), inputs(&[1, 2, 2])] {
            let axes = Axes { axes: vec![0] };
            same(&gpu, &Op::IndexedPut(axes.clone()), &inputs, &[inputs[0].ty()]);
            if !dtype.is_float() || dtype.bits() == 32 {
                same(&gpu, &Op::IndexedAdd(axes), &inputs, &[inputs[0].ty()]);
            }
        }
    }
}

#[test]
fn places_in_windows_of_any_size() {
    let Some(gpu) = gpu() else { return };
    // Shapes, windows, strides, dilations and padding.
    type Case = (&'static [usize], &'static [usize], &'static [usize], &'static [usize], &'static [[i64; 2]]);
    let cases: [Case; 6] = [
        (&[1], &[1], &[1], &[1], &[[0, 0]]),
        (&[301], &[7], &[3], &[2], &[[3, 4]]),
        (&[1000], &[700], &[13], &[1], &[[0, 0]]),
        (&[33, 65], &[17, 33], &[2, 5], &[1, 1], &[[8, 8], [16, 3]]),
        (&[2, 9, 8], &[1, 3, 2], &[1, 2, 2], &[1, 2, 3], &[[0, 0], [1, 1], [0, 2]]),
        (&[2, 3, 6, 7], &[1, 2, 2, 3], &[1, 1, 2, 3], &[1, 1, 1, 1], &[[0, 0], [0, 1], [0, 0], [1, 1]]),
    ];
    for (shape, dimensions, strides, dilations, padding) in cases {
        let windows = Windows {
            dimensions: dimensions.to_vec(),
            padding: padding.to_vec(),
            strides: strides.to_vec(),
            dilations: dilations.to_vec(),
        };
        let counts: Vec<usize> = (0..shape.len())
            .map(|axis| {
                let padded = shape[axis] + (padding[axis][0] + padding[axis][1]) as usize;
                (padded - ((dimensions[axis] - 1) * dilations[axis] + 1)) / strides[axis] + 1
            })
            .collect();
        for extremum in [Extremum::Max, Extremum::Min] {
            for dtype in [Type::F32, Type::S32, Type::U8] {
                let inputs = [mixed(dtype, shape, 3), whole(dtype, &counts, 4), typed(dtype, &[], &[1.0])];
                let op = Op::WindowScatter(WindowScatter { extremum, windows: windows.clone() });
                same(&gpu, &op, &inputs, &[inputs[0].ty()]);
            }
        }
    }
}

#[test]
fn what_has_no_kernel_has_the_answers_of_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let types = [Type::S64, Type::U64, Type::F64, Type::F8, Type::F8E4M3FN].map(|dtype| whole(dtype, &[3, 5], 1));
    let cases = types.into_iter().chain([Type::F32, Type::S32].map(|dtype| whole(dtype, &[0, 5], 1)));
    for x in cases {
        let sort = Sort { axis: 1, direction: Direction::Desc };
        let fold = |fold| Op::Cumulative(Cumulative { fold, axis: 1, reverse: false });
        let places = || TensorType::new(Type::S32, x.shape());
        let ops = [
            (Op::Sort(sort.clone()), x.ty()),
            (Op::Argsort(sort), places()),
            (fold(Fold::Sum), x.ty()),
            (fold(Fold::Max), x.ty()),
        ];
        for (op, out) in ops {
            let run = |device: &Device| {
                let inputs = vec![x.clone().to_device(device).unwrap()];
                let result = exec::instruction(&op, inputs, std::slice::from_ref(&out), device).unwrap().remove(0);
                result.to_device(&Device::Cpu).unwrap()
            };
            let (here, there) = (run(&Device::Cpu), run(&gpu.device));
            assert_eq!(here.ty(), there.ty());
            assert_eq!(floats(&here), floats(&there), "{op} of {}", x.ty());
        }
    }
    fallback::take();
}
