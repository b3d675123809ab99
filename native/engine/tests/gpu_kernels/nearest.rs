//! Quotients and square roots, which are the nearest numbers.

use ex_burn_engine::program::*;
use ex_burn_engine::{TensorType, Type};

use super::{gpu, random, singles};

const LEN: usize = 200_000;

/// Numbers whose bits are random, of exponents between these.
fn numbers(exponents: [u32; 2], signs: bool, seed: u64) -> Vec<f32> {
    let mut next = random(seed);
    (0..LEN)
        .map(|_| {
            let exponent = exponents[0] + (next() * f64::from(exponents[1] - exponents[0])) as u32;
            let fraction = (next() * f64::from(1 << 23)) as u32;
            let sign = u32::from(signs && next() < 0.5);
            f32::from_bits(sign << 31 | exponent << 23 | fraction)
        })
        .collect()
}

fn check(found: Vec<f64>, expected: impl Iterator<Item = f32>) {
    for (at, (found, expected)) in found.into_iter().zip(expected).enumerate() {
        let found = found as f32;
        // What is below the least normal number may be 0.
        let none = found == 0.0 && expected.abs() < f32::MIN_POSITIVE;
        let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
        assert!(same || none, "{found:e} for {expected:e}, at {at}");
    }
}

#[test]
fn quotients_are_the_nearest_numbers() {
    let Some(gpu) = gpu() else { return };
    let ends = [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 3.0];
    for (seed, exponents) in [(1, [120, 134]), (2, [1, 255]), (3, [64, 190])] {
        let (mut a, mut b) = (numbers(exponents, true, seed), numbers(exponents, true, seed + 10));
        for (i, x) in ends.iter().enumerate() {
            a[i * ends.len()..][..ends.len()].fill(*x);
            b[i * ends.len()..][..ends.len()].copy_from_slice(&ends);
        }
        // Whole numbers, whose quotients are often exact.
        for i in 1000..50_000 {
            (a[i], b[i]) = ((i % 229) as f32, (i % 31 + 1) as f32);
        }
        let inputs = [singles(&[LEN], &a), singles(&[LEN], &b)];
        let found = gpu.one(&Op::Binary(Binary::Divide), &inputs, TensorType::new(Type::F32, [LEN]));
        check(super::floats(&found), a.iter().zip(&b).map(|(a, b)| a / b));
    }
}

#[test]
fn roots_are_the_nearest_numbers() {
    let Some(gpu) = gpu() else { return };
    let mut x = numbers([1, 255], false, 4);
    let ends = [0.0, -0.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE];
    x[..ends.len()].copy_from_slice(&ends);
    let squares = x.iter_mut().enumerate().skip(1000).take(19_000);
    squares.for_each(|(i, x)| *x = (i * i) as f32);
    let inputs = [singles(&[LEN], &x)];
    let root = gpu.one(&Op::Unary(Unary::Sqrt), &inputs, TensorType::new(Type::F32, [LEN]));
    check(super::floats(&root), x.iter().map(|x| x.sqrt()));
    let inverse = gpu.one(&Op::Unary(Unary::Rsqrt), &inputs, TensorType::new(Type::F32, [LEN]));
    check(super::floats(&inverse), x.iter().map(|x| 1.0 / x.sqrt()));
}
