//! Angles and functions of the normal distribution, in `f32` alone.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::double::{self, Double};
use super::function::{
    INFINITY, NAN, QUARTER as TURN, SIGN, bits, c, erf, is_nan, kept, log, number, polynomial, quarters, signed,
};
use super::power::exp_of;

/// pi in two parts, of which the second is negative.
const PI: f32 = std::f32::consts::PI;
const PI_LOW: f32 = -8.742_278e-8;
const HALF: f32 = std::f32::consts::FRAC_PI_2;
const HALF_LOW: f32 = -4.371_139e-8;
const QUARTER: f32 = std::f32::consts::FRAC_PI_4;

#[cube]
fn scaled(x: f32, #[comptime] by: f32, zero: u32) -> f32 {
    kept(x * by.runtime(), zero)
}

/// What is left of an angle after so many quarters of a turn, in two parts: a tangent is steep.
#[cube]
fn after_quarters(x: f32, multiple: f32, zero: u32) -> Double {
    let first = kept(x - scaled(multiple, TURN[0], zero), zero);
    let second = double::sum(first, -scaled(multiple, TURN[1], zero), zero);
    let third = double::sum(second.high, -scaled(multiple, TURN[2], zero), zero);
    let low = kept(kept(second.low + third.low, zero) - scaled(multiple, TURN[3], zero), zero);
    double::sum(third.high, low, zero)
}

#[cube]
pub(crate) fn tan(x: f32, zero: u32) -> f32 {
    let multiple = quarters(x);
    let turn = u32::reinterpret(i32::cast_from(multiple));
    let r = after_quarters(x, multiple, zero);
    let square = r.high * r.high;
    let curve = polynomial(
        square,
        comptime!(c(&[
            0.333_333_3,
            0.133_334_19,
            0.053_953_476,
            0.021_992_447,
            0.008_303_375,
            0.005_048_175_3,
            -0.000_652_685_2,
            0.002_064_759_1,
        ])),
    );
    let rise = kept(r.high * square * curve, zero);
    let rough = r.high + rise;
    let slope = double::sum(r.high, kept(rise + fma(r.low * rough, rough, r.low), zero), zero);
    let across = double::quotient((-1.0f32).runtime(), &slope, zero);
    let y = select((turn & 1u32) == 0u32, slope.high, across.high);
    let y = select(x == 0.0f32, x, y);
    select((bits(x) & 0x7fff_ffffu32) < INFINITY, y, number(NAN.runtime()))
}

/// The angle of a slope from 0 to 1 that is a sum of two numbers.
#[cube]
fn angle(slope: &Double, zero: u32) -> Double {
    // From tan(pi / 8) on, what is more or less than a quarter of pi.
    let far = slope.high > 0.414_213_57f32;
    let sum = double::sum(slope.high, 1.0f32.runtime(), zero);
    let sum = Double { high: sum.high, low: kept(sum.low + slope.low, zero) };
    let above = double::quotient(kept(slope.high - 1.0f32, zero), &sum, zero);
    let low = kept(above.low + slope.low / sum.high, zero);
    let t = select(far, above.high, slope.high);
    let low = select(far, low, slope.low);
    let square = t * t;
    let curve =
        polynomial(square, comptime!(c(&[-0.333_333_16, 0.199_984_62, -0.142_433_17, 0.105_918_355, -0.060_723_666])));
    let bend = t * square * curve;
    let rest = kept(low / (1.0f32 + square), zero);
    let start = select(far, QUARTER.runtime(), 0.0f32.runtime());
    let start_low = select(far, comptime!(0.5 * HALF_LOW).runtime(), 0.0f32.runtime());
    let first = double::sum(start, t, zero);
    let last = kept(kept(first.low + start_low, zero) + kept(bend + rest, zero), zero);
    double::sum(first.high, last, zero)
}

#[cube]
pub(crate) fn atan(x: f32, zero: u32) -> f32 {
    atan2(x, 1.0f32.runtime(), zero)
}

/// The angle of the point that is `x` to the right and `y` above.
#[cube]
pub(crate) fn atan2(y: f32, x: f32, zero: u32) -> f32 {
    let (height, width) = (bits(y) & 0x7fff_ffffu32, bits(x) & 0x7fff_ffffu32);
    let steep = height > width;
    let long = number(select(steep, height, width));
    let short = number(select(steep, width, height));
    // Sizes at which neither products nor rests leave the range of numbers.
    let large = long > 1.0e30f32;
    let tiny = long < 1.0e-20f32;
    let scale =
        select(large, 1.262_177_4e-29f32.runtime(), select(tiny, 7.922_816_3e28f32.runtime(), 1.0f32.runtime()));
    let both_infinite = (height == INFINITY) & (width == INFINITY);
    let endless = bits(long) == INFINITY;
    let nothing = bits(long) == 0u32;
    let plain = !(endless | nothing);
    let top = select(plain, short * scale, select(both_infinite, 1.0f32.runtime(), 0.0f32.runtime()));
    let bottom = select(plain, long * scale, 1.0f32.runtime());
    let below = Double { high: bottom, low: 0.0f32.runtime() };
    let slope = double::quotient(top, &below, zero);
    let found = angle(&slope, zero);
    let across = turned_from(HALF, HALF_LOW, &found, zero);
    let found = Double { high: select(steep, across.high, found.high), low: select(steep, across.low, found.low) };
    let behind = turned_from(PI, PI_LOW, &found, zero);
    let left = (bits(x) & SIGN) != 0u32;
    let size = select(left, behind.high, found.high);
    // A slope too small for halves of its digits is its own angle.
    let minute = (slope.high < 1.0e-12f32) & plain & !steep & !left;
    let size = select(minute, short / long, size);
    let result = signed(size, y);
    select(is_nan(x) | is_nan(y), number(NAN.runtime()), result)
}

/// A multiple of pi less an angle.
#[cube]
fn turned_from(#[comptime] high: f32, #[comptime] low: f32, angle: &Double, zero: u32) -> Double {
    let whole = double::sum(high.runtime(), -angle.high, zero);
    double::sum(whole.high, kept(whole.low + kept(low.runtime() - angle.low, zero), zero), zero)
}

/// The angle of a sine from 0 to 1/2, less the sine.
#[cube]
fn bend(x: f32) -> f32 {
    let square = x * x;
    let curve = polynomial(
        square,
        comptime!(c(&[0.166_666_6, 0.075_005_11, 0.044_515_73, 0.031_817_544, 0.014_402_846, 0.037_564_885])),
    );
    x * square * curve
}

/// Half of the angle whose cosine is `x` from 1/2 to 1.
#[cube]
fn half_angle(x: f32, zero: u32) -> Double {
    let square = 0.5f32 - 0.5f32 * x;
    let root = square.sqrt();
    // What the root lost, by Newton's rule.
    let back = double::product(root, root, zero);
    let rest = kept(kept(square - back.high, zero) - back.low, zero);
    let low = select(root > 0.0f32, rest / (root + root), 0.0f32.runtime());
    double::sum(root, kept(low + bend(root), zero), zero)
}

#[cube]
pub(crate) fn asin(x: f32, zero: u32) -> f32 {
    let size = x.abs();
    let held = min(max(size, 0.5f32.runtime()), 1.0f32.runtime());
    let half = half_angle(held, zero);
    let twice = Double { high: half.high * 2.0f32, low: half.low * 2.0f32 };
    let angle = turned_from(HALF, HALF_LOW, &twice, zero);
    let y = select(size <= 0.5f32, size + bend(size), angle.high);
    let y = select(size > 1.0f32, number(NAN.runtime()), signed(y, x));
    select(is_nan(x), x, y)
}

#[cube]
pub(crate) fn acos(x: f32, zero: u32) -> f32 {
    let size = x.abs();
    let held = min(max(size, 0.5f32.runtime()), 1.0f32.runtime());
    let half = half_angle(held, zero);
    let angle = Double { high: half.high * 2.0f32, low: half.low * 2.0f32 };
    let behind = turned_from(PI, PI_LOW, &angle, zero);
    let small = double::sum(x, bend(size) * select(x < 0.0f32, -1.0f32, 1.0f32.runtime()), zero);
    let middle = turned_from(HALF, HALF_LOW, &small, zero);
    let y = select(x < 0.0f32, behind.high, angle.high);
    let y = select(size <= 0.5f32, middle.high, y);
    let y = select(size > 1.0f32, number(NAN.runtime()), y);
    select(is_nan(x), x, y)
}

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

/// The x with erf(x) = y by the polynomials that Nx defines it by.
///
/// M. Giles, "Approximating the erfinv function", GPU Computing Gems Jade Edition (2011).
#[cube]
pub(crate) fn erf_inv(y: f32, zero: u32) -> f32 {
    let w = -log(kept((1.0f32 - y) * (1.0f32 + y), zero), zero);
    let centre = polynomial(
        w - 2.5f32,
        comptime!(c(&[
            1.501_409_4,
            0.246_640_73,
            -0.004_177_681_6,
            -0.001_253_725,
            0.000_218_580_87,
            -4.391_506_5e-6,
            -3.523_387_7e-6,
            3.432_739_4e-7,
            2.810_226_4e-8,
        ])),
    );
    let root = max(w, 0.0f32.runtime()).sqrt();
    let tail = polynomial(
        root - 3.0f32,
        comptime!(c(&[
            2.832_976_8,
            1.001_674,
            0.009_438_870_5,
            -0.007_622_461_3,
            0.005_739_508,
            -0.003_673_428_4,
            0.001_349_343_2,
            0.000_100_950_56,
            -0.000_200_214_26,
        ])),
    );
    let x = y * select(w < 5.0f32, centre, tail);
    let x = select(y.abs() == 1.0f32, number((bits(y) & SIGN) | INFINITY), x);
    let x = select(y.abs() > 1.0f32, number(NAN.runtime()), x);
    select(is_nan(y), y, x)
}
