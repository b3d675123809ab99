//! Functions of one real number, good to single precision: each is off by little more than the half unit that rounding
//! costs.
//!
//! They have no branches and call nothing, so that the compiler turns a loop over them into vector instructions. All but
//! [`exp`] work in double precision, which leaves no digit of an `f32` to chance. The polynomials are minimax ones of the
//! relative error, by Remez's algorithm; the error is the one before rounding.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, LN_2, LOG2_E, SQRT_2};

/// Adding and subtracting this rounds a small number to an integer, which is then in the low bits of the sum.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// Beyond this, [`sin`], [`cos`] and [`tan`] lose digits.
pub(crate) const LARGEST_ANGLE: f64 = 1e6;

#[inline(always)]
fn polynomial<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, &c| sum.mul_add(x, c))
}

/// `x` held in `low..=high`; NaN stays.
#[inline(always)]
fn clamp(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// 2 to the power of an integer of at most 1000 in size, from its sum with [`ROUNDER`].
#[inline(always)]
fn power_of_two(rounded: f64) -> f64 {
    f64::from_bits((rounded.to_bits() << 52).wrapping_add(1.0f64.to_bits()))
}

/// e^x.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const ROUNDER: f32 = 12_582_912.0;
    // ln 2 in two parts, the first of which has so few digits that its multiples are exact.
    const LN_2_HIGH: f32 = 355.0 / 512.0;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2; relative error 1.3e-7 of this part.
    const CURVE: [f32; 5] = [0.5, 0.166_665_77, 0.041_666_853, 0.008_363_147, 0.001_390_129_1];
    let x = if x < -104.0 { -104.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUNDER);
    let k = rounded - ROUNDER;
    let r = k.mul_add(-LN_2_LOW, k.mul_add(-LN_2_HIGH, x));
    let curve = CURVE.iter().rev().fold(0.0, |sum: f32, &c| sum.mul_add(r, c));
    let mantissa = (r * r).mul_add(curve, r) + 1.0;
    // In two steps, because the power itself may be too large or too small to be a number.
    let k = rounded.to_bits().wrapping_sub(ROUNDER.to_bits()) as i32;
    let half = k >> 1;
    let power = |k: i32| f32::from_bits(((k + 127) << 23) as u32);
    mantissa * power(half) * power(k - half)
}

/// e^x - 1 as `(a, b)` with e^x = a + b + 1, where a is a power of two less one; for |x| up to 600.
#[inline(always)]
fn exp_parts(x: f64) -> (f64, f64) {
    // (e^r - 1) / r for |r| <= ln(2) / 2; relative error 4.5e-12.
    const SLOPE: [f64; 8] = [
        0.999_999_999_995_569_5,
        0.500_000_000_012_063_9,
        0.166_666_667_854_204_84,
        0.041_666_665_951_004_74,
        0.008_333_283_732_070_372,
        0.001_388_897_836_231_650_2,
        0.000_199_074_641_643_536_1,
        2.480_157_288_976_429_2e-5,
    ];
    let rounded = x.mul_add(LOG2_E, ROUNDER);
    let r = (rounded - ROUNDER).mul_add(-LN_2, x);
    let power = power_of_two(rounded);
    (power - 1.0, power * (r * polynomial(r, SLOPE)))
}

/// e^x - 1.
#[inline(always)]
pub(crate) fn exp_m1(x: f64) -> f64 {
    let (a, b) = exp_parts(clamp(x, -150.0, 150.0));
    if x == 0.0 { x } else { a + b }
}

/// The logistic function, 1 / (1 + e^-x).
#[inline(always)]
pub(crate) fn sigmoid(x: f64) -> f64 {
    let (a, b) = exp_parts(clamp(-x, -150.0, 150.0));
    1.0 / (2.0 + a + b)
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh(x: f64) -> f64 {
    let (a, b) = exp_parts(-2.0 * clamp(x.abs(), 0.0, 50.0));
    (-(a + b) / (2.0 + a + b)).copysign(x)
}

/// The natural logarithm.
#[inline(always)]
pub(crate) fn ln(x: f64) -> f64 {
    // ln(1 + t) / t for 1 + t from sqrt(1/2) to sqrt(2).
    const SLOPE: [f64; 13] = [
        0.999_999_999_985_956_3,
        -0.500_000_000_294_063,
        0.333_333_343_337_606_5,
        -0.249_999_940_810_723_94,
        0.199_998_811_423_734_8,
        -0.166_669_433_729_915_44,
        0.142_909_870_169_642_9,
        -0.124_974_855_480_245_95,
        0.110_050_825_975_516_73,
        -0.099_228_460_038_987_65,
        0.100_332_033_306_852_6,
        -0.099_008_903_707_738_03,
        0.053_629_220_885_461_314,
    ];
    // The exponent that leaves a mantissa between the square roots of 1/2 and 2.
    let exponent = (x.to_bits().wrapping_sub((0.5 * SQRT_2).to_bits()) as i64) >> 52;
    let t = f64::from_bits(x.to_bits().wrapping_sub((exponent as u64) << 52)) - 1.0;
    let exponent = f64::from_bits(ROUNDER.to_bits().wrapping_add(exponent as u64)) - ROUNDER;
    let y = (t * polynomial(t, SLOPE)) + exponent * LN_2;
    let y = if x == f64::INFINITY { x } else { y };
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    if x >= 0.0 { y } else { f64::NAN }
}

/// ln(1 + x).
#[inline(always)]
pub(crate) fn ln_1p(x: f64) -> f64 {
    // Where the sum would lose digits, the first terms of the series have all that count.
    let small = x * (-x).mul_add((-x).mul_add(1.0 / 3.0, 0.5), 1.0);
    if x.abs() < 1e-4 { small } else { ln(1.0 + x) }
}

/// The error function.
#[inline(always)]
pub(crate) fn erf(x: f64) -> f64 {
    // -ln(1 - erf(x)) / x for x = 2 + 2t from 0 to 4.
    const RATE: [f64; 16] = [
        2.682_470_632_287_16,
        1.735_690_173_859_514,
        0.111_811_512_846_981_92,
        -0.045_951_043_918_131_1,
        0.017_384_922_595_757_142,
        -0.005_666_524_955_209_308,
        0.001_337_237_645_194_385_1,
        -1.184_293_194_003_340_9e-05,
        -0.000_240_630_075_432_548_67,
        0.000_187_232_462_715_735_15,
        -9.254_150_836_667_885e-05,
        3.680_300_378_667_974e-05,
        -1.613_579_995_821_890_6e-05,
        1.106_773_727_375_712e-06,
        6.874_544_014_462_077_4e-06,
        -3.198_844_482_944_39e-06,
    ];
    let size = clamp(x.abs(), 0.0, 4.0);
    let (a, b) = exp_parts(-size * polynomial(size.mul_add(0.5, -1.0), RATE));
    (-(a + b)).copysign(x)
}

/// The sine and the cosine of what is left of `x` after the nearest multiple of pi / 2, and this multiple in the low bits.
#[inline(always)]
fn quarter(x: f64) -> (f64, f64, u64) {
    // pi / 2 less its nearest `f64`.
    const REST: f64 = 6.123_233_995_736_766e-17;
    // sin(r) / r and cos(r) by r^2 for |r| <= pi / 4; relative errors 4.6e-12 and 6.6e-14.
    const SIN: [f64; 5] = [
        0.999_999_999_995_450_1,
        -0.166_666_666_304_431_42,
        0.008_333_328_689_863_983,
        -0.000_198_391_782_713_486_27,
        2.717_152_042_432_969_3e-6,
    ];
    const COS: [f64; 6] = [
        0.999_999_999_999_934_4,
        -0.499_999_999_992_711_9,
        0.041_666_666_533_681_14,
        -0.001_388_887_993_375_641_6,
        2.479_884_412_262_738_8e-5,
        -2.716_797_157_802_098e-7,
    ];
    let rounded = x.mul_add(FRAC_2_PI, ROUNDER);
    let multiple = rounded - ROUNDER;
    let r = multiple.mul_add(-REST, multiple.mul_add(-FRAC_PI_2, x));
    (r * polynomial(r * r, SIN), polynomial(r * r, COS), rounded.to_bits())
}

/// The sine of an angle of at most [`LARGEST_ANGLE`] in size.
#[inline(always)]
pub(crate) fn sin(x: f64) -> f64 {
    let (sin, cos, multiple) = quarter(x);
    let y = if multiple & 1 == 0 { sin } else { cos };
    let y = f64::from_bits(y.to_bits() ^ ((multiple & 2) << 62));
    if x == 0.0 { x } else { y }
}

/// The cosine of an angle of at most [`LARGEST_ANGLE`] in size.
#[inline(always)]
pub(crate) fn cos(x: f64) -> f64 {
    let (sin, cos, multiple) = quarter(x);
    let y = if multiple & 1 == 0 { cos } else { sin };
    f64::from_bits(y.to_bits() ^ (((multiple + 1) & 2) << 62))
}

/// The tangent of an angle of at most [`LARGEST_ANGLE`] in size.
#[inline(always)]
pub(crate) fn tan(x: f64) -> f64 {
    let (sin, cos, multiple) = quarter(x);
    let odd = multiple & 1 == 1;
    let y = if odd { -cos } else { sin } / if odd { sin } else { cos };
    if x == 0.0 { x } else { y }
}
