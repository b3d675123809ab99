//! Exponential functions.

use std::f32::consts::{LN_2, LOG2_E};

use super::{ROUNDER, clamp, polynomial};

/// (e^r - 1) / r for |r| <= ln(2) / 2; relative error of e^r 3.2e-9.
const SLOPE: [f32; 6] = [1.0, 0.499_999_94, 0.166_665_2, 0.041_668_26, 0.008_368_872, 0.001_382_223_8];

/// What is left of `x` after `k` times ln 2, which has two parts as Cody and Waite do it: the first has so few digits that
/// its multiple, and the difference, are exact.
#[inline(always)]
fn remainder(x: f32, k: f32) -> f32 {
    k.mul_add(2.121_944_4e-4, k.mul_add(-355.0 / 512.0, x))
}

/// `(a, b, r)` such that e^x = a b e^r, where a and b are powers of two, for x from -120 to 120. There are two because their
/// product may be too large or too small for a number.
#[inline(always)]
fn parts(x: f32) -> (f32, f32, f32) {
    // The bits of a power of two are its exponent and 127, so the bits of two are these and twice 127.
    const BIASED: f32 = ROUNDER + 254.0;
    let rounded = x.mul_add(LOG2_E, BIASED);
    let exponents = rounded.to_bits();
    let half = exponents >> 1;
    let power = |exponent: u32| f32::from_bits(exponent << 23);
    (power(half), power(exponents.wrapping_sub(half)), remainder(x, rounded - BIASED))
}

/// e^x.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let (a, b, r) = parts(clamp(x, -120.0, 120.0));
    r.mul_add(polynomial(r, SLOPE), 1.0) * a * b
}

/// The logistic function, 1 / (1 + e^-x).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    let (a, b, r) = parts(clamp(x, -120.0, 18.0));
    // a b / (a b + e^-r), which neither overflows nor loses digits. The sum is kept in two parts as by Dekker: 1 - sum is
    // exact, so `rest` is what rounding took from `sum`.
    let (r, slope) = (-r, polynomial(-r, SLOPE));
    let sum = r.mul_add(slope, a.mul_add(b, 1.0));
    let rest = r.mul_add(slope, a.mul_add(b, 1.0 - sum));
    let inverse = 1.0 / sum;
    inverse.mul_add(-(inverse * rest), inverse) * a * b
}

/// e^x - 1.
#[inline(always)]
pub(crate) fn exp_m1(x: f32) -> f32 {
    // Half the power, because that of 128 is no number.
    const BIASED: f32 = ROUNDER + 126.0;
    // (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2; relative error of e^r - 1 4.5e-10.
    const CURVE: [f32; 6] = [0.5, 0.166_666_66, 0.041_666_49, 0.008_333_545, 0.001_393_277_4, 0.000_197_629_97];
    let clamped = clamp(x, -30.0, 89.0);
    let rounded = clamped.mul_add(LOG2_E, BIASED);
    let r = remainder(clamped, rounded - BIASED);
    let power = f32::from_bits(rounded.to_bits() << 23);
    let half = power.mul_add((r * r).mul_add(polynomial(r, CURVE), r), power - 0.5);
    // Halves of the smallest numbers lose their last digit.
    if x.abs() < 1e-9 { x } else { half + half }
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    const BIASED: f32 = ROUNDER + 127.0;
    // (e^2r - 1) / r for |r| <= ln(2) / 4; relative error of e^2r 3.4e-9.
    const SLOPE: [f32; 6] = [2.0, 1.999_999_8, 1.333_321, 0.666_688_7, 0.267_830_88, 0.088_611_92];
    // (tanh(x) - x) / x^3 by x^2 for x up to 5 / 8; relative error of tanh(x) 4.5e-9.
    const CURVE: [f32; 5] = [-0.333_332_8, 0.133_314_06, -0.053_736_515, 0.020_628_167, -0.005_692_296];
    let size = x.abs();
    let square = x * x;
    let small = (size * square).mul_add(polynomial(square, CURVE), size);
    let clamped = if size > 10.0 { 10.0 } else { size };
    let rounded = clamped.mul_add(2.0 * LOG2_E, BIASED);
    // One part of ln 2 is enough: the more multiples, the less the power counts.
    let r = (rounded - BIASED).mul_add(-0.5 * LN_2, clamped);
    let power = f32::from_bits(rounded.to_bits() << 23);
    let large = 1.0 - 2.0 / power.mul_add(r.mul_add(polynomial(r, SLOPE), 1.0), 1.0);
    (if size < 0.625 { small } else { large }).copysign(x)
}
