//! Angles, in `f32` alone.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::double::{self, Double};
use super::function::{INFINITY, NAN, SIGN, bits, c, is_nan, kept, nearest, number, polynomial, signed};

/// pi in two parts, of which the second is negative.
const PI: f32 = std::f32::consts::PI;
const PI_LOW: f32 = -8.742_278e-8;
const HALF: f32 = std::f32::consts::FRAC_PI_2;
const HALF_LOW: f32 = -4.371_139e-8;
const QUARTER: f32 = std::f32::consts::FRAC_PI_4;
/// pi / 2 in five parts, of which the first three have 8 bits: their products with a number of 16 bits are exact.
const TURN: [f32; 5] = [1.570_312_5, 0.000_482_559_2, 1.266_598_7e-6, 9.920_936e-10, -4.9789963e-17];

#[cube]
fn scaled(x: f32, #[comptime] by: f32, zero: u32) -> f32 {
    kept(x * by.runtime(), zero)
}

/// How many quarters of a turn are nearest to an angle, and what is left of it, in two parts: near a multiple of pi that is all
/// there is of a sine, and a tangent is steep.
#[cube]
fn after_quarters(x: f32, zero: u32) -> (u32, Double) {
    let (quarters, rest) = after_few_quarters(x, zero);
    let mut turn = quarters;
    let mut high = rest.high;
    let mut low = rest.low;
    let size = bits(x) & 0x7fff_ffffu32;
    if (size > FEW) & (size < INFINITY) {
        let (quarters, rest) = after_many_quarters(x, zero);
        turn = quarters;
        high = rest.high;
        low = rest.low;
    }
    (turn, Double { high, low })
}

/// The bits of 1.0e5, up to which there are fewer quarters than 16 bits hold.
const FEW: u32 = 0x47c3_5000;

/// 2 / pi in words of 32 bits from 2^-1 on, after a word of zeros.
const SHARE: [u32; 8] = [0, 0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab];

/// A word of [`SHARE`].
#[cube]
fn share(place: u32) -> u32 {
    let first = select(place == 1u32, SHARE[1].runtime(), SHARE[0].runtime());
    let second = select(place == 2u32, SHARE[2].runtime(), first);
    let third = select(place == 3u32, SHARE[3].runtime(), second);
    let fourth = select(place == 4u32, SHARE[4].runtime(), third);
    let fifth = select(place == 5u32, SHARE[5].runtime(), fourth);
    let sixth = select(place == 6u32, SHARE[6].runtime(), fifth);
    select(place == 7u32, SHARE[7].runtime(), sixth)
}

/// The 32 bits of two words from bit `shift` of the first on.
#[cube]
fn across(first: u32, second: u32, shift: u32) -> u32 {
    (first << shift) | ((second >> 1u32) >> (31u32 - shift))
}

/// The upper 32 bits of the product of a number of 24 bits and one of 32.
#[cube]
fn upper(x: u32, y: u32) -> u32 {
    let (x_low, x_high) = (x & 0xffffu32, x >> 16u32);
    let (y_low, y_high) = (y & 0xffffu32, y >> 16u32);
    let (right, left) = (x_low * y_high, x_high * y_low);
    let middle = ((x_low * y_low) >> 16u32) + (right & 0xffffu32) + (left & 0xffffu32);
    x_high * y_high + (right >> 16u32) + (left >> 16u32) + (middle >> 16u32)
}

/// [`after_quarters`] of an angle from 1.0e5 on: its whole number of 24 bits times those bits of 2 / pi that are worth less than
/// four quarters then.
///
/// M. Payne and R. Hanek, "Radian reduction for trigonometric functions", ACM SIGNUM Newsletter 18 (1983).
#[cube]
fn after_many_quarters(x: f32, zero: u32) -> (u32, Double) {
    let size = bits(x) & 0x7fff_ffffu32;
    let whole = (size & 0x007f_ffffu32) | 0x0080_0000u32;
    let place = (size >> 23u32) - 120u32;
    let (word, shift) = (place >> 5u32, place & 31u32);
    let (a, b) = (share(word), share(word + 1u32));
    let (c, d) = (share(word + 2u32), share(word + 3u32));
    let (first, second, third) = (across(a, b, shift), across(b, c, shift), across(c, d, shift));
    // Three words of the product, in which quarters count from bit 94 on: what is above is whole turns.
    let part = whole * second;
    let lower = part + upper(whole, third);
    let carry = select(lower < part, 1u32.runtime(), 0u32.runtime());
    let middle = whole * first + upper(whole, second) + carry;
    let quarters = middle >> 30u32;
    let (high, low) = (across(middle, lower, 2u32), across(lower, whole * third, 2u32));
    // More than half of a quarter is less than none of the next.
    let is_less = high >= 0x8000_0000u32;
    let negative_low = !low + 1u32;
    let negative_high = !high + select(low == 0u32, 1u32.runtime(), 0u32.runtime());
    let (high, low) = (select(is_less, negative_high, high), select(is_less, negative_low, low));
    let quarters = quarters + select(is_less, 1u32.runtime(), 0u32.runtime());
    let sum = double::sum(piece(high >> 16u32, 0x3780_0000u32), piece(high & 0xffffu32, 0x2f80_0000u32), zero);
    let rest = piece(low >> 16u32, 0x2780_0000u32) + piece(low & 0xffffu32, 0x1f80_0000u32);
    let part = double::sum(sum.high, kept(sum.low + rest, zero), zero);
    let angle = double::product(part.high, HALF.runtime(), zero);
    let rest = kept(angle.low + kept(part.high * HALF_LOW.runtime(), zero), zero);
    let rest = kept(rest + kept(part.low * HALF.runtime(), zero), zero);
    let angle = double::sum(angle.high, rest, zero);
    let is_negative = is_less != ((bits(x) & SIGN) != 0u32);
    let sign = select(is_negative, SIGN.runtime(), 0u32.runtime());
    let quarters = select((bits(x) & SIGN) != 0u32, !quarters + 1u32, quarters);
    (quarters, Double { high: number(bits(angle.high) ^ sign), low: number(bits(angle.low) ^ sign) })
}

/// A number of 16 bits times a power of 2.
#[cube]
fn piece(x: u32, #[comptime] power: u32) -> f32 {
    f32::cast_from(x) * number(power.runtime())
}

/// [`after_quarters`] of an angle of fewer of them than 16 bits hold.
#[cube]
fn after_few_quarters(x: f32, zero: u32) -> (u32, Double) {
    let multiple = nearest(x * std::f32::consts::FRAC_2_PI);
    let first = kept(x - scaled(multiple, TURN[0], zero), zero);
    let second = double::sum(first, -scaled(multiple, TURN[1], zero), zero);
    let third = double::sum(second.high, -scaled(multiple, TURN[2], zero), zero);
    let fourth = double::product(multiple, TURN[3].runtime(), zero);
    let rest = double::sum(third.high, -fourth.high, zero);
    let low = kept(kept(second.low + third.low, zero) - fourth.low, zero);
    let low = kept(kept(low + rest.low, zero) - scaled(multiple, TURN[4], zero), zero);
    (u32::reinterpret(i32::cast_from(multiple)), double::sum(rest.high, low, zero))
}

/// The sine of `x` and so many quarters of a turn.
#[cube]
fn turned(x: f32, zero: u32, #[comptime] more: u32) -> f32 {
    let (quarters, r) = after_quarters(x, zero);
    let square = r.high * r.high;
    let sin_curve =
        polynomial(square, comptime!(c(&[-0.166_666_67, 0.008_333_379, -0.000_198_530_64, 2.832_510_7e-6])));
    let sin = r.high + fma(r.high * square, sin_curve, r.low);
    let cos_curve = polynomial(square, comptime!(c(&[-0.5, 0.041_666_646, -0.001_388_730_8, 2.443_210_2e-5])));
    let cos = 1.0f32 + fma(square, cos_curve, -(r.high * r.low));
    let turn = quarters + more;
    let y = select((turn & 1u32) == 0u32, sin, cos);
    number(bits(y) ^ ((turn & 2u32) << 30u32))
}

#[cube]
pub(crate) fn sin(x: f32, zero: u32) -> f32 {
    select(x == 0.0f32, x, turned(x, zero, 0u32))
}

#[cube]
pub(crate) fn cos(x: f32, zero: u32) -> f32 {
    turned(x, zero, 1u32)
}

#[cube]
pub(crate) fn tan(x: f32, zero: u32) -> f32 {
    let (turn, r) = after_quarters(x, zero);
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
    // 2 to the power of -96, 96 or 0.
    let scale =
        select(large, 0x0f80_0000u32.runtime(), select(tiny, 0x6f80_0000u32.runtime(), 0x3f80_0000u32.runtime()));
    let scale = number(scale);
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
    let result = signed(size, y, zero);
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
    let y = select(size > 1.0f32, number(NAN.runtime()), signed(y, x, zero));
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
