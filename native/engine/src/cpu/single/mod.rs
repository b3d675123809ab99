//! Functions of `f32`, at most one unit in the last place from the rounded right value, for every operand.
//!
//! They have no branches and call nothing, so that the compiler turns a loop over them into vector instructions. The time
//! they take is the number of their operations. Those that are used most compute in `f32` alone, as many elements at a time
//! as there can be; the others in `f64`, half as many, which leaves digits to spare and is rounded once. The polynomials
//! are minimax ones of the relative error of the result, by Lawson's and Remez's algorithms, with one coefficient rounded
//! after the other; the errors given are those before the operations round.

mod angle;
mod double;
mod error;
mod exponential;
mod hyperbolic;
mod inverse;
mod logarithm;
mod power;

pub(crate) use angle::{LARGEST_ANGLE, cos, sin, tan};
pub(crate) use error::{erf_inv, erfc};
pub(crate) use exponential::{exp, exp_m1, sigmoid, tanh};
pub(crate) use hyperbolic::{acosh, asinh, atanh, cosh, sinh};
pub(crate) use inverse::{acos, asin, atan, atan2};
pub(crate) use logarithm::{is_not_normal, ln, ln_1p, ln_normal};
pub(crate) use power::{cbrt, pow};

/// Adding and subtracting this rounds a number of at most 2^22 in size to an integer, which is then in the low bits of the
/// sum. Any integer may be added to it.
const ROUNDER: f32 = 12_582_912.0;

/// The sum of the coefficients times the powers of `x`, by Horner's rule.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let last = coefficients[N - 1];
    coefficients[..N - 1].iter().rev().fold(last, |sum, &c| sum.mul_add(x, c))
}

/// `x` held in `low..=high`; NaN stays.
#[inline(always)]
fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// The error function.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    // erf(x) / x - 1 by x^2 for x up to 1.25; relative error 1.3e-9.
    const SLOPE: [f32; 8] = [
        0.128_379_17,
        -0.376_126_3,
        0.112_836_584,
        -0.026_859_5,
        0.005_207_499_5,
        -0.000_832_416_47,
        0.000_103_173_45,
        -7.424_924_7e-6,
    ];
    // The eighth root of 1 - erf(x) for x from 1.2 to 4, beyond which this is no more than half a unit; error of its eighth
    // power 3.8e-9. The power multiplies the errors of the root, but there is little left to subtract.
    const ROOT: [f32; 7] =
        [1.001_358_7, -0.146_953_18, -0.058_627_173, -0.013_541_733, 0.013_852_707, -0.002_676_895_6, 0.000_168_752_11];
    let size = x.abs();
    let small = size.mul_add(polynomial(x * x, SLOPE), size);
    let root = polynomial(if size > 4.0 { 4.0 } else { size }, ROOT);
    let fourth = (root * root) * (root * root);
    let large = fourth.mul_add(-fourth, 1.0);
    (if size < 1.22 { small } else { large }).copysign(x)
}

/// 1 / sqrt(x).
#[inline(always)]
pub(crate) fn rsqrt(x: f32) -> f32 {
    // Halving the bits of a number halves its exponent. This start makes the largest errors of 1 - x y^2 on both sides alike:
    // 0.069.
    const START: u32 = 0x5f37_5500;
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 16_777_216.0 } else { x };
    let y = f32::from_bits(START.wrapping_sub(scaled.to_bits() >> 1));
    // A step of third order leaves an error of 1e-4, one of second order 1.5e-8.
    let error = (scaled * y).mul_add(-y, 1.0);
    let y = y.mul_add(error * error.mul_add(0.375, 0.5), y);
    let error = (scaled * y).mul_add(-y, 1.0);
    let y = y.mul_add(error * 0.5, y);
    let y = if tiny { y * 4096.0 } else { y };
    let y = if x == f32::INFINITY { 0.0 } else { y };
    let outside = if x == 0.0 { f32::INFINITY.copysign(x) } else { f32::NAN };
    if x <= 0.0 { outside } else { y }
}
