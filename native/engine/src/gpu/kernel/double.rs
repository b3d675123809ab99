//! Numbers as sums of two `f32`, for functions whose arguments need more digits than their results have.
//!
//! All sums are [`kept`]: a compiler that reorders them loses what they are for. Products are made of halves of 12 bits, whose
//! products are exact on any GPU, which a fused multiplication is not.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::function::{bits, c, exponent, kept, number, polynomial};

/// What both parts add up to; the second is below the last place of the first.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Double {
    pub(crate) high: f32,
    pub(crate) low: f32,
}

/// `a + b` and what its rounding lost.
#[cube]
pub(crate) fn sum(a: f32, b: f32, zero: u32) -> Double {
    let high = kept(a + b, zero);
    let grown = kept(high - a, zero);
    let rest = kept(a - kept(high - grown, zero), zero);
    Double { high, low: kept(rest + kept(b - grown, zero), zero) }
}

/// `a * b` and what its rounding lost.
#[cube]
pub(crate) fn product(a: f32, b: f32, zero: u32) -> Double {
    let a_high = number(bits(a) & 0xffff_f000u32);
    let b_high = number(bits(b) & 0xffff_f000u32);
    let a_low = kept(a - a_high, zero);
    let b_low = kept(b - b_high, zero);
    let high = kept(a * b, zero);
    let first = kept(kept(a_high * b_high, zero) - high, zero);
    let second = kept(first + kept(a_high * b_low, zero), zero);
    let third = kept(second + kept(a_low * b_high, zero), zero);
    Double { high, low: kept(third + kept(a_low * b_low, zero), zero) }
}

#[cube]
pub(crate) fn plus(a: &Double, b: &Double, zero: u32) -> Double {
    let total = sum(a.high, b.high, zero);
    sum(total.high, kept(total.low + kept(a.low + b.low, zero), zero), zero)
}

#[cube]
pub(crate) fn times(a: &Double, b: &Double, zero: u32) -> Double {
    let whole = product(a.high, b.high, zero);
    let cross = kept(a.high * b.low, zero) + kept(a.low * b.high, zero);
    sum(whole.high, kept(whole.low + cross, zero), zero)
}

/// A quotient, and what is left of it by the remainder.
#[cube]
pub(crate) fn quotient(a: f32, b: &Double, zero: u32) -> Double {
    let first = kept(a / b.high, zero);
    let back = product(first, b.high, zero);
    let rest = kept(kept(a - back.high, zero) - back.low, zero);
    let rest = kept(rest - kept(first * b.low, zero), zero);
    sum(first, rest / b.high, zero)
}

/// The natural logarithm of a positive finite number.
#[cube]
pub(crate) fn ln(x: f32, zero: u32) -> Double {
    let tiny = x < 1.175_494_4e-38f32;
    let scaled = select(tiny, x * 8_388_608.0f32, x);
    let place = exponent(scaled);
    // From 3/4 to 3/2.
    let mantissa = number(bits(scaled) - place);
    let whole = f32::cast_from(i32::reinterpret(place) >> 23i32);
    let whole = select(tiny, whole - 23.0f32, whole);
    // ln(m) = 2 (s + s^3 / 3 + s^5 / 5 + ...) for s = (m - 1) / (m + 1).
    let above = sum(mantissa, 1.0f32.runtime(), zero);
    let s = quotient(mantissa - 1.0f32, &above, zero);
    let square = times(&s, &s, zero);
    let third = Double { high: 0.333_333_34f32.runtime(), low: (-9.934_108e-9f32).runtime() };
    let tail = polynomial(
        square.high,
        comptime!(c(&[0.2, 0.142_857_15, 0.111_111_11, 0.090_909_09, 0.076_923_08, 0.066_666_67])),
    );
    let more = kept(square.high * square.high, zero) * tail;
    let rest = times(&square, &third, zero);
    let rest = sum(rest.high, kept(rest.low + more, zero), zero);
    let curve = times(&s, &rest, zero);
    let half = plus(&s, &curve, zero);
    let mantissa = Double { high: half.high * 2.0f32, low: half.low * 2.0f32 };
    // ln 2 in parts: the first has 9 bits, so its product is exact.
    let low = product(whole, (-2.121_944_4e-4f32).runtime(), zero);
    let powers = sum(kept(whole * 0.693_359_4f32, zero), low.high, zero);
    let powers =
        Double { high: powers.high, low: kept(powers.low + fma(whole, 1.646_571_8e-12f32.runtime(), low.low), zero) };
    plus(&powers, &mantissa, zero)
}
