//! Functions of angles.
//!
//! What is left of an angle after a multiple of pi or pi / 2 is found as Cody and Waite do it, with the constant in three
//! parts: the difference to the multiple of the first part is exact with a fused operation, that of the second is rounded
//! relative to itself, and the third is too small to do more than correct the result.

use std::f32::consts::{FRAC_1_PI, FRAC_2_PI, FRAC_PI_2, PI};

use super::{ROUNDER, polynomial};

/// Beyond this, [`sin`], [`cos`] and [`tan`] lose digits.
pub(crate) const LARGEST_ANGLE: f32 = 1e5;

/// The nearest `f32` to pi less [`PI`].
const SECOND: f32 = -8.742_278e-8;

/// The nearest `f32` to pi less [`PI`] and [`SECOND`].
const THIRD: f32 = -3.430_249e-15;

/// The sine of an angle of at most [`LARGEST_ANGLE`] in size.
#[inline(always)]
pub(crate) fn sin(x: f32) -> f32 {
    // (sin(r) - r) / r^3 by r^2 for |r| <= pi / 2; relative error of sin(r) 5.1e-10.
    const CURVE: [f32; 5] = [-0.166_666_67, 0.008_333_350_5, -0.000_198_430_93, 2.762_706_6e-6, -2.550_206_6e-8];
    let rounded = x.mul_add(FRAC_1_PI, ROUNDER);
    let multiple = rounded - ROUNDER;
    let r = multiple.mul_add(-SECOND, multiple.mul_add(-PI, x));
    let r = multiple.mul_add(-THIRD, r);
    // With what the rounding of the square took, which would cost a digit near pi / 2.
    let square = r * r;
    let rest = r.mul_add(r, -square);
    let curve = polynomial(square, CURVE);
    let y = r.mul_add(square.mul_add(curve, rest * curve), r);
    // Odd multiples change the sign.
    let y = f32::from_bits(y.to_bits() ^ (rounded.to_bits() << 31));
    if x == 0.0 { x } else { y }
}

/// What is left of an angle after its nearest multiple of pi / 2.
struct Quarter {
    /// The multiple, and the low bits of it as an integer.
    multiple: f32,
    bits: u32,
    /// The rest by one part of pi / 2, exactly, and by two.
    near: f32,
    rest: f32,
}

impl Quarter {
    #[inline(always)]
    fn new(x: f32) -> Self {
        let rounded = x.mul_add(FRAC_2_PI, ROUNDER);
        let multiple = rounded - ROUNDER;
        let near = multiple.mul_add(-FRAC_PI_2, x);
        Self { multiple, bits: rounded.to_bits(), near, rest: multiple.mul_add(-0.5 * SECOND, near) }
    }
}

/// The cosine of an angle of at most [`LARGEST_ANGLE`] in size.
#[inline(always)]
pub(crate) fn cos(x: f32) -> f32 {
    // (sin(r) - r) / r^3 and (cos(r) - 1) / r^2 by r^2 for |r| <= pi / 4; relative errors of sin(r) and cos(r) 1.7e-10 and
    // 1.2e-10.
    const SIN: [f32; 4] = [-0.166_666_67, 0.008_333_379, -0.000_198_530_64, 2.832_510_7e-6];
    const COS: [f32; 4] = [-0.5, 0.041_666_646, -0.001_388_730_8, 2.443_210_2e-5];
    let Quarter { multiple, bits, rest: r, .. } = Quarter::new(x);
    let square = r * r;
    let sin = r + multiple.mul_add(-0.5 * THIRD, (r * square) * polynomial(square, SIN));
    let cos = square.mul_add(polynomial(square, COS), 1.0);
    let y = if bits & 1 == 0 { cos } else { sin };
    f32::from_bits(y.to_bits() ^ (((bits + 1) & 2) << 30))
}

/// The tangent of an angle of at most [`LARGEST_ANGLE`] in size.
#[inline(always)]
pub(crate) fn tan(x: f32) -> f32 {
    // (tan(r) - r) / r^3 by r^2 for |r| <= pi / 4; relative error of tan(r) 1.8e-8.
    const CURVE: [f32; 6] = [0.333_331_53, 0.133_389_2, 0.053_400_77, 0.024_468_966, 0.003_055_886_4, 0.009_424_206];
    let Quarter { multiple, bits, near, rest: r } = Quarter::new(x);
    // What the rounding of r took, for which the tangent is steep; a small r has all its digits.
    let lost = if near.abs() < 0.01 { 0.0 } else { multiple.mul_add(-0.5 * SECOND, near - r) };
    let lost = multiple.mul_add(-0.5 * THIRD, lost);
    let square = r * r;
    let more = (r * square).mul_add(polynomial(square, CURVE), lost.mul_add(square, lost));
    let even = r + more;
    // After an odd multiple -1 / (r + more), by a step of Newton's from the inverse of the rounded sum.
    let odd = -1.0 / even;
    let odd = odd.mul_add(odd.mul_add((r - even) + more, odd.mul_add(even, 1.0)), odd);
    let y = if bits & 1 == 0 { even } else { odd };
    if x == 0.0 { x } else { y }
}
