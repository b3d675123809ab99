//! Powers and what is made of them, in `f32` alone.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::double::{self, Double};
use super::function::{INFINITY, LOG2_E, NAN, SIGN, bits, c, is_nan, kept, nearest, number, polynomial, power, signed};

/// e to the power of a sum of two numbers, the second small, times a number that is a sum of two, times 2 to the power of `more`.
#[cube]
pub(super) fn exp_of(x: &Double, by: &Double, #[comptime] more: i32, zero: u32) -> f32 {
    let held = min(max(x.high, (-120.0f32).runtime()), 120.0f32.runtime());
    let k = nearest(held * LOG2_E);
    let whole = i32::cast_from(k) + more.runtime();
    let half = whole >> 1i32;
    let first = kept(held - kept(k * 0.693_359_4f32, zero), zero);
    let r = double::sum(first, fma(k, 2.121_944_4e-4f32, x.low), zero);
    let curve =
        polynomial(r.high, comptime!(c(&[0.499_999_94, 0.166_665_2, 0.041_668_26, 0.008_368_872, 0.001_382_223_8])));
    let start = double::sum(1.0f32.runtime(), r.high, zero);
    let tail = start.low + fma(r.low, start.high, r.high * r.high * curve);
    let product = double::product(by.high, start.high, zero);
    let rest = fma(by.high, tail, fma(by.low, start.high, product.low));
    (product.high + rest) * power(half) * power(whole - half)
}

/// e to the power of a sum of two numbers, times 2 to the power of `more`.
#[cube]
fn exp(x: &Double, #[comptime] more: i32, zero: u32) -> f32 {
    exp_of(x, &Double { high: 1.0f32.runtime(), low: 0.0f32.runtime() }, more, zero)
}

#[cube]
pub(crate) fn sigmoid(x: f32, zero: u32) -> f32 {
    // The power that cannot overflow.
    let e = exp(&Double { high: -x.abs(), low: 0.0f32.runtime() }, 0, zero);
    let below = double::sum(1.0f32.runtime(), e, zero);
    let y = double::quotient(select(x < 0.0f32, e, 1.0f32.runtime()), &below, zero);
    select(is_nan(x), x, y.high)
}

/// Half of e to the power of a number that is not negative.
#[cube]
fn half_exp(x: f32, zero: u32) -> f32 {
    exp(&Double { high: x, low: 0.0f32.runtime() }, -1, zero)
}

#[cube]
pub(crate) fn cosh(x: f32, zero: u32) -> f32 {
    let half = half_exp(x.abs(), zero);
    select(is_nan(x), x, half + 0.25f32 / half)
}

#[cube]
pub(crate) fn sinh(x: f32, zero: u32) -> f32 {
    let square = x * x;
    let curve = polynomial(square, comptime!(c(&[0.166_666_67, 0.008_333_35, 0.000_198_360_66, 2.817_439e-6])));
    let small = fma(x * square, curve, x);
    let half = half_exp(x.abs(), zero);
    let y = select(x.abs() < 1.0f32, small, signed(half - 0.25f32 / half, x, zero));
    select(is_nan(x), x, y)
}

/// The size of a power of a positive finite number.
#[cube]
fn size_of_power(size: f32, exponent: f32, zero: u32) -> f32 {
    let ln = double::ln(size, zero);
    let rough = exponent * ln.high;
    // Beyond this all is infinite or nothing, and an exact product might overflow.
    let held = select(rough.abs() < 200.0f32, exponent, 0.0f32.runtime());
    let whole = double::product(held, ln.high, zero);
    let x = double::sum(whole.high, fma(held, ln.low, whole.low), zero);
    let y = exp(&x, 0, zero);
    let y = select(rough >= 200.0f32, number(INFINITY.runtime()), y);
    select(rough <= -200.0f32, 0.0f32.runtime(), y)
}

/// `x` to the power of `y`, with the exceptions of IEEE 754.
#[cube]
pub(crate) fn pow(x: f32, y: f32, zero: u32) -> f32 {
    let size_bits = bits(x) & 0x7fff_ffffu32;
    let exponent_bits = bits(y) & 0x7fff_ffffu32;
    let whole = y.floor() == y;
    // Numbers from 2^24 on are even.
    let odd = whole & ((y * 0.5f32).floor() != y * 0.5f32) & (y.abs() < 16_777_216.0f32);
    let negative = (bits(x) & SIGN) != 0u32;
    let grows = (bits(y) & SIGN) == 0u32;
    let is_one = size_bits == 0x3f80_0000u32;
    let is_zero = size_bits == 0u32;
    let is_infinite = size_bits == INFINITY;
    let plain = select(is_zero | is_infinite | is_nan(x) | is_one, 2.0f32.runtime(), x.abs());
    let exponent = select(exponent_bits >= INFINITY, 0.0f32.runtime(), y);
    let size = size_of_power(plain, exponent, zero);
    let infinity = number(INFINITY.runtime());
    let nothing = 0.0f32.runtime();
    // An infinite exponent.
    let above = size_bits > 0x3f80_0000u32;
    let size = select(exponent_bits == INFINITY, select(above == grows, infinity, nothing), size);
    let size = select(is_zero, select(grows, nothing, infinity), size);
    let size = select(is_infinite, select(grows, infinity, nothing), size);
    let size = select(is_one, 1.0f32.runtime(), size);
    let turned = select(negative & odd, number(bits(size) | SIGN), size);
    let real = whole | !negative | is_zero | is_infinite;
    let result = select(real, turned, number(NAN.runtime()));
    let result = select(is_nan(x) | is_nan(y), number(NAN.runtime()), result);
    select((exponent_bits == 0u32) | (bits(x) == 0x3f80_0000u32), 1.0f32.runtime(), result)
}

/// Halley's rule for the cube root of `part`, from a root that is nearly right.
#[cube]
fn halley(root: f32, part: f32) -> f32 {
    let cube = root * root * root;
    root - root * (cube - part) / (cube + cube + part)
}

/// The cube root: of the number by a power of 8, from 1 to 8, times the power of 2.
#[cube]
pub(crate) fn cbrt(x: f32, zero: u32) -> f32 {
    let size_bits = bits(x) & 0x7fff_ffffu32;
    let plain = (size_bits != 0u32) & (size_bits < INFINITY);
    let tiny = size_bits < 0x0080_0000u32;
    let scaled = bits(select(tiny, x.abs() * 16_777_216.0f32, x.abs()));
    // 127, which stands for an exponent of 0, is one more than a multiple of 3.
    let exponent = (scaled >> 23u32) + 2u32;
    let third = exponent / 3u32;
    let part = number((scaled & 0x007f_ffffu32) | ((127u32 + exponent - third * 3u32) << 23u32));
    // A third of the bits is a third of the exponent, and the rest nearly right: within 5 %, of which each step leaves
    // the third power.
    let near = number((bits(part) - 0x3f80_0000u32) / 3u32 + 0x3f7a_0000u32);
    let root = halley(kept(halley(near, part), zero), part);
    let whole = i32::reinterpret(third) - select(tiny, 51i32.runtime(), 43i32.runtime());
    // The sign comes last: where the number itself is chosen after it, LLVM 19 makes other bits of both for AVX-512.
    signed(select(plain, root * power(whole), number(size_bits)), x, zero)
}

/// The whole power of an integer, which wraps.
#[cube]
pub(crate) fn whole_power(x: u32, y: u32) -> u32 {
    let mut result = 1u32.runtime();
    let mut base = x;
    let mut rest = y;
    while rest > 0u32 {
        if (rest & 1u32) == 1u32 {
            result *= base;
        }
        base *= base;
        rest >>= 1u32;
    }
    result
}

/// What is left of `x` after whole multiples of `y`, with the sign of `x`. Exact, digit by digit.
#[cube]
pub(crate) fn remainder(x: f32, y: f32) -> f32 {
    let size = bits(x) & 0x7fff_ffffu32;
    let divisor = bits(y) & 0x7fff_ffffu32;
    let exponent = max(size >> 23u32, 1u32.runtime());
    let least = max(divisor >> 23u32, 1u32.runtime());
    let hidden = 0x0080_0000u32;
    let mut rest = (size & 0x007f_ffffu32) | select(size >= hidden, hidden.runtime(), 0u32.runtime());
    let by = (divisor & 0x007f_ffffu32) | select(divisor >= hidden, hidden.runtime(), 0u32.runtime());
    let defined = (size < INFINITY) & (divisor <= INFINITY) & (divisor != 0u32);
    let by = max(by, 1u32.runtime());
    let mut up = select(defined & (size >= divisor), exponent - least, 0u32.runtime());
    rest = select(size >= divisor, rest % by, rest);
    while up > 0u32 {
        let step = min(up, 8u32.runtime());
        rest = (rest << step) % by;
        up -= step;
    }
    // Back to a number: as many places to the left as there are zeros before it, and as the exponent allows.
    let zeros = rest.leading_zeros() - 8u32;
    let shift = min(zeros, least - 1u32);
    let moved = rest << shift;
    let place = select(moved >= hidden, least - shift, 0u32.runtime());
    let made = (place << 23u32) | (moved & 0x007f_ffffu32);
    let made = select(rest == 0u32, 0u32.runtime(), made);
    let made = select(size < divisor, size, made);
    let result = number(made | (bits(x) & SIGN));
    let result = select(defined, result, number(NAN.runtime()));
    select(is_nan(x), x, select(is_nan(y), y, result))
}
