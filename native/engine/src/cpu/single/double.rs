//! Exponential function and logarithm in double precision, good to ten digits.

use std::f64::consts::{LN_2, LOG2_E};

/// Adding and subtracting this rounds a number of at most 2^51 in size to an integer, which is then in the low bits of the
/// sum.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// Where the exponent lies among the bits.
const EXPONENT: u32 = 52;

/// The sum of the coefficients times the powers of `x`, by Horner's rule.
#[inline(always)]
pub(super) fn polynomial<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let last = coefficients[N - 1];
    coefficients[..N - 1].iter().rev().fold(last, |sum, &c| sum.mul_add(x, c))
}

/// `x`, or `high` where that is less; NaN stays.
#[inline(always)]
pub(super) fn at_most(x: f64, high: f64) -> f64 {
    if x > high { high } else { x }
}

/// e^x for x of at most 700 in size.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    // For |r| <= ln(2) / 2; relative error 4.1e-11.
    const CURVE: [f64; 8] = [
        0.9999999999616617,
        1.0000000002431608,
        0.5000000104595133,
        0.16666665125878258,
        0.041666225256233556,
        0.008333561091898967,
        0.0013948194870284116,
        0.00019775194966934715,
    ];
    let rounded = x.mul_add(LOG2_E, ROUNDER);
    let r = (rounded - ROUNDER).mul_add(-LN_2, x);
    polynomial(r, CURVE) * power(rounded)
}

/// 2^x for x of at most 1000 in size.
#[inline(always)]
pub(super) fn exp2(x: f64) -> f64 {
    // For |r| <= 1 / 2; relative error 4.1e-11.
    const CURVE: [f64; 8] = [
        0.9999999999616617,
        0.6931471807284916,
        0.24022651198440537,
        0.055504103533616345,
        0.009618027214607635,
        0.0013333922566277831,
        0.00015469303940440622,
        1.5201939551603572e-05,
    ];
    let rounded = x + ROUNDER;
    polynomial(x - (rounded - ROUNDER), CURVE) * power(rounded)
}

/// 2 to the power of the integer in the low bits of a sum with [`ROUNDER`].
#[inline(always)]
fn power(rounded: f64) -> f64 {
    f64::from_bits((rounded.to_bits() << EXPONENT).wrapping_add(1f64.to_bits()))
}

/// `(k, l)` such that ln(p / q) = k ln(2) + l for positive normal numbers, where k is an integer and l from -0.41 to 0.41.
#[inline(always)]
pub(super) fn ln_of_ratio(p: f64, q: f64) -> (f64, f64) {
    // 2 atanh(s) / s by s^2 for s up to 1 / 5; relative error 1.8e-13.
    const CURVE: [f64; 6] = [
        1.999999999999649,
        0.6666666672945211,
        0.39999981822062197,
        0.2857334928576187,
        0.22130884799523384,
        0.20161866981281662,
    ];
    // The bits of a number are its logarithm, but for what its mantissa is off a line: half more than the difference of two,
    // rounded down, is an exponent that leaves a ratio from 2/3 to 3/2. Kept positive.
    const BIAS: u64 = 2048;
    const HALF: u64 = (BIAS << EXPONENT) + (1 << (EXPONENT - 1));
    let exponent = p.to_bits().wrapping_sub(q.to_bits()).wrapping_add(HALF) >> EXPONENT;
    let p = f64::from_bits(p.to_bits().wrapping_sub(exponent.wrapping_sub(BIAS) << EXPONENT));
    let s = (p - q) / (p + q);
    let k = f64::from_bits(exponent + ROUNDER.to_bits()) - (ROUNDER + BIAS as f64);
    (k, s * polynomial(s * s, CURVE))
}

/// ln(p / q) for positive normal numbers.
#[inline(always)]
pub(super) fn ln_ratio(p: f64, q: f64) -> f64 {
    let (k, l) = ln_of_ratio(p, q);
    k.mul_add(LN_2, l)
}
