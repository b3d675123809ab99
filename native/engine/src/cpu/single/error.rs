//! The inverse of the error function, and what is left of it to 1.

use super::double::{at_most, exp, ln_ratio, polynomial};
use crate::cpu::special;

/// 1 - erf(x), without loss of digits for large x.
#[inline(always)]
pub(crate) fn erfc(x: f32) -> f32 {
    /// Which positive x is at the middle of the curve.
    const MIDDLE: f64 = 2.5;
    /// Beyond this, the result is less than half the least number.
    const LARGEST: f64 = 10.2;
    // e^(x^2) erfc(x) by (x - MIDDLE) / (x + MIDDLE) for x from 0 to LARGEST; relative error 2.9e-11.
    const CURVE: [f64; 13] = [
        0.21080636406072076,
        -0.3717367338398488,
        0.2517131931149978,
        -0.12503305804833123,
        0.03992254388832278,
        -0.003993616253265994,
        -0.0026424128358751037,
        0.0008753508172018305,
        0.00022849621855985686,
        -0.00012696392958284002,
        -3.391445563529198e-05,
        1.5340129281249648e-05,
        6.048913355006931e-06,
    ];
    let size = at_most(f64::from(x).abs(), LARGEST);
    let y = exp(-size * size) * polynomial((size - MIDDLE) / (size + MIDDLE), CURVE);
    (if x < 0.0 { 2.0 - y } else { y }) as f32
}

/// The x with erf(x) = y, as [`special::erf_inv`] defines it.
#[inline(always)]
pub(crate) fn erf_inv(y: f32) -> f32 {
    let wide = f64::from(y);
    let x = special::erf_inv_by(wide, -ln_ratio((1.0 - wide) * (1.0 + wide), 1.0)) as f32;
    let outside = if y.abs() == 1.0 { f32::INFINITY.copysign(y) } else { f32::NAN };
    if y.abs() < 1.0 { x } else { outside }
}
