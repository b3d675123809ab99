//! Functions of the normal distribution, in `f32` alone.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::double::{self, Double};
use super::function::{INFINITY, NAN, SIGN, bits, c, erf, is_nan, kept, number, polynomial};
use super::power::exp_of;

/// 1 - erf(x), without loss of digits for large `x`: there e^(-x^2) times what is left, by powers of `x` or of its inverse.
#[cube]
pub(crate) fn erfc(x: f32, zero: u32) -> f32 {
    let held = min(max(x, 0.5f32.runtime()), 11.0f32.runtime());
    let whole = Double { high: held, low: 0.0f32.runtime() };
    let inverse = double::quotient(1.0f32.runtime(), &whole, zero);
    let (near, middle) = (held < 1.5f32, held < 3.5f32);
    let t = select(near, held - 1.0f32, inverse.high - select(middle, 0.4f32.runtime(), 0.2f32.runtime()));
    let near_slope = polynomial(
        t,
        comptime!(c(&[
            -0.273_212_02,
            0.154_371_51,
            -0.079_226_99,
            0.037_574_01,
            -0.016_661_875,
            0.006_950_918_6,
            -0.002_765_655_3,
            0.001_137_336_8,
            -0.000_405_825_56,
        ])),
    );
    let middle_slope = polynomial(
        t,
        comptime!(c(&[
            0.464_670_93,
            -0.187_536_76,
            -0.013_004_196,
            0.117_743_85,
            -0.123_588_97,
            0.048_494_86,
            0.053_288_147,
            -0.076_086_67,
        ])),
    );
    let far_slope = polynomial(
        t,
        comptime!(c(&[0.533_319_8, -0.141_169_13, -0.157_319_68, 0.228_749_16, -0.017_868_146, -0.351_014_17])),
    );
    let slope = select(near, near_slope, select(middle, middle_slope, far_slope));
    let centre = select(middle, 0.210_806_37f32.runtime(), 0.110_704_64f32.runtime());
    let centre = select(near, 0.427_583_58f32.runtime(), centre);
    let rise = double::product(slope, t, zero);
    let rest = double::sum(centre, rise.high, zero);
    let lost = select(near, 0.0f32.runtime(), inverse.low * slope);
    let rest = Double { high: rest.high, low: kept(kept(rest.low + rise.low, zero) + lost, zero) };
    let square = double::product(held, held, zero);
    let falling = Double { high: -square.high, low: -square.low };
    // The power may be too small for a number where the product is not yet.
    let tail = exp_of(&falling, &rest, 64, zero) * 5.421_011e-20_f32;
    let y = select(x < 0.5f32, 1.0f32 - erf(x), tail);
    select(is_nan(x), x, y)
}

/// -ln(1 - y^2) for |y| < 1.
#[cube]
fn depth(y: f32, zero: u32) -> Double {
    let square = double::product(y, y, zero);
    let rest = double::sum(1.0f32.runtime(), -square.high, zero);
    let low = kept(rest.low - square.low, zero);
    let ln = double::ln(rest.high, zero);
    double::sum(-ln.high, -kept(ln.low + low / rest.high, zero), zero)
}

/// The root of a sum of two numbers that is not zero.
#[cube]
fn root(x: &Double, zero: u32) -> Double {
    let high = x.high.sqrt();
    let back = double::product(high, high, zero);
    let rest = kept(kept(kept(x.high - back.high, zero) - back.low, zero) + x.low, zero);
    Double { high, low: rest / (high + high) }
}

/// `start` and a product.
#[cube]
fn step(start: f32, x: &Double, y: &Double, zero: u32) -> Double {
    let more = double::times(x, y, zero);
    let whole = double::sum(start, more.high, zero);
    double::sum(whole.high, kept(whole.low + more.low, zero), zero)
}

/// The x with erf(x) = y by the polynomials that Nx defines it by. What rounding takes from their last steps is kept.
///
/// M. Giles, "Approximating the erfinv function", GPU Computing Gems Jade Edition (2011).
#[cube]
pub(crate) fn erf_inv(y: f32, zero: u32) -> f32 {
    let inside = y.abs() < 1.0f32;
    let w = depth(select(inside, y, 0.0f32.runtime()), zero);
    let near = w.high < 5.0f32;
    let deep = Double { high: max(w.high, 5.0f32.runtime()), low: w.low };
    let deep = root(&deep, zero);
    let centre_of = select(near, (-2.5f32).runtime(), (-3.0f32).runtime());
    let t = double::sum(select(near, w.high, deep.high), centre_of, zero);
    let t = double::sum(t.high, kept(t.low + select(near, w.low, deep.low), zero), zero);
    let centre = polynomial(
        t.high,
        comptime!(c(&[
            -0.004_177_681_6,
            -0.001_253_725,
            0.000_218_580_87,
            -4.391_506_5e-6,
            -3.523_387_7e-6,
            3.432_739_4e-7,
            2.810_226_4e-8,
        ])),
    );
    let tail = polynomial(
        t.high,
        comptime!(c(&[
            0.009_438_870_5,
            -0.007_622_461_3,
            0.005_739_508,
            -0.003_673_428_4,
            0.001_349_343_2,
            0.000_100_950_56,
            -0.000_200_214_26,
        ])),
    );
    let curve = Double { high: select(near, centre, tail), low: 0.0f32.runtime() };
    let slope = step(select(near, 0.246_640_73f32.runtime(), 1.001_674f32.runtime()), &t, &curve, zero);
    let size = step(select(near, 1.501_409_4f32.runtime(), 2.832_976_8f32.runtime()), &t, &slope, zero);
    let x = double::product(y, size.high, zero);
    let x = x.high + fma(y, size.low, x.low);
    let x = select(y == 0.0f32, y, x);
    let x = select(y.abs() == 1.0f32, number((bits(y) & SIGN) | INFINITY), x);
    let x = select(y.abs() > 1.0f32, number(NAN.runtime()), x);
    select(is_nan(y), y, x)
}
