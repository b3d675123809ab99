//! Hyperbolic functions and their inverses, but for the hyperbolic tangent, which is an exponential function.

use super::double::{at_most, exp, ln_ratio, polynomial};

/// The hyperbolic sine.
#[inline(always)]
pub(crate) fn sinh(x: f32) -> f32 {
    // sinh(x) / x by x^2 for x up to 1; relative error 4.6e-11.
    const CURVE: [f64; 5] =
        [1.0000000000459661, 0.166666664302379, 0.00833335259326329, 0.00019835812418667403, 2.8185239867946865e-06];
    let size = f64::from(x).abs();
    let small = size * polynomial(size * size, CURVE);
    let power = exp(at_most(size, 100.0));
    let large = 0.5 * power - 0.5 / power;
    ((if size < 1.0 { small } else { large }) as f32).copysign(x)
}

/// The hyperbolic cosine.
#[inline(always)]
pub(crate) fn cosh(x: f32) -> f32 {
    let power = exp(at_most(f64::from(x).abs(), 100.0));
    (0.5 * power + 0.5 / power) as f32
}

/// Below this, two terms of a series are enough, and logarithms lose digits.
const SMALL: f64 = 1e-3;

/// The y with sinh(y) = x.
#[inline(always)]
pub(crate) fn asinh(x: f32) -> f32 {
    let size = f64::from(x).abs();
    let square = size * size;
    let small = (size * square).mul_add(-1.0 / 6.0, size);
    let large = ln_ratio(size + (square + 1.0).sqrt(), 1.0);
    let large = if size < f64::INFINITY { large } else { size };
    ((if size < SMALL { small } else { large }) as f32).copysign(x)
}

/// The y from 0 with cosh(y) = x.
#[inline(always)]
pub(crate) fn acosh(x: f32) -> f32 {
    let wide = f64::from(x);
    // The least number above 1 has a root of 5e-4, of which the sum keeps 12 digits.
    let y = ln_ratio(wide + ((wide - 1.0) * (wide + 1.0)).sqrt(), 1.0) as f32;
    let y = if x < f32::INFINITY { y } else { x };
    if x < 1.0 { f32::NAN } else { y }
}

/// The y with tanh(y) = x.
#[inline(always)]
pub(crate) fn atanh(x: f32) -> f32 {
    let size = f64::from(x).abs();
    let small = (size * size * size).mul_add(1.0 / 3.0, size);
    let large = 0.5 * ln_ratio(1.0 + size, 1.0 - size);
    let y = (if size < SMALL { small } else { large }) as f32;
    let outside = if size == 1.0 { f32::INFINITY } else { f32::NAN };
    (if size < 1.0 { y } else { outside }).copysign(x)
}
