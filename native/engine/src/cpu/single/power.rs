//! Powers and roots.

use std::f64::consts::LOG2_E;

use super::double::{exp2, ln_of_ratio};

/// x^y.
#[inline(always)]
pub(crate) fn pow(x: f32, y: f32) -> f32 {
    let size = f64::from(x).abs();
    let (k, l) = ln_of_ratio(size, 1.0);
    let log = l.mul_add(LOG2_E, k);
    let log = if size < f64::INFINITY { log } else { size };
    let log = if x == 0.0 { f64::NEG_INFINITY } else { log };
    // Far beyond the exponents there are.
    let exponent = f64::from(y) * log;
    let exponent = if exponent < -300.0 { -300.0 } else { exponent };
    let exponent = if exponent > 300.0 { 300.0 } else { exponent };
    let power = exp2(exponent) as f32;
    // Any power of 1 and any 0th power is 1, also of and by what is no number; so are infinite powers of -1.
    let power = if (size == 1.0) & !y.is_nan() | (x == 1.0) | (y == 0.0) { 1.0 } else { power };
    // Of negative numbers there are only powers by integers, of which odd ones keep the sign. Infinity is even.
    let half = 0.5 * y;
    let integer = y.trunc() == y;
    let odd = integer & (half.trunc() != half);
    let power = if odd { power.copysign(x) } else { power };
    if (x < 0.0) & (size < f64::INFINITY) & !y.is_nan() & !integer { f32::NAN } else { power }
}

/// The cube root.
#[inline(always)]
pub(crate) fn cbrt(x: f32) -> f32 {
    // A third of the bits of a number is a third of its exponent. This start makes the largest errors of 1 - x z^3 on both
    // sides alike: 0.103.
    const START: u64 = 0x553e_e800;
    const THIRD: u64 = 0x5555_5556;
    let wide = f64::from(x);
    let size = wide.abs();
    let third = ((size.to_bits() >> 32) * THIRD) >> 32;
    // 1 / cbrt(size) by its binomial series: a step of fourth order leaves an error of 6e-5, one of third order 1e-13.
    let z = f64::from_bits(START.wrapping_sub(third) << 32);
    let error = (size * z * z).mul_add(-z, 1.0);
    let z = (z * error).mul_add(error.mul_add(error.mul_add(14.0 / 81.0, 2.0 / 9.0), 1.0 / 3.0), z);
    let error = (size * z * z).mul_add(-z, 1.0);
    let z = (z * error).mul_add(error.mul_add(2.0 / 9.0, 1.0 / 3.0), z);
    let root = (wide * z * z) as f32;
    if size < f64::INFINITY { root } else { x }
}
