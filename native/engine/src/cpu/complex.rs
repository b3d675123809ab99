//! Functions of one or two complex numbers that num-complex lacks or answers with NaN where a limit exists.

use std::f64::consts::LN_2;

use num_complex::Complex64;
use num_traits::Zero;

use super::special::ln_1p;

/// The principal square root. W. Kahan, "Branch Cuts for Complex Elementary Functions" (1987): exact zeros, no overflow
/// between operand and result, and the limits of C99's annex G for infinite parts.
pub(crate) fn sqrt(z: Complex64) -> Complex64 {
    let Complex64 { re, im } = z;
    match z {
        _ if z.is_zero() => Complex64::new(0.0, im),
        _ if im.is_infinite() => Complex64::new(f64::INFINITY, im),
        _ if re.is_infinite() && im.is_nan() => Complex64::new(re.abs(), im),
        _ if re == f64::INFINITY => Complex64::new(re, 0f64.copysign(im)),
        _ if re == f64::NEG_INFINITY => Complex64::new(0.0, f64::INFINITY.copysign(im)),
        _ => {
            // Scaled by an even power of two, so that neither the sum nor the size overflows.
            let (scale, root) = if re.abs().max(im.abs()) > 1e300 { (0.25, 2.0) } else { (1.0, 1.0) };
            let (re, im) = (re * scale, im * scale);
            let large = ((re.abs() + re.hypot(im)) / 2.0).sqrt();
            let small = im.abs() / (2.0 * large);
            let (re, im) = if re >= 0.0 { (large, small.copysign(im)) } else { (small, large.copysign(im)) };
            Complex64::new(re * root, im * root)
        }
    }
}

/// The principal cube root.
pub(crate) fn cbrt(z: Complex64) -> Complex64 {
    let (size, angle) = (z.norm().cbrt(), z.arg() / 3.0);
    // An infinite size times the sine of no angle is still none.
    let im = if angle == 0.0 { angle } else { size * angle.sin() };
    Complex64::new(size * angle.cos(), im)
}

/// The principal inverse of the cosine. These four inverses are W. Kahan's (see `sqrt`): roots of 1 - z and 1 + z by
/// themselves, since the digits of 1 - z^2 are lost where z is large or near 1.
pub(crate) fn acos(z: Complex64) -> Complex64 {
    if !z.is_finite() {
        return z.acos();
    }
    let (below, above) = (sqrt(Complex64::new(1.0 - z.re, -z.im)), sqrt(Complex64::new(1.0 + z.re, z.im)));
    let im = above.re * below.im - above.im * below.re;
    Complex64::new(2.0 * below.re.atan2(above.re), im.asinh())
}

/// The principal inverse of the hyperbolic cosine; of infinite numbers what its definition ln(z + sqrt(z^2 - 1)) gives.
pub(crate) fn acosh(z: Complex64) -> Complex64 {
    if !z.is_finite() {
        return if z.is_infinite() { (z + sqrt(z * z - 1.0)).ln() } else { z.acosh() };
    }
    let (below, above) = (sqrt(Complex64::new(z.re - 1.0, z.im)), sqrt(Complex64::new(z.re + 1.0, z.im)));
    let re = below.re * above.re + below.im * above.im;
    Complex64::new(re.asinh(), 2.0 * below.im.atan2(above.re))
}

/// The principal inverse of the sine.
pub(crate) fn asin(z: Complex64) -> Complex64 {
    if !z.is_finite() {
        return z.asin();
    }
    let turned = asinh(Complex64::new(-z.im, z.re));
    Complex64::new(turned.im, -turned.re)
}

/// The principal inverse of the hyperbolic sine.
pub(crate) fn asinh(z: Complex64) -> Complex64 {
    if !z.is_finite() {
        return z.asinh();
    }
    let (below, above) = (sqrt(Complex64::new(1.0 + z.im, -z.re)), sqrt(Complex64::new(1.0 - z.im, z.re)));
    let re = below.re * above.im - above.re * below.im;
    Complex64::new(re.asinh(), z.im.atan2(below.re * above.re - below.im * above.im))
}

/// The principal inverse of the hyperbolic tangent, ln((1 + z) / (1 - z)) / 2: the logarithm of 1 plus what the quotient of
/// the sizes is more than that, since the digits of 1 + z are lost where z is small.
pub(crate) fn atanh(z: Complex64) -> Complex64 {
    // Closer to 1, the square of the distance may be 0.
    const CLOSE: f64 = 1e-100;
    if !z.is_finite() {
        return z.atanh();
    }
    let re = z.re.abs();
    let distance = (1.0 - re).hypot(z.im);
    let ln = if distance < CLOSE { 2.0 * (LN_2 - distance.ln()) } else { ln_1p(4.0 * (re / distance) / distance) };
    let im = z.im.atan2(((1.0 - re) * (1.0 + re) - z.im * z.im) / 2.0) / 2.0;
    Complex64::new((ln / 4.0).copysign(z.re), im)
}

/// The principal inverse of the tangent.
pub(crate) fn atan(z: Complex64) -> Complex64 {
    if !z.is_finite() {
        return z.atan();
    }
    let turned = atanh(Complex64::new(-z.im, z.re));
    Complex64::new(turned.im, -turned.re)
}

/// The principal logarithm of 1 + z, which keeps the digits of a small z.
pub(crate) fn log1p(z: Complex64) -> Complex64 {
    if z.norm() < 0.5 {
        let square = z.re * (2.0 + z.re) + z.im * z.im;
        Complex64::new(ln_1p(square) / 2.0, z.im.atan2(1.0 + z.re))
    } else {
        (z + 1.0).ln()
    }
}

/// R. L. Smith, "Algorithm 116: Complex division", Communications of the ACM 5 (1962): no overflow where the quotient has
/// none.
pub(crate) fn divide(a: Complex64, b: Complex64) -> Complex64 {
    if b.re.abs() >= b.im.abs() {
        let ratio = b.im / b.re;
        let scale = b.re + b.im * ratio;
        Complex64::new((a.re + a.im * ratio) / scale, (a.im - a.re * ratio) / scale)
    } else {
        let ratio = b.re / b.im;
        let scale = b.re * ratio + b.im;
        Complex64::new((a.re * ratio + a.im) / scale, (a.im * ratio - a.re) / scale)
    }
}

/// The principal value of a power; 0 to the power of 0 is 1, to any other power 0. As in Nx, it is NaN where a part of either
/// is infinite: the limit depends on the way there.
pub(crate) fn pow(base: Complex64, exponent: Complex64) -> Complex64 {
    let (zero, one) = (Complex64::ZERO, Complex64::ONE);
    match (base, exponent) {
        (_, b) if b == zero => one,
        (a, b) if !a.is_finite() || !b.is_finite() => Complex64::new(f64::NAN, f64::NAN),
        (a, _) if a == zero => zero,
        (a, b) if b == one => a,
        (a, b) if b == -one => divide(one, a),
        (a, b) => a.powc(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(re: f64, im: f64) -> Complex64 {
        Complex64::new(re, im)
    }

    #[test]
    fn roots_of_what_is_large_or_infinite() {
        assert_eq!(sqrt(of(f64::INFINITY, 3.0)), of(f64::INFINITY, 0.0));
        assert_eq!(sqrt(of(f64::NEG_INFINITY, -3.0)), of(0.0, f64::NEG_INFINITY));
        assert_eq!(sqrt(of(0.0, f64::INFINITY)), of(f64::INFINITY, f64::INFINITY));
        assert_eq!(sqrt(of(-4.0, -0.0)), of(0.0, -2.0));
        assert_eq!(sqrt(of(3e200, 4e200)), of(2e100, 1e100));
        assert!(sqrt(of(f64::MAX, f64::MAX)).is_finite());
        assert_eq!(cbrt(of(f64::INFINITY, 3.0)), of(f64::INFINITY, 0.0));
        assert!((cbrt(of(0.0, -8.0)) - of(3f64.sqrt(), -1.0)).norm() < 1e-15);
    }

    /// A function, a number and its value as CPython's cmath has it.
    type Case = (fn(Complex64) -> Complex64, [f64; 2], [f64; 2]);

    #[test]
    fn inverses_keep_their_digits() {
        let cases: [Case; 21] = [
            (acos, [208.96542810600064, -133.52285551656325], [0.5685865684576246, 6.206500259311781]),
            (acos, [-1e-09, 2e-09], [1.5707963277948966, -2e-09]),
            (acos, [-63216.3163135501, -64.59067230563583], [3.140570913418841, 11.747465418807097]),
            (acosh, [208.96542810600064, -133.52285551656325], [6.206500259311781, -0.5685865684576246]),
            (acosh, [-1e-09, 2e-09], [2e-09, 1.5707963277948966]),
            (acosh, [-63216.3163135501, -64.59067230563583], [11.747465418807097, -3.140570913418841]),
            (asin, [208.96542810600064, -133.52285551656325], [1.0022097583372722, -6.206500259311781]),
            (asin, [-1e-09, 2e-09], [-1e-09, 2e-09]),
            (asin, [-63216.3163135501, -64.59067230563583], [-1.5697745866239445, -11.747465418807097]),
            (asinh, [208.96542810600064, -133.52285551656325], [6.206503675595804, -0.5685791902340727]),
            (asinh, [-1e-09, 2e-09], [-1e-09, 2.0000000000000005e-09]),
            (asinh, [-63216.3163135501, -64.59067230563583], [-11.747465418932213, -0.001021740170696513]),
            (atanh, [-1e-09, 2e-09], [-9.999999999999999e-10, 2e-09]),
            (atanh, [208.96542810600064, -133.52285551656325], [0.0033980905204587103, -1.5686250218447721]),
            (atanh, [1.000000001, 2e-09], [10.305847022620616, 1.0172219849459252]),
            (atanh, [1.0, 1e-200], [230.60508288968455, std::f64::consts::FRAC_PI_4]),
            (atanh, [-1e300, 1e10], [-1e-300, std::f64::consts::FRAC_PI_2]),
            (atan, [-1e-09, 2e-09], [-1.0000000000000003e-09, 2.0000000000000005e-09]),
            (atan, [208.96542810600064, -133.52285551656325], [1.567398230392623, -0.002171261630639661]),
            (log1p, [-1e-09, 2e-09], [-9.999999985e-10, 2.000000002e-09]),
            (log1p, [0.25, -0.125], [0.2281187167407938, -0.09966865249116202]),
        ];
        for (i, (f, [re, im], [want_re, want_im])) in cases.into_iter().enumerate() {
            let (got, want) = (f(of(re, im)), of(want_re, want_im));
            assert!((got - want).norm() <= 1e-15 * want.norm(), "{i}: {got}, should be {want}");
        }
    }

    #[test]
    fn cuts_have_the_side_that_the_sign_of_zero_says() {
        let (angle, size) = (std::f64::consts::PI, 2f64.acosh());
        for side in [0.0, -0.0] {
            let sign = 1f64.copysign(side);
            assert_eq!(acos(of(2.0, side)), of(0.0, -sign * size));
            assert_eq!(asin(of(2.0, side)), of(angle / 2.0, sign * size));
            assert_eq!(acosh(of(-2.0, side)), of(size, sign * angle));
            assert_eq!(asinh(of(side, 2.0)), of(sign * size, angle / 2.0));
            assert_eq!(atanh(of(2.0, side)), of(3f64.ln() / 2.0, sign * angle / 2.0));
            assert_eq!(atan(of(side, 2.0)), of(sign * angle / 2.0, 3f64.ln() / 2.0));
        }
    }

    #[test]
    fn powers_at_the_edges() {
        assert_eq!(pow(of(0.0, 0.0), of(0.0, 0.0)), of(1.0, 0.0));
        assert_eq!(pow(of(0.0, 0.0), of(2.0, 1.0)), of(0.0, 0.0));
        assert!(pow(of(f64::INFINITY, 3.0), of(-2.0, 4.0)).is_nan());
    }

    #[test]
    fn quotients_of_what_is_large_or_infinite() {
        assert_eq!(divide(of(1e300, 1e300), of(1e300, 1e300)), of(1.0, 0.0));
        assert_eq!(divide(of(1.0, 0.0), of(f64::INFINITY, 0.0)), of(0.0, 0.0));
    }
}
