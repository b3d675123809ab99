//! Logarithms.

use std::f32::consts::LN_2;

use super::polynomial;

/// What one more in the exponent adds to the bits of a number.
const STEP: f32 = 8_388_608.0;

/// ln 2 less its nearest `f32`.
const LOW: f32 = -1.904_654_2e-9;

/// The exponent of `x`, in its place among the bits, that leaves a mantissa from 3/4 to 3/2.
#[inline(always)]
fn exponent(x: f32) -> u32 {
    x.to_bits().wrapping_sub(0.75f32.to_bits()) & 0xff80_0000
}

/// ln(1 + t) + ln(2) exponent / [`STEP`] for t from -1/4 to 1/2.
#[inline(always)]
fn sum(t: f32, exponent: f32) -> f32 {
    // (ln(1 + t) - t) / t^2; relative error of ln(1 + t) 4.9e-9.
    const CURVE: [f32; 9] = [
        -0.5,
        0.333_334_5,
        -0.250_001,
        0.199_908_14,
        -0.166_471_15,
        0.144_786_57,
        -0.131_629_91,
        0.104_648_77,
        -0.045_075_525,
    ];
    // The first two terms in two parts as by Dekker, because gumbel noise, a logarithm of a logarithm, shows every unit.
    let high = exponent.mul_add(LN_2 / STEP, t);
    let lost = t - exponent.mul_add(-LN_2 / STEP, high);
    high + (t * t).mul_add(polynomial(t, CURVE), exponent.mul_add(LOW / STEP, lost))
}

/// `y` where it is the logarithm of a positive number `x`, and what else there is for other `x`.
#[inline(always)]
fn limits(x: f32, y: f32, zero: f32) -> f32 {
    let y = if x < f32::INFINITY { y } else { x };
    let outside = if x == zero { f32::NEG_INFINITY } else { f32::NAN };
    if x <= zero { outside } else { y }
}

/// Whether [`ln`] does more for `x` than [`ln_normal`]: it is no normal positive number.
#[inline(always)]
pub(crate) fn is_not_normal(x: f32) -> bool {
    const LEAST: u32 = f32::MIN_POSITIVE.to_bits();
    x.to_bits().wrapping_sub(LEAST) >= f32::INFINITY.to_bits() - LEAST
}

/// The natural logarithm of a normal positive number.
#[inline(always)]
pub(crate) fn ln_normal(x: f32) -> f32 {
    let (t, exponent) = parts(x);
    sum(t, exponent)
}

/// The natural logarithm.
#[inline(always)]
pub(crate) fn ln(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let (t, exponent) = parts(if tiny { x * STEP } else { x });
    let exponent = if tiny { exponent - 23.0 * STEP } else { exponent };
    limits(x, sum(t, exponent), 0.0)
}

/// `(t, exponent)` such that `x` is 1 + t times 2 to the power of exponent / [`STEP`], as [`sum`] takes them.
#[inline(always)]
fn parts(x: f32) -> (f32, f32) {
    let bits = exponent(x);
    (f32::from_bits(x.to_bits().wrapping_sub(bits)) - 1.0, bits as i32 as f32)
}

/// ln(1 + x).
#[inline(always)]
pub(crate) fn ln_1p(x: f32) -> f32 {
    // 1 + x serves to find the exponent only; the mantissa less one is rounded once, from x itself. Four times that much,
    // because the inverse of the largest power would be too small.
    let bits = exponent(1.0 + x);
    let scale = f32::from_bits(4f32.to_bits().wrapping_sub(bits));
    let t = 0.25 * x.mul_add(scale, scale - 4.0);
    limits(x, sum(t, bits as i32 as f32).copysign(x), -1.0)
}
