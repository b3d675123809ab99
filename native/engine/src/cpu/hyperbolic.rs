//! The exponential function of complex numbers and its relatives, whose results are right where e^x overflows on the way to
//! them. Elsewhere they are num-complex's.

use num_complex::Complex64;

/// Beyond this, e^x overflows or will soon.
const LARGE: f64 = 700.0;

/// Beyond this, the hyperbolic tangent of x is 1 but for less than rounding.
const FLAT: f64 = 22.0;

/// The exponential function.
pub(crate) fn exp(z: Complex64) -> Complex64 {
    if z.re > LARGE && z.is_finite() { in_halves(z, 1.0) } else { z.exp() }
}

/// e^z - 1, which keeps its digits where e^z is near 1.
pub(crate) fn expm1(z: Complex64) -> Complex64 {
    if z.re.abs() < 1.0 {
        let half = (z.im / 2.0).sin();
        Complex64::new(z.re.exp_m1() * z.im.cos() - 2.0 * half * half, z.re.exp() * z.im.sin())
    } else {
        exp(z) - 1.0
    }
}

/// The hyperbolic sine.
pub(crate) fn sinh(z: Complex64) -> Complex64 {
    match z {
        z if z.re.abs() <= LARGE || !z.is_finite() => z.sinh(),
        z if z.re < 0.0 => -in_halves(-z, 0.5),
        z => in_halves(z, 0.5),
    }
}

/// The hyperbolic cosine.
pub(crate) fn cosh(z: Complex64) -> Complex64 {
    match z {
        z if z.re.abs() <= LARGE || !z.is_finite() => z.cosh(),
        z if z.re < 0.0 => in_halves(-z, 0.5),
        z => in_halves(z, 0.5),
    }
}

/// The sine: the hyperbolic one, a quarter turn away.
pub(crate) fn sin(z: Complex64) -> Complex64 {
    if z.im.abs() <= LARGE { z.sin() } else { turned_back(sinh(turned(z))) }
}

/// The cosine.
pub(crate) fn cos(z: Complex64) -> Complex64 {
    if z.im.abs() <= LARGE { z.cos() } else { cosh(turned(z)) }
}

/// The hyperbolic tangent.
pub(crate) fn tanh(z: Complex64) -> Complex64 {
    if z.re.abs() <= FLAT || !z.is_finite() {
        return z.tanh();
    }
    let (sin, cos) = z.im.sin_cos();
    let fallen = (-z.re.abs()).exp();
    Complex64::new(1f64.copysign(z.re), 4.0 * sin * cos * fallen * fallen)
}

/// The tangent.
pub(crate) fn tan(z: Complex64) -> Complex64 {
    if z.im.abs() <= FLAT { z.tan() } else { turned_back(tanh(turned(z))) }
}

/// 1 / (1 + e^-z).
pub(crate) fn sigmoid(z: Complex64) -> Complex64 {
    if z.re < -LARGE { exp(z) } else { super::complex::divide(Complex64::ONE, 1.0 + (-z).exp()) }
}

/// e^z times `scale`, with the root of the size twice, so that it overflows no earlier than the result. No sine times any
/// size is none.
fn in_halves(z: Complex64, scale: f64) -> Complex64 {
    let root = (z.re / 2.0).exp();
    let (sin, cos) = z.im.sin_cos();
    let im = if sin == 0.0 { sin } else { root * (scale * sin) * root };
    Complex64::new(root * (scale * cos) * root, im)
}

/// i z
fn turned(z: Complex64) -> Complex64 {
    Complex64::new(-z.im, z.re)
}

/// -i z
fn turned_back(z: Complex64) -> Complex64 {
    Complex64::new(z.im, -z.re)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_keep_their_digits() {
        // As mpmath has them, with 300 bits.
        let cases = [
            ([-1e-09, 2e-09], [-1.0000000015e-09, 1.9999999980000002e-09]),
            ([1e-300, 0.0], [1e-300, 0.0]),
            ([0.25, -0.125], [0.2740070231007443, -0.16008552648540006]),
            ([-0.3, 1e-09], [-0.2591817793182821, 7.40818220681718e-10]),
            ([0.0013533530485748033, 62.84570834097558], [0.0012581565511146193, 0.013873589052712543]),
        ];
        for ([re, im], [want_re, want_im]) in cases {
            let (got, want) = (expm1(Complex64::new(re, im)), Complex64::new(want_re, want_im));
            assert!((got - want).norm() <= 1e-15 * want.norm(), "{got}, should be {want}");
        }
    }
}
