//! Types that a GPU holds as others, against the CPU.

use ex_burn_engine::program::*;
use ex_burn_engine::{Device, TensorType, Type, Value, exec};

use super::{Gpu, floats, gpu, random, singles, typed};

/// The values of both devices are the same, NaN being one.
fn same(gpu: &Gpu, op: &Op, inputs: &[Value], out: TensorType) {
    let here = exec::instruction(op, inputs.to_vec(), std::slice::from_ref(&out), &Device::Cpu).unwrap().remove(0);
    let there = gpu.one(op, inputs, out);
    assert_eq!(here.ty(), there.ty());
    let (here, there) = (numbers(&here), numbers(&there));
    let differ = here.iter().zip(&there).position(|(a, b)| a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan()));
    if let Some(at) = differ {
        let inputs: Vec<TensorType> = inputs.iter().map(Value::ty).collect();
        panic!("{op} of {inputs:?}: {} on the CPU, {} there, at {at}", here[at], there[at]);
    }
}

/// The numbers, or the parts of complex ones.
fn numbers(value: &Value) -> Vec<f64> {
    if !value.dtype().is_complex() {
        return floats(value);
    }
    let bytes = value.clone().into_bytes().unwrap();
    bytes.chunks_exact(4).map(|part| f32::from_le_bytes(part.try_into().unwrap()).into()).collect()
}

/// All values of a type of so many bytes.
fn all(dtype: Type) -> Value {
    let (count, size) = (1usize << dtype.bits(), dtype.bits() / 8);
    let bytes = (0..count).flat_map(|bits| bits.to_le_bytes()[..size].to_vec()).collect();
    Value::from_bytes(&TensorType::new(dtype, [count]), bytes, &Device::Cpu).unwrap()
}

/// The values, with zero for what is not a number.
fn numbered(value: &Value) -> Value {
    let size = value.dtype().bits() / 8;
    let bytes = value.clone().into_bytes().unwrap();
    let kept = |(bytes, number): (&[u8], f64)| if number.is_nan() { vec![0; size] } else { bytes.to_vec() };
    let bytes = bytes.chunks_exact(size).zip(floats(value)).flat_map(kept).collect();
    Value::from_bytes(&value.ty(), bytes, &Device::Cpu).unwrap()
}

/// Numbers of all sizes, and what is at the edges of 8-bit floats.
fn wide(len: usize) -> Value {
    let mut next = random(7);
    let edges = [0.0, -0.0, 61440.0, 61439.996, 65536.0, 448.0, 464.0, 480.0, 1e30, f32::INFINITY, f32::NAN];
    let signed = |x: f64, sign: f64| if sign < 0.5 { -x } else { x };
    let mut numbers: Vec<f32> = (0..len).map(|_| signed((40.0 * next() - 22.0).exp2(), next()) as f32).collect();
    numbers[..edges.len()].copy_from_slice(&edges);
    singles(&[len], &numbers)
}

const EIGHT: [Type; 2] = [Type::F8, Type::F8E4M3FN];

#[test]
fn casts_to_8_bit_floats_round_as_on_the_cpu() {
    let Some(gpu) = gpu() else { return };
    let x = wide(20_000);
    for dtype in [Type::F8, Type::F8E4M3FN, Type::F16, Type::BF16] {
        same(&gpu, &Op::Cast, std::slice::from_ref(&x), TensorType::new(dtype, x.shape()));
    }
    for dtype in EIGHT {
        for to in [Type::F32, Type::F16, Type::S32, Type::U8] {
            same(&gpu, &Op::Cast, &[all(dtype)], TensorType::new(to, [256]));
        }
    }
}

#[test]
fn functions_of_8_bit_floats_round_once() {
    let Some(gpu) = gpu() else { return };
    for dtype in EIGHT {
        let reshaped = |shape: [usize; 2]| {
            let out = [TensorType::new(dtype, shape)];
            exec::instruction(&Op::Reshape, vec![all(dtype)], &out, &Device::Cpu).unwrap().remove(0)
        };
        let pairs = [reshaped([256, 1]), reshaped([1, 256])];
        for op in [Binary::Add, Binary::Subtract, Binary::Multiply, Binary::Divide, Binary::Max, Binary::Min] {
            same(&gpu, &Op::Binary(op), &pairs, TensorType::new(dtype, [256, 256]));
        }
        for op in [Binary::Equal, Binary::Less, Binary::GreaterEqual] {
            same(&gpu, &Op::Binary(op), &pairs, TensorType::new(Type::U8, [256, 256]));
        }
        for op in [Unary::Negate, Unary::Abs, Unary::Sqrt, Unary::Floor, Unary::Round] {
            same(&gpu, &Op::Unary(op), &[all(dtype)], TensorType::new(dtype, [256]));
        }
    }
}

#[test]
fn what_folds_8_bit_floats_rounds_at_its_end() {
    let Some(gpu) = gpu() else { return };
    // Sums of so few multiples of a half are exact in f32.
    let halves = |shape: &[usize], seed| {
        let mut next = random(seed);
        let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| ((next() * 9.0) as i64 - 4) as f32 / 2.0).collect();
        numbers
    };
    for dtype in EIGHT {
        let square = |seed| typed(dtype, &[6, 6], &halves(&[6, 6], seed));
        for fold in [Fold::Sum, Fold::Max, Fold::Min] {
            let reduce = Op::Reduce(Reduce { fold, axes: Some(vec![1]), keep_axes: false });
            same(&gpu, &reduce, &[square(1)], TensorType::new(dtype, [6]));
        }
        let dot = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
        same(&gpu, &Op::Dot(dot), &[square(2), square(3)], TensorType::new(dtype, [6, 6]));
        let image = typed(dtype, &[1, 2, 5, 5], &halves(&[1, 2, 5, 5], 4));
        let kernel = typed(dtype, &[3, 2, 2, 2], &halves(&[3, 2, 2, 2], 5));
        same(&gpu, &Op::Conv(Conv::plain(2)), &[image, kernel], TensorType::new(dtype, [1, 3, 4, 4]));
        let windows = windows([[1, 0], [0, 1]]);
        let sum = Op::WindowReduce(WindowReduce { fold: Fold::Sum, windows });
        same(&gpu, &sum, &[square(6)], TensorType::new(dtype, [6, 6]));
    }
}

#[test]
fn bits_become_those_of_another_type() {
    let Some(gpu) = gpu() else { return };
    let sizes = [vec![Type::U8, Type::S8, Type::F8, Type::F8E4M3FN], vec![Type::U16, Type::S16, Type::F16, Type::BF16]];
    for types in sizes {
        for &from in &types {
            // What kind of NaN it was is not kept.
            let x = numbered(&all(from));
            for &to in &types {
                same(&gpu, &Op::Bitcast, std::slice::from_ref(&x), TensorType::new(to, x.shape()));
            }
        }
    }
}

fn windows(padding: [[i64; 2]; 2]) -> Windows {
    Windows { dimensions: vec![2, 2], padding: padding.to_vec(), strides: vec![1, 1], dilations: vec![1, 1] }
}

#[test]
fn windows_of_narrow_integers_are_padded_with_their_own_ends() {
    let Some(gpu) = gpu() else { return };
    let types = [Type::S2, Type::U2, Type::S4, Type::U4, Type::S8, Type::U8, Type::S16, Type::U16];
    let mut next = random(3);
    for dtype in types {
        let numbers: Vec<f32> = (0..20).map(|_| (next() * 100.0 - 50.0) as i64 as f32).collect();
        let x = typed(dtype, &[4, 5], &numbers);
        for fold in [Fold::Sum, Fold::Product, Fold::Max, Fold::Min] {
            // Some windows have nothing but padding.
            let op = Op::WindowReduce(WindowReduce { fold, windows: windows([[2, 2], [0, 0]]) });
            same(&gpu, &op, std::slice::from_ref(&x), TensorType::new(dtype, [7, 4]));
        }
    }
}

#[test]
fn convolutions_of_integers_have_results_of_floats() {
    let Some(gpu) = gpu() else { return };
    let mut next = random(11);
    for dtype in [Type::S8, Type::U8, Type::S16, Type::U16] {
        let mut numbers = |shape: &[usize]| {
            let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| (next() * 90.0) as i64 as f32).collect();
            typed(dtype, shape, &numbers)
        };
        let (image, kernel) = (numbers(&[2, 3, 6, 6]), numbers(&[8, 3, 3, 3]));
        same(&gpu, &Op::Conv(Conv::plain(2)), &[image, kernel], TensorType::new(Type::F32, [2, 8, 4, 4]));
    }
}

/// Complex numbers whose parts are small integers, so that sums and products are exact.
fn complex(shape: &[usize], seed: u64) -> Value {
    let mut next = random(seed);
    let len = 2 * shape.iter().product::<usize>();
    let bytes = (0..len).flat_map(|_| (((next() * 9.0) as i64 - 4) as f32).to_le_bytes()).collect();
    Value::from_bytes(&TensorType::new(Type::C64, shape), bytes, &Device::Cpu).unwrap()
}

#[test]
fn complex_numbers_move_and_add_up_by_their_parts() {
    let Some(gpu) = gpu() else { return };
    let c64 = |shape: &[usize]| TensorType::new(Type::C64, shape);
    let (x, y) = (complex(&[3, 4], 1), complex(&[3, 4], 2));
    let places = |shape: &[usize], numbers: &[f32]| typed(Type::S32, shape, numbers);
    let truths = typed(Type::U8, &[3, 4], &[1., 0., 0., 1., 1., 0., 1., 0., 1., 1., 0., 0.]);
    let sum = |axes| Op::Reduce(Reduce { fold: Fold::Sum, axes, keep_axes: false });
    let running = Op::Cumulative(Cumulative { fold: Fold::Sum, axis: 1, reverse: false });
    let windows = WindowReduce { fold: Fold::Sum, windows: windows([[1, 0], [0, 0]]) };
    let real = typed(Type::F32, &[3, 4], &[1.5; 12]);
    let pad = Op::Pad(Pad { config: vec![[1, 0, 0], [0, 2, 1]] });
    let dot = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![1], rhs_batch: vec![] };
    let conv = Op::Conv(Conv::plain(1));
    let cases = [
        (Op::Select, vec![truths.clone(), x.clone(), y.clone()], c64(&[3, 4])),
        (Op::Select, vec![truths, x.clone(), real.clone()], c64(&[3, 4])),
        (Op::Concatenate(Axis { axis: 0 }), vec![x.clone(), y.clone()], c64(&[6, 4])),
        (Op::Stack(Axis { axis: 1 }), vec![x.clone(), y.clone()], c64(&[3, 2, 4])),
        (pad, vec![x.clone(), complex(&[], 3)], c64(&[4, 9])),
        (Op::Take(Axis { axis: 1 }), vec![x.clone(), places(&[2], &[3.0, 1.0])], c64(&[3, 2])),
        (sum(None), vec![x.clone()], c64(&[])),
        (sum(Some(vec![0])), vec![x.clone()], c64(&[4])),
        (running, vec![x.clone()], c64(&[3, 4])),
        (Op::WindowReduce(windows), vec![x.clone()], c64(&[3, 3])),
        (Op::Dot(dot.clone()), vec![x.clone(), y.clone()], c64(&[3, 3])),
        (Op::Dot(dot), vec![x.clone(), real], c64(&[3, 3])),
        (conv, vec![complex(&[2, 3, 6], 4), complex(&[2, 3, 2], 5)], c64(&[2, 2, 5])),
        (Op::Binary(Binary::Equal), vec![x.clone(), y.clone()], TensorType::new(Type::U8, [3, 4])),
        (Op::Binary(Binary::NotEqual), vec![x.clone(), x.clone()], TensorType::new(Type::U8, [3, 4])),
        (Op::Unary(Unary::LogicalNot), vec![x], TensorType::new(Type::U8, [3, 4])),
    ];
    for (op, inputs, out) in cases {
        same(&gpu, &op, &inputs, out);
    }
}
