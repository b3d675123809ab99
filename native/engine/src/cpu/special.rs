//! Functions of one real number that no library at hand has.

use std::f64::consts::PI;

/// The number at least 0 with this hyperbolic cosine; NaN below 1.
pub(crate) fn acosh(x: f64) -> f64 {
    // The library answers numbers below -1 too.
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

/// The logistic function, 1 / (1 + e^-x).
pub(crate) fn sigmoid(x: f64) -> f64 {
    // The power that cannot overflow.
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { (1.0 + e).recip() }
}

/// The x with erf(x) = y; infinite at -1 and 1, NaN beyond.
///
/// A start value by Winitzki's formula, polished by Halley's method on erf (or on erfc near 1, where erf has no digits).
pub(crate) fn erf_inv(y: f64) -> f64 {
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
