//! Angles of sines, cosines and tangents.

use std::f64::consts::{FRAC_PI_2, PI};

use super::double::{at_most, polynomial};

/// The angle of the point (x, y).
#[inline(always)]
pub(crate) fn atan2(y: f32, x: f32) -> f32 {
    // atan(q) / q by q^2 for q up to 1; relative error 5.9e-11.
    const CURVE: [f64; 12] = [
        0.9999999999412583,
        -0.3333333157149202,
        0.19999912056715358,
        -0.1428398080878341,
        0.1109324151789999,
        -0.08980239848885757,
        0.07245719371125248,
        -0.05427910882647992,
        0.034209590282827225,
        -0.01611165413242093,
        0.004850917712057163,
        -0.0006847887917232351,
    ];
    // Infinite sides as long ones of one length, and the quotient of two zeros is zero.
    let (a, b) = (at_most(f64::from(y).abs(), 1e100), at_most(f64::from(x).abs(), 1e100));
    let steep = a > b;
    let (low, high) = if steep { (b, a) } else { (a, b) };
    let q = low / (high + 1e-200);
    let angle = q * polynomial(q * q, CURVE);
    let angle = if steep { FRAC_PI_2 - angle } else { angle };
    let angle = if x.is_sign_negative() { PI - angle } else { angle };
    (angle as f32).copysign(y)
}

/// The angle from -pi / 2 to pi / 2 with the tangent `x`.
#[inline(always)]
pub(crate) fn atan(x: f32) -> f32 {
    atan2(x, 1.0)
}

/// `(angle, outer)`: the angle with the sine |x|, or, where |x| is large, half the angle with the cosine |x|.
#[inline(always)]
fn acute(x: f64) -> (f64, bool) {
    // asin(s) / s by s^2 for s up to 1 / 2; relative error 1.6e-11.
    const CURVE: [f64; 8] = [
        0.9999999999849066,
        0.1666666742171694,
        0.07499938196583875,
        0.044662035894158354,
        0.030092207525736794,
        0.024711542217047806,
        0.00722385587864957,
        0.034951497302200076,
    ];
    let size = x.abs();
    let outer = size > 0.5;
    let square = if outer { 0.5 - 0.5 * size } else { size * size };
    let sine = if outer { square.sqrt() } else { size };
    (sine * polynomial(square, CURVE), outer)
}

/// The angle from -pi / 2 to pi / 2 with the sine `x`.
#[inline(always)]
pub(crate) fn asin(x: f32) -> f32 {
    let (angle, outer) = acute(x.into());
    let angle = if outer { FRAC_PI_2 - 2.0 * angle } else { angle };
    (angle as f32).copysign(x)
}

/// The angle from 0 to pi with the cosine `x`.
#[inline(always)]
pub(crate) fn acos(x: f32) -> f32 {
    let (angle, outer) = acute(x.into());
    let signed = angle.copysign(x.into());
    let from_zero = 2.0 * signed + if x < 0.0 { PI } else { 0.0 };
    (if outer { from_zero } else { FRAC_PI_2 - signed }) as f32
}
