//! The functions of steps as code of a kernel.
//!
//! Compilers of shaders calculate with steps as if nothing were rounded, infinite or NaN: `(x + y) - y` becomes `x`, and `x * 0`
//! becomes 0. So what arithmetic takes and what it answers is joined to a zero that is read from memory, as in `function`.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::function::{self, bits, is_nan, number};
use super::{angle, nearest, normal, power, small};
use crate::gpu::step::{One, Two};

#[cube]
fn truth(condition: bool) -> u32 {
    select(condition, 1u32.runtime(), 0u32.runtime())
}

#[cube]
pub(crate) fn one(x: u32, zero: u32, #[comptime] function: One) -> u32 {
    let f = number(x);
    match function {
        One::AbsF => x & 0x7fff_ffffu32,
        One::AbsS => magnitude(x),
        One::Acos => bits(angle::acos(f, zero)),
        One::Asin => bits(angle::asin(f, zero)),
        One::Atan => bits(angle::atan(f, zero)),
        One::Cbrt => bits(power::cbrt(f, zero)),
        One::Ceil => bits(f.ceil()),
        One::Cos => bits(angle::cos(f, zero)),
        One::Cosh => bits(power::cosh(f, zero)),
        One::CountOnes => x.count_ones(),
        One::Decode(small) => small::decode(x, small),
        One::Encode(small) => small::encode(x, small),
        One::Erf => bits(function::erf(f)),
        One::ErfInv => bits(normal::erf_inv(f, zero)),
        One::Erfc => bits(normal::erfc(f, zero)),
        One::Exp => bits(function::exp(f, zero)),
        One::Expm1 => bits(function::expm1(f, zero)),
        One::FloatToInt { low, high } => float_to_int(x, low, high),
        One::Floor => bits(f.floor()),
        One::IsInfinity => truth((x & 0x7fff_ffffu32) == 0x7f80_0000u32),
        One::IsNan => truth(is_nan(f)),
        One::LeadingZeros(width) => x.leading_zeros() - comptime!(32 - width),
        One::Log => bits(function::log(f, zero)),
        One::Log1p => bits(function::log1p(f, zero)),
        One::NearestRsqrt => nearest::inverse_root(x),
        One::NearestSqrt => nearest::root(x, f.sqrt()),
        One::NegateF => x ^ 0x8000_0000u32,
        One::NegateI => 0u32.runtime() - x,
        One::Not => !x,
        One::Round => bits(function::round(f, zero)),
        One::RoundBf16 => round_bf16(x),
        One::RoundSmall(small) => small::round(x, small),
        One::Rsqrt => bits(1.0f32 / f.sqrt()) | zero,
        One::Sigmoid => bits(power::sigmoid(f, zero)),
        One::SignExtend(width) => bits_of(signed(x << comptime!(32 - width)) >> comptime!(32 - width as i32)),
        One::SignF => sign(x),
        One::SignS => bits_of(signed(x) >> 31i32) | truth(signed(x) > 0i32),
        One::Sin => bits(angle::sin(f, zero)),
        One::Sinh => bits(power::sinh(f, zero)),
        One::SintToFloat => bits(f32::cast_from(signed(x))),
        One::SintToOdd => bits(f32::cast_from(to_odd(magnitude(x)))) | (x & 0x8000_0000u32),
        One::Sqrt => bits(f.sqrt()) | zero,
        One::Tan => bits(angle::tan(f, zero)),
        One::Tanh => bits(function::tanh(f, zero)),
        One::TruthF => truth((x & 0x7fff_ffffu32) != 0u32),
        One::TruthI => truth(x != 0u32),
        One::UintToFloat => bits(f32::cast_from(x)),
        One::UintToOdd => bits(f32::cast_from(to_odd(x))),
        One::ZeroExtend(width) => x & comptime!((1u32 << width) - 1),
    }
}

#[cube]
fn signed(x: u32) -> i32 {
    i32::reinterpret(x)
}

#[cube]
fn bits_of(x: i32) -> u32 {
    u32::reinterpret(x)
}

/// The size of a signed integer, by unsigned arithmetic: of the smallest one C++ says nothing.
#[cube]
fn magnitude(x: u32) -> u32 {
    let below_zero = 0u32.runtime() - (x >> 31u32);
    (x ^ below_zero) - below_zero
}

/// An integer that `f32` has: itself, or beyond 2^24 one with a last bit that tells of those it has not. Rounded to 16 bits or
/// less, both come to the same float.
#[cube]
fn to_odd(x: u32) -> u32 {
    let told = select((x & 0xffu32) == 0u32, 0u32.runtime(), 0x100u32.runtime());
    select(x < 0x0100_0000u32, x, (x & 0xffff_ff00u32) | told)
}

/// NaN and zeros stay.
#[cube]
fn sign(x: u32) -> u32 {
    let size = x & 0x7fff_ffffu32;
    let one = 0x3f80_0000u32 | (x & 0x8000_0000u32);
    select(size == 0u32, x, select(size > 0x7f80_0000u32, x, one))
}

#[cube]
fn float_to_int(x: u32, #[comptime] low: u32, #[comptime] high: u32) -> u32 {
    let negative = (x & 0x8000_0000u32) != 0u32;
    let exponent = (x >> 23u32) & 0xffu32;
    let mantissa = (x & 0x007f_ffffu32) | 0x0080_0000u32;
    // The number is the mantissa times 2^(exponent - 150).
    let down = min(150u32 - exponent, 31u32.runtime());
    let up = min(exponent - 150u32, 31u32.runtime());
    let shifted = select(exponent < 150u32, mantissa >> down, mantissa << up);
    let size = select(exponent >= 182u32, 0u32.runtime(), shifted);
    let finite = select(negative, 0u32.runtime() - size, size);
    let infinite = select(negative, low.runtime(), high.runtime());
    let nan = (x & 0x7fff_ffffu32) > 0x7f80_0000u32;
    let whole = select(exponent == 255u32, infinite, finite);
    select(nan, 0u32.runtime(), whole)
}

/// Halves go to the even one.
#[cube]
fn round_bf16(x: u32) -> u32 {
    let rounded = (x + 0x7fffu32 + ((x >> 16u32) & 1u32)) & 0xffff_0000u32;
    select(is_nan(number(x)), x, rounded)
}

#[cube]
pub(crate) fn two(x: u32, y: u32, zero: u32, #[comptime] function: Two) -> u32 {
    // Two ways to join a zero, lest they be seen to be equal.
    let a = number(x | zero);
    let b = number(y ^ zero);
    match function {
        Two::AddF => bits(a + b) | zero,
        Two::AddI => x + y,
        // What is made of bits has the same need: see `signed` there.
        Two::And => (x & y) | zero,
        Two::Atan2 => bits(angle::atan2(a, b, zero)),
        Two::DivideF => bits(divided_float(a, b)) | zero,
        Two::DivideS => divided(x, y),
        Two::DivideU => x / y,
        Two::EqualF => truth(equal(x, y)),
        Two::EqualI => truth(x == y),
        Two::LessF => truth(ordered(x, y) & below(x | zero, y ^ zero)),
        Two::LessS => truth(signed(x) < signed(y)),
        Two::LessU => truth(x < y),
        Two::LessEqualF => truth(ordered(x, y) & !below(y | zero, x ^ zero)),
        Two::LessEqualS => truth(signed(x) <= signed(y)),
        Two::LessEqualU => truth(x <= y),
        Two::MaxF => select((ordered(x, y) & below(x | zero, y ^ zero)) | is_nan(number(y)), y, x),
        Two::MaxS => larger(x, y | zero),
        Two::MaxU => select(x > y, x, y),
        Two::MinF => select((ordered(x, y) & below(y | zero, x ^ zero)) | is_nan(number(y)), y, x),
        Two::MinS => smaller(x, y | zero),
        Two::MinU => select(x < y, x, y),
        Two::MultiplyF => bits(a * b) | zero,
        Two::MultiplyI => x * y,
        Two::NearestDivideF => nearest::quotient(x, y, divided_float(a, b)),
        Two::Or => x | y,
        Two::ShiftLeft => select(y > 31u32, 0u32.runtime(), x << min(y, 31u32.runtime())),
        Two::ShiftRightS => bits_of(signed(x) >> signed(min(y, 31u32.runtime()))),
        Two::ShiftRightU => select(y > 31u32, 0u32.runtime(), x >> min(y, 31u32.runtime())),
        Two::Pow => bits(power::pow(a, b, zero)),
        Two::PowI => power::whole_power(x, y),
        Two::RemainderF => bits(power::remainder(a, b)),
        Two::RemainderS => rest(x, y),
        Two::RemainderU => x % y,
        Two::SubtractF => bits(a - b) | zero,
        Two::SubtractI => x - y,
        Two::Xor => x ^ y,
    }
}

/// Of signed integers. The caller's `y | zero`, with a zero from memory, is there for CUDA's compiler: it answered 3 for the
/// larger of 3 and the size of -4.
#[cube]
fn larger(x: u32, y: u32) -> u32 {
    select(signed(x) > signed(y), x, y)
}

#[cube]
fn smaller(x: u32, y: u32) -> u32 {
    select(signed(x) < signed(y), x, y)
}

/// By numbers above 2^126 graphics APIs promise nothing: their inverse is below the normal ones.
#[cube]
fn divided_float(a: f32, b: f32) -> f32 {
    let scale = select(b.abs() > 8.5e37f32, 0.0625f32.runtime(), 1.0f32.runtime());
    (a * scale) / (b * scale)
}

/// The whole quotient of signed integers, towards zero, by their sizes: of the smallest number the language says nothing.
#[cube]
fn divided(x: u32, y: u32) -> u32 {
    let size = magnitude(x) / magnitude(y);
    select(signed(x ^ y) < 0i32, 0u32.runtime() - size, size)
}

/// What it leaves, with the sign of `x`.
#[cube]
fn rest(x: u32, y: u32) -> u32 {
    let size = magnitude(x) % magnitude(y);
    select(signed(x) < 0i32, 0u32.runtime() - size, size)
}

#[cube]
fn ordered(x: u32, y: u32) -> bool {
    !(is_nan(number(x)) | is_nan(number(y)))
}

/// Whether a number is below another, neither of which is NaN, by their bits: graphics processors compare numbers nearer to 0
/// than 2^-126 as if they were 0, and of a choice of what is compared they make an extremum that passes over NaN.
#[cube]
fn below(x: u32, y: u32) -> bool {
    signed(place(x)) < signed(place(y))
}

/// The place of a number among all, as a signed integer; zeros of both signs have one.
#[cube]
fn place(x: u32) -> u32 {
    let size = x & 0x7fff_ffffu32;
    select(x > 0x7fff_ffffu32, 0u32.runtime() - size, size)
}

/// Zeros of both signs are equal, NaN is not.
#[cube]
fn equal(x: u32, y: u32) -> bool {
    ordered(x, y) & ((x == y) | (((x | y) & 0x7fff_ffffu32) == 0u32))
}
