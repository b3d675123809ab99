//! Functions of one real number that no library at hand has.

use std::f64::consts::{LN_2, PI};

/// The x with erf(x) = y to single precision, as XLA and Nx compute it; infinite at -1 and 1, NaN beyond.
///
/// M. Giles, "Approximating the erfinv function", GPU Computing Gems Jade Edition (2011).
pub(crate) fn erf_inv_f32(y: f32) -> f32 {
    const CENTRE: [f64; 9] = [
        2.81022636e-08,
        3.43273939e-07,
        -3.5233877e-06,
        -4.39150654e-06,
        0.00021858087,
        -0.00125372503,
        -0.00417768164,
        0.246640727,
        1.50140941,
    ];
    const TAIL: [f64; 9] = [
        -0.000200214257,
        0.000100950558,
        0.00134934322,
        -0.00367342844,
        0.00573950773,
        -0.0076224613,
        0.00943887047,
        1.00167406,
        2.83297682,
    ];
    if y.abs() == 1.0 {
        return y * f32::INFINITY;
    }
    let y = f64::from(y);
    let w = -((1.0 - y) * (1.0 + y)).ln();
    let (coefficients, w) = if w < 5.0 { (CENTRE, w - 2.5) } else { (TAIL, w.sqrt() - 3.0) };
    (y * coefficients.iter().fold(0.0, |sum, c| sum * w + c)) as f32
}

/// The x with erf(x) = y; infinite at -1 and 1, NaN beyond.
///
/// A start value by Winitzki's formula, polished by Halley's method on erf (or on erfc near 1, where erf has no digits).
pub(crate) fn erf_inv_f64(y: f64) -> f64 {
    if y.abs() >= 1.0 || y == 0.0 || y.is_nan() {
        return if y.abs() > 1.0 {
            f64::NAN
        } else if y.abs() == 1.0 {
            y * f64::INFINITY
        } else {
            y
        };
    }
    let size = y.abs();
    (0..3).fold(winitzki(size), |x, _| halley(x, size)).copysign(y)
}

/// S. Winitzki, "A handy approximation for the error function and its inverse" (2008), solved for x.
fn winitzki(y: f64) -> f64 {
    const A: f64 = 0.147;
    let log = (-y * y).ln_1p();
    let half = 2.0 / (PI * A) + log / 2.0;
    // The same as sqrt(half^2 - log / a) - half, without its cancellation for small y.
    (-log / A / ((half * half - log / A).sqrt() + half)).sqrt()
}

fn halley(x: f64, y: f64) -> f64 {
    let error = if y < 0.5 { libm::erf(x) - y } else { (1.0 - y) - libm::erfc(x) };
    let step = error / (2.0 / PI.sqrt() * (-x * x).exp());
    x - step / (1.0 + x * step)
}

/// ln(x + sqrt(x^2 - 1)) in the form that keeps the digits of `x`: near 1 by the distance from 1, in the middle by the
/// distance of the root from x, far away, where the square may overflow, without the root. NaN below 1.
pub(crate) fn acosh(x: f64) -> f64 {
    const FAR: f64 = (1u32 << 28) as f64;
    let above = x - 1.0;
    match x {
        ..1.0 => f64::NAN,
        ..2.0 => (above + (above * (above + 2.0)).sqrt()).ln_1p(),
        ..FAR => (2.0 * x - 1.0 / (x + (x * x - 1.0).sqrt())).ln(),
        _ => x.ln() + LN_2,
    }
}
