//! Quotients and square roots rounded to the nearest number.
//!
//! Graphics APIs promise a quotient within 2.5 units of the last place. Whole numbers tell the right one: the significands of
//! numbers have 24 bits, and what a candidate leaves is small, so its low 32 bits are all of it.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::function::{SIGN, bits, number};

/// The leading bit of a significand, which a number does not store.
const LEAD: u32 = 0x0080_0000;
/// 2^11, 2^23 and 2^24.
const ROOT_SCALE: f32 = 2048.0;
const BELOW: f32 = 8_388_608.0;
const ABOVE: f32 = 16_777_216.0;

#[cube]
fn exponent(x: u32) -> u32 {
    (x >> 23u32) & 0xffu32
}

#[cube]
fn significand(x: u32) -> u32 {
    (x & 0x007f_ffffu32) | LEAD
}

#[cube]
fn is_normal(exponent: u32) -> bool {
    (exponent != 0u32) & (exponent != 255u32)
}

#[cube]
fn one_if(condition: bool) -> u32 {
    select(condition, 1u32.runtime(), 0u32.runtime())
}

/// How often `part` goes into `rest`, give or take one; both are integers, the former with a sign.
#[cube]
fn times(rest: u32, part: u32) -> u32 {
    let ratio = f32::cast_from(i32::reinterpret(rest)) / f32::cast_from(part);
    u32::reinterpret(i32::cast_from(ratio.floor()))
}

/// `x` by `y`; `near` where one of them or their quotient is no normal number.
#[cube]
pub(super) fn quotient(x: u32, y: u32, near: f32) -> u32 {
    let upper = significand(x);
    let lower = significand(y);
    let less = upper < lower;
    let scale = select(less, ABOVE.runtime(), BELOW.runtime());
    // The quotient of `upper` shifted by this has 24 bits.
    let shift = 23u32 + one_if(less);
    let first = u32::cast_from(f32::cast_from(upper) / f32::cast_from(lower) * scale);
    let left = (upper << shift) - first * lower;
    let more = times(left, lower);
    let rest = left - more * lower;
    let below = i32::reinterpret(rest) < 0i32;
    let whole = first + more - one_if(below);
    let rest = rest + select(below, lower, 0u32.runtime());
    let above = rest >= lower;
    let whole = whole + one_if(above);
    let rest = rest - select(above, lower, 0u32.runtime());
    // No quotient is half way between two numbers.
    let rounded = whole + one_if(rest + rest > lower);
    let power = exponent(x) + 127u32 - exponent(y) - one_if(less);
    let fits = (i32::reinterpret(power) > 0i32) & (i32::reinterpret(power) < 255i32);
    let exact = ((x ^ y) & SIGN) | ((power << 23u32) + rounded - LEAD);
    select(fits & is_normal(exponent(x)) & is_normal(exponent(y)), exact, bits(near))
}

/// The square root of `x`, whose own is `near` where it is no positive normal number.
#[cube]
pub(super) fn root(x: u32, near: f32) -> u32 {
    let even = exponent(x) & 1u32;
    let size = significand(x);
    // The root of `size` times 2^23, or 2^24, has 24 bits.
    let doubled = select(even == 1u32, size << 1u32, size << 2u32);
    let first = u32::cast_from(f32::cast_from(doubled).sqrt() * ROOT_SCALE);
    let left = (size << (24u32 - even)) - first * first;
    let more = times(left, first << 1u32);
    let whole = first + more;
    let rest = left - more * (first + whole);
    let below = i32::reinterpret(rest) < 0i32;
    let whole = whole - one_if(below);
    let rest = rest + select(below, (whole << 1u32) + 1u32, 0u32.runtime());
    let above = rest > whole << 1u32;
    let rest = rest - select(above, (whole << 1u32) + 1u32, 0u32.runtime());
    let whole = whole + one_if(above);
    let rounded = whole + one_if(rest > whole);
    let power = (exponent(x) + 126u32 + even) >> 1u32;
    let exact = (power << 23u32) + rounded - LEAD;
    select(is_normal(exponent(x)) & ((x & SIGN) == 0u32), exact, bits(near))
}

/// One by the square root of `x`, both rounded.
#[cube]
pub(super) fn inverse_root(x: u32) -> u32 {
    let below = root(x, number(x).sqrt());
    quotient(bits(1.0f32.runtime()), below, 1.0f32 / number(below))
}
