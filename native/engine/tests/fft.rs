//! Fourier transforms: the sum that defines them, computed term by term.

mod tools;

use std::f64::consts::TAU;
use std::slice::from_ref;

use ex_burn_engine::program::{Fft, Fft2, Op, Transform};
use ex_burn_engine::{Type, Value};
use num_complex::Complex64;
use tools::*;

const COMPLEX: [Type; 2] = [Type::C64, Type::C128];

/// Lengths of each kind: powers of two, products of small primes, primes.
const LENGTHS: [usize; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 30, 97, 128];

fn fft(transform: Transform, length: usize, axis: usize) -> Op {
    Op::Fft(Fft { transform, eps: 1e-10, length, axis })
}

fn fft2(transform: Transform, lengths: [usize; 2], axes: [usize; 2]) -> Op {
    Op::Fft2(Fft2 { transform, eps: 1e-10, lengths, axes })
}

fn random(count: usize) -> Vec<Complex64> {
    noise(5, 2 * count, 1000).chunks(2).map(|pair| Complex64::new(pair[0] / 1000.0, pair[1] / 1000.0)).collect()
}

fn complex(dtype: Type, shape: &[usize], numbers: &[Complex64]) -> Value {
    let parts: Vec<f64> = numbers.iter().flat_map(|x| [x.re, x.im]).collect();
    let bytes = parts.iter().flat_map(|&x| ex_burn_engine::scalar::from_f64(part(dtype), x)).collect();
    Value::from_bytes(&ty(dtype, shape), bytes, &ex_burn_engine::Device::Cpu).expect("as many as the shape holds")
}

fn complexes(value: &Value) -> Vec<Complex64> {
    let dtype = part(value.dtype());
    let bytes = value.clone().into_bytes().expect("readable");
    let parts: Vec<f64> =
        bytes.chunks(dtype.size()).map(|b| ex_burn_engine::scalar::to_f64(dtype, b).expect("a float")).collect();
    parts.chunks(2).map(|pair| Complex64::new(pair[0], pair[1])).collect()
}

fn part(dtype: Type) -> Type {
    if dtype == Type::C64 { Type::F32 } else { Type::F64 }
}

/// The sum of `x[j] exp(sign 2 pi i j k / n)` for each `k`, of `x` cut or filled up to `n` numbers.
fn sums(x: &[Complex64], n: usize, sign: f64) -> Vec<Complex64> {
    let term = |j: usize, k: usize| x[j] * Complex64::from_polar(1.0, sign * TAU * ((j * k) % n) as f64 / n as f64);
    (0..n).map(|k| (0..n.min(x.len())).map(|j| term(j, k)).sum()).collect()
}

fn inverse(x: &[Complex64], n: usize) -> Vec<Complex64> {
    sums(x, n, 1.0).into_iter().map(|x| x / n as f64).collect()
}

#[track_caller]
fn assert_near(what: &str, got: &[Complex64], want: &[Complex64], dtype: Type) {
    let tolerance = if part(dtype) == Type::F32 { 1e-6 } else { 1e-13 };
    let size = want.iter().map(|x| x.norm()).fold(1.0, f64::max);
    let near = got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).norm() <= tolerance * size);
    assert!(near, "{what}: got {got:?}, want {want:?}");
}

#[test]
fn transforms_of_any_length_there_and_back() {
    for dtype in COMPLEX {
        for n in LENGTHS {
            let x = random(n);
            let value = complex(dtype, &[n], &x);
            let got = run(fft(Transform::Fft, n, 0), from_ref(&value), &ty(dtype, &[n]));
            assert_near(&format!("fft of {n}"), &complexes(&got), &sums(&x, n, -1.0), dtype);
            let back = run(fft(Transform::Ifft, n, 0), &[got], &ty(dtype, &[n]));
            assert_near(&format!("ifft of {n}"), &complexes(&back), &x, dtype);
        }
    }
}

#[test]
fn lines_are_cut_and_filled_up() {
    let x = random(6);
    let value = complex(Type::C128, &[6], &x);
    for n in [1, 4, 5, 7, 12] {
        let out = ty(Type::C128, &[n]);
        let got = run(fft(Transform::Fft, n, 0), from_ref(&value), &out);
        assert_near("fft", &complexes(&got), &sums(&x, n, -1.0), Type::C128);
        let got = run(fft(Transform::Ifft, n, 0), from_ref(&value), &out);
        assert_near("ifft", &complexes(&got), &inverse(&x, n), Type::C128);
    }
}

#[test]
fn numbers_of_any_type_are_taken_along_any_axis() {
    let numbers: Vec<f64> = (0..24).map(f64::from).collect();
    for dtype in TYPES {
        for (axis, n) in [(0, 2), (1, 3), (2, 4)] {
            let shape = [2, 3, 4];
            let got = run(fft(Transform::Fft, n, axis), &[tensor(dtype, &shape, &numbers)], &ty(Type::C128, &shape));
            let got = complexes(&got);
            each_index(&shape, |index| {
                let line: Vec<Complex64> = (0..n)
                    .map(|i| {
                        let mut at = index.to_vec();
                        at[axis] = i;
                        numbers[position(&at, &shape)].into()
                    })
                    .collect();
                let want = sums(&line, n, -1.0)[index[axis]];
                assert_near("element", &[got[position(index, &shape)]], &[want], Type::C128);
            });
        }
    }
}

#[test]
fn half_a_spectrum_is_enough_for_real_numbers() {
    for n in LENGTHS {
        let half = n / 2 + 1;
        let x: Vec<Complex64> = random(n).into_iter().map(|x| x.re.into()).collect();
        let real: Vec<f64> = x.iter().map(|x| x.re).collect();
        let got = run(fft(Transform::Rfft, n, 0), &[vector(Type::F64, &real)], &ty(Type::C128, &[half]));
        assert_near("rfft", &complexes(&got), &sums(&x, n, -1.0)[..half], Type::C128);
        let back = run(fft(Transform::Irfft, n, 0), &[got], &ty(Type::F64, &[n]));
        assert_close("irfft", &numbers(&back), &real, 1e-13);
    }
    let cut = run(fft(Transform::Rfft, 3, 0), &[vector(Type::F32, &[1.0, 2.0, 3.0, 9.0])], &ty(Type::C64, &[2]));
    let want = sums(&[1.0, 2.0, 3.0].map(Complex64::from), 3, -1.0);
    assert_near("cut", &complexes(&cut), &want[..2], Type::C64);
    // 2 + 0i, 0, 0 and their mirror image.
    let filled = run(fft(Transform::Irfft, 4, 0), &[vector(Type::F32, &[2.0])], &ty(Type::F32, &[4]));
    assert_eq!(numbers(&filled), [0.5; 4]);
}

#[test]
fn two_axes_are_transformed_one_after_the_other() {
    let x = random(12);
    let value = complex(Type::C128, &[3, 4], &x);
    for (lengths, axes) in [([3, 4], [0, 1]), ([4, 3], [1, 0]), ([5, 2], [0, 1]), ([2, 6], [0, 1])] {
        for (transform, single) in [(Transform::Fft, Transform::Fft), (Transform::Ifft, Transform::Ifft)] {
            let mut shape = vec![3, 4];
            let mut want = value.clone();
            for (axis, length) in axes.into_iter().zip(lengths) {
                shape[axis] = length;
                want = run(fft(single, length, axis), &[want], &ty(Type::C128, &shape));
            }
            let got = run(fft2(transform, lengths, axes), from_ref(&value), &ty(Type::C128, &shape));
            assert_near("fft2", &complexes(&got), &complexes(&want), Type::C128);
        }
    }
}

#[test]
fn small_parts_become_zero() {
    let x = vector(Type::F64, &[1e-3, 0.0]);
    let with = |eps: f64| {
        let op = Op::Fft(Fft { transform: Transform::Fft, eps, length: 2, axis: 0 });
        complexes(&run(op, from_ref(&x), &ty(Type::C128, &[2])))
    };
    assert_eq!(with(1e-3), [Complex64::ZERO; 2]);
    assert_eq!(with(1e-4), [Complex64::from(1e-3); 2]);
    // No part is a negative zero.
    let zeros = with(1.0);
    assert!(zeros.iter().all(|x| x.re.is_sign_positive() && x.im.is_sign_positive()));
}

#[test]
fn empty_batches_have_empty_transforms_and_empty_lines_are_filled_up() {
    let none = complex(Type::C64, &[0, 4], &[]);
    assert_eq!(complexes(&run(fft(Transform::Fft, 4, 1), &[none], &ty(Type::C64, &[0, 4]))), []);
    let empty = complex(Type::C64, &[2, 0], &[]);
    assert_eq!(complexes(&run(fft(Transform::Fft, 1, 1), &[empty], &ty(Type::C64, &[2, 1]))), [Complex64::ZERO; 2]);
}

#[test]
fn what_is_no_number_stays_none() {
    let got = run(fft(Transform::Fft, 3, 0), &[vector(Type::F32, &[f64::NAN, 1.0, 2.0])], &ty(Type::C64, &[3]));
    assert!(complexes(&got).iter().all(|x| x.re.is_nan()));
}

#[test]
fn calls_without_sense_are_errors() {
    let x = vector(Type::F32, &[1.0, 2.0]);
    let out = ty(Type::C64, &[2]);
    assert_eq!(error(fft(Transform::Fft, 2, 1), from_ref(&x), &out), "fft: axes [1] are not all axes of f32[2]");
    assert_eq!(
        error(fft(Transform::Fft, 0, 0), from_ref(&x), &ty(Type::C64, &[0])),
        "fft: needs a length of at least 1"
    );
    let message = error(fft(Transform::Fft, usize::MAX / 2, 0), from_ref(&x), &out);
    assert_eq!(message, format!("fft: the operands make a result of shape [{}], not [2]", usize::MAX / 2));
    let square = tensor(Type::F32, &[2, 2], &[1.0; 4]);
    let message = error(fft2(Transform::Rfft, [2, 2], [0, 1]), from_ref(&square), &ty(Type::C64, &[2, 2]));
    assert_eq!(message, "rfft2: is made of complex transforms");
    let message = error(fft2(Transform::Fft, [2, 2], [0, 0]), &[square], &ty(Type::C64, &[2, 2]));
    assert_eq!(message, "fft2: axes [0, 0] repeat an axis");
    let message = error(fft(Transform::Fft, 2, 0), &[tracked(&x)], &out);
    assert_eq!(
        message,
        "fft: has no gradient on the tape of a training step; give gradients: :symbolic, or compute it outside of the model"
    );
}
