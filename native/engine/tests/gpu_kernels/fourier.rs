//! Fourier transforms, and what is done to complex numbers between them, against the CPU's in double precision.

use ex_burn_engine::program::*;
use ex_burn_engine::{Device, TensorType, Type, Value, exec};

use super::{Gpu, floats, gpu, random, singles, typed};

fn complexes(shape: &[usize], parts: &[f32]) -> Value {
    let bytes = parts.iter().copied().flat_map(f32::to_le_bytes).collect();
    Value::from_bytes(&TensorType::new(Type::C64, shape), bytes, &Device::Cpu).unwrap()
}

fn noise(dtype: Type, shape: &[usize], seed: u64) -> Value {
    let mut next = random(seed);
    let len: usize = shape.iter().product();
    if dtype == Type::C64 {
        return complexes(shape, &(0..2 * len).map(|_| next() as f32 - 0.5).collect::<Vec<_>>());
    }
    let scale = if dtype.is_float() { 1.0 } else { 100.0 };
    typed(dtype, shape, &(0..len).map(|_| (next() as f32 - 0.5) * scale).collect::<Vec<_>>())
}

/// Real and imaginary parts, or real numbers.
fn parts(value: &Value) -> Vec<f64> {
    if value.dtype() != Type::C64 {
        return floats(value);
    }
    let bytes = value.clone().into_bytes().unwrap();
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()).into()).collect()
}

/// Runs the operation on both devices; the distance of the results is so many roundings of their size at most.
fn close(gpu: &Gpu, op: &Op, inputs: &[Value], out: &TensorType, roundings: f64) {
    let here = exec::instruction(op, inputs.to_vec(), std::slice::from_ref(out), &Device::Cpu).unwrap().remove(0);
    let there = gpu.one(op, inputs, out.clone());
    assert_eq!(here.ty(), there.ty());
    let (here, there) = (parts(&here), parts(&there));
    let size = here.iter().map(|x| x * x).sum::<f64>().sqrt();
    let off = here.iter().zip(&there).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
    let most = roundings * f64::from(f32::EPSILON) * size;
    assert!(off <= most, "{op} of {}: {off} off, not {most}", inputs[0].ty());
}

/// The error of a transform grows as the logarithm of its length.
fn roundings(length: usize) -> f64 {
    2.0 + (length as f64).log2()
}

fn transform(gpu: &Gpu, transform: Transform, x: &Value, [axis, length]: [usize; 2]) {
    let mut shape = x.shape();
    shape[axis] = if transform == Transform::Rfft { length / 2 + 1 } else { length };
    let out = if transform == Transform::Irfft { Type::F32 } else { Type::C64 };
    let op = Op::Fft(Fft { transform, eps: 1e-10, length, axis });
    close(gpu, &op, std::slice::from_ref(x), &TensorType::new(out, shape), roundings(length));
}

const ALL: [Transform; 4] = [Transform::Fft, Transform::Ifft, Transform::Rfft, Transform::Irfft];

/// The numbers that a transform takes.
fn taken(transform: Transform) -> Type {
    if transform == Transform::Rfft { Type::F32 } else { Type::C64 }
}

#[test]
fn transforms_of_any_length() {
    let Some(gpu) = gpu() else { return };
    // Powers of two, products of small primes, primes, and other products of these.
    for length in [1, 2, 3, 4, 5, 7, 8, 11, 16, 30, 97, 128, 210, 243, 343, 1000, 1009, 1024, 2 * 1009] {
        for kind in ALL {
            transform(&gpu, kind, &noise(taken(kind), &[2, length], length as u64), [1, length]);
        }
    }
}

#[test]
fn long_transforms() {
    let Some(gpu) = gpu() else { return };
    for length in [1 << 17, 100_003, 3 * 5 * 7 * 7 * 16] {
        for kind in ALL {
            transform(&gpu, kind, &noise(taken(kind), &[length], length as u64), [0, length]);
        }
    }
}

#[test]
fn transforms_along_any_axis_of_lines_that_are_cut_or_filled() {
    let Some(gpu) = gpu() else { return };
    for kind in ALL {
        for axis in 0..3 {
            for length in [3, 8, 11, 20] {
                transform(&gpu, kind, &noise(taken(kind), &[4, 9, 5], 7), [axis, length]);
            }
        }
    }
}

#[test]
fn transforms_of_real_numbers_of_any_type() {
    let Some(gpu) = gpu() else { return };
    for dtype in [Type::F32, Type::BF16, Type::F16, Type::S32, Type::U8, Type::S4] {
        for kind in [Transform::Fft, Transform::Ifft, Transform::Rfft, Transform::Irfft] {
            for length in [12, 13] {
                transform(&gpu, kind, &noise(dtype, &[3, 13], 4), [1, length]);
            }
        }
    }
}

#[test]
fn transforms_along_two_axes() {
    let Some(gpu) = gpu() else { return };
    for transform in [Transform::Fft, Transform::Ifft] {
        for dtype in [Type::C64, Type::F32] {
            for (axes, lengths) in [([0, 1], [6, 7]), ([2, 0], [8, 11]), ([1, 2], [3, 16])] {
                let x = noise(dtype, &[6, 7, 8], 3);
                let mut shape = x.shape();
                axes.iter().zip(lengths).for_each(|(&axis, length)| shape[axis] = length);
                let op = Op::Fft2(Fft2 { transform, eps: 1e-10, lengths, axes });
                close(&gpu, &op, &[x], &TensorType::new(Type::C64, shape), roundings(128));
            }
        }
    }
}

#[test]
fn parts_that_are_small_become_zero() {
    let Some(gpu) = gpu() else { return };
    let fft = |eps| Op::Fft(Fft { transform: Transform::Fft, eps, length: 4, axis: 0 });
    let x = [singles(&[4], &[3.0, 0.25, 0.0, -0.125])];
    let got = parts(&gpu.one(&fft(0.375), &x, TensorType::new(Type::C64, [4])));
    // 3 + 1/8, 3 - 3i/8, 3 - 1/8, 3 + 3i/8
    assert_eq!(got, [3.125, 0.0, 3.0, 0.0, 2.875, 0.0, 3.0, 0.0]);
    let got = parts(&gpu.one(&fft(0.374), &x, TensorType::new(Type::C64, [4])));
    assert_eq!(got, [3.125, 0.0, 3.0, -0.375, 2.875, 0.0, 3.0, 0.375]);
}

#[test]
fn what_is_no_number_stays_none() {
    let Some(gpu) = gpu() else { return };
    for length in [8, 11] {
        let mut numbers = vec![1.0; length];
        numbers[3] = f32::NAN;
        let op = Op::Fft(Fft { transform: Transform::Fft, eps: 1e-10, length, axis: 0 });
        let got = parts(&gpu.one(&op, &[singles(&[length], &numbers)], TensorType::new(Type::C64, [length])));
        // Where a factor is one or i, one part of what it multiplies is no part of the sum.
        assert!(got.chunks(2).all(|parts| parts.iter().any(|x| x.is_nan())), "{got:?}");
    }
}

#[test]
fn complex_numbers_element_by_element() {
    let Some(gpu) = gpu() else { return };
    let [x, y] = [noise(Type::C64, &[3, 4, 5], 1), noise(Type::C64, &[4, 1], 2)];
    let real = noise(Type::F32, &[5], 3);
    let ty = |dtype| TensorType::new(dtype, [3, 4, 5]);
    for op in [Binary::Add, Binary::Subtract, Binary::Multiply, Binary::Divide] {
        for other in [&y, &real, &typed(Type::S32, &[], &[-7.0])] {
            close(&gpu, &Op::Binary(op), &[x.clone(), other.clone()], &ty(Type::C64), 4.0);
            close(&gpu, &Op::Binary(op), &[other.clone(), x.clone()], &ty(Type::C64), 4.0);
        }
    }
    for (op, out) in
        [(Unary::Conjugate, Type::C64), (Unary::Negate, Type::C64), (Unary::Abs, Type::F32), (Unary::Phase, Type::F32)]
    {
        close(&gpu, &Op::Unary(op), std::slice::from_ref(&x), &ty(out), 2.0);
    }
    for op in [Op::Unary(Unary::Real), Op::Unary(Unary::Imag), Op::Cast] {
        for out in [Type::F32, Type::BF16] {
            close(&gpu, &op, std::slice::from_ref(&x), &ty(out), 0.0);
        }
    }
    for given in [Type::F32, Type::S8, Type::U32] {
        close(&gpu, &Op::Cast, &[noise(given, &[3, 4, 5], 5)], &ty(Type::C64), 1.0);
    }
}

#[test]
fn sizes_of_complex_numbers_at_the_ends() {
    let Some(gpu) = gpu() else { return };
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    let pairs = [3e38, 0.0, 2e38, -2e38, 1e-30, 1e-30, 0.0, 0.0, nan, 1.0, nan, -infinity, 2.0, infinity];
    let x = [complexes(&[7], &pairs)];
    let got = parts(&gpu.one(&Op::Unary(Unary::Abs), &x, TensorType::new(Type::F32, [7])));
    let want = parts(
        &exec::instruction(&Op::Unary(Unary::Abs), x.to_vec(), &[TensorType::new(Type::F32, [7])], &Device::Cpu)
            .unwrap()[0],
    );
    for (a, b) in got.iter().zip(&want) {
        assert!(a == b || (a - b).abs() <= 2e-7 * b.abs() || a.is_nan() && b.is_nan(), "{got:?}, not {want:?}");
    }
}
