//! Functions of one `f32` on a GPU, in `f32` alone.
//!
//! Shading languages promise little of their own: a sine may be off by 2^-11. These are the functions of `cpu::single`, with the
//! same polynomials. Compilers of shaders calculate with sums as if nothing were rounded: `(x - k a) - k b` becomes
//! `x - k (a + b)`, and the digits are gone that two constants were to keep. So such sums are [`kept`]: a zero that is read from
//! memory, of which no compiler knows, is joined to their bits.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

pub(super) const LOG2_E: f32 = std::f32::consts::LOG2_E;
const LN_2: f32 = std::f32::consts::LN_2;
/// What one more in the exponent adds to the bits of a number.
const STEP: f32 = 8_388_608.0;

/// The bits of infinity.
pub(super) const INFINITY: u32 = 0x7f80_0000;
pub(super) const NAN: u32 = 0x7fc0_0000;
pub(super) const SIGN: u32 = 0x8000_0000;

/// The bits of a number.
#[cube]
pub(crate) fn bits(x: f32) -> u32 {
    u32::reinterpret(x)
}

/// The number of bits.
#[cube]
pub(crate) fn number(bits: u32) -> f32 {
    f32::reinterpret(bits)
}

/// The number as it was rounded, where `zero` is zero.
#[cube]
pub(crate) fn kept(x: f32, zero: u32) -> f32 {
    number(bits(x) | zero)
}

/// Whether it is no number. Compilers of shaders may assume that there are none, so the bits decide.
#[cube]
pub(crate) fn is_nan(x: f32) -> bool {
    (bits(x) & 0x7fff_ffffu32) > INFINITY
}

/// `size` with the sign of `x`. LLVM makes other bits of a choice between it and `x`, unless a zero is joined to it.
#[cube]
pub(super) fn signed(size: f32, x: f32, zero: u32) -> f32 {
    number(((bits(size) & 0x7fff_ffffu32) | (bits(x) & SIGN)) | zero)
}

#[cube]
fn clamped(x: f32, #[comptime] low: f32, #[comptime] high: f32) -> f32 {
    let above = select(x < low, low.runtime(), x);
    select(above > high, high.runtime(), above)
}

/// The sum of coefficients times powers of `x`, by Horner's rule.
#[cube]
pub(super) fn polynomial(x: f32, #[comptime] coefficients: Vec<u32>) -> f32 {
    let last = comptime!(coefficients.len() - 1);
    let mut sum = number(comptime!(coefficients[last]).runtime());
    #[unroll]
    for i in 0..last {
        sum = fma(sum, x, number(comptime!(coefficients[last - 1 - i]).runtime()));
    }
    sum
}

/// The bits of coefficients: numbers known when a kernel is made must be comparable.
pub(super) fn c(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

/// What is left of `x` after `k` times ln 2.
#[cube]
fn after_powers(x: f32, k: f32, zero: u32) -> f32 {
    fma(k, 2.121_944_4e-4f32, kept(x - kept(k * 0.693_359_4f32, zero), zero))
}

/// The integer nearest to `x`.
#[cube]
pub(super) fn nearest(x: f32) -> f32 {
    (x + 0.5f32).floor()
}

/// 2 to the power of a whole number from -126 to 127.
#[cube]
pub(super) fn power(whole: i32) -> f32 {
    number(u32::reinterpret(whole + 127i32) << 23u32)
}

#[cube]
pub(crate) fn exp(x: f32, zero: u32) -> f32 {
    let held = clamped(x, -120.0, 120.0);
    let k = nearest(held * LOG2_E);
    let whole = i32::cast_from(k);
    // In two parts, because the whole power may be too large or too small for a number.
    let half = whole >> 1i32;
    let r = after_powers(held, k, zero);
    let slope =
        polynomial(r, comptime!(c(&[1.0, 0.499_999_94, 0.166_665_2, 0.041_668_26, 0.008_368_872, 0.001_382_223_8])));
    let y = fma(r, slope, 1.0f32) * power(half) * power(whole - half);
    select(is_nan(x), x, y)
}

#[cube]
pub(crate) fn expm1(x: f32, zero: u32) -> f32 {
    let held = clamped(x, -30.0, 89.0);
    let k = nearest(held * LOG2_E);
    let r = after_powers(held, k, zero);
    // Half the power, because that of 128 is no number.
    let power = power(i32::cast_from(k) - 1i32);
    let curve = polynomial(
        r,
        comptime!(c(&[0.5, 0.166_666_66, 0.041_666_49, 0.008_333_545, 0.001_393_277_4, 0.000_197_629_97])),
    );
    let half = fma(power, fma(r * r, curve, r), power - 0.5f32);
    let y = select(x.abs() < 1e-9f32, x, half + half);
    select(is_nan(x), x, y)
}

#[cube]
pub(crate) fn tanh(x: f32, zero: u32) -> f32 {
    let size = x.abs();
    let square = x * x;
    let curve =
        polynomial(square, comptime!(c(&[-0.333_332_8, 0.133_314_06, -0.053_736_515, 0.020_628_167, -0.005_692_296])));
    let small = fma(size * square, curve, size);
    let held = select(size > 10.0f32, 10.0f32.runtime(), size);
    let k = nearest(held * comptime!(2.0 * LOG2_E).runtime());
    let r = held - kept(k * comptime!(0.5 * LN_2).runtime(), zero);
    let power = power(i32::cast_from(k));
    let slope = polynomial(r, comptime!(c(&[2.0, 1.999_999_8, 1.333_321, 0.666_688_7, 0.267_830_88, 0.088_611_92])));
    let large = 1.0f32 - 2.0f32 / fma(power, fma(r, slope, 1.0f32), 1.0f32);
    // The sign comes last, as that of a cube root does.
    signed(select(is_nan(x), size, select(size < 0.625f32, small, large)), x, zero)
}

#[cube]
pub(crate) fn erf(x: f32) -> f32 {
    let size = x.abs();
    let slope = polynomial(
        x * x,
        comptime!(c(&[
            0.128_379_17,
            -0.376_126_3,
            0.112_836_584,
            -0.026_859_5,
            0.005_207_499_5,
            -0.000_832_416_47,
            0.000_103_173_45,
            -7.424_924_7e-6,
        ])),
    );
    let small = fma(x, slope, x);
    let held = select(size > 4.0f32, 4.0f32.runtime(), size);
    let root = polynomial(
        held,
        comptime!(c(&[
            1.001_358_7,
            -0.146_953_18,
            -0.058_627_173,
            -0.013_541_733,
            0.013_852_707,
            -0.002_676_895_6,
            0.000_168_752_11
        ])),
    );
    let fourth = (root * root) * (root * root);
    let large = fma(fourth, -fourth, 1.0f32);
    let y = select(size < 1.22f32, small, select(x < 0.0f32, -large, large));
    select(is_nan(x), x, y)
}

/// ln(1 + t) + ln(2) exponent for t from -1/4 to 1/2.
#[cube]
fn logarithm(t: f32, exponent: f32, zero: u32) -> f32 {
    let curve = polynomial(
        t,
        comptime!(c(&[
            -0.5,
            0.333_334_5,
            -0.250_001,
            0.199_908_14,
            -0.166_471_15,
            0.144_786_57,
            -0.131_629_91,
            0.104_648_77,
            -0.045_075_525,
        ])),
    );
    // ln 2 in two parts, of which the first has 9 bits: its product is exact.
    let low = fma(t * t, curve, exponent * -2.121_944_4e-4f32);
    kept(t + low, zero) + kept(exponent * 0.693_359_4f32, zero)
}

/// The exponent of `x`, in its place among the bits, that leaves a mantissa from 3/4 to 3/2.
#[cube]
pub(super) fn exponent(x: f32) -> u32 {
    (bits(x) - 0x3f40_0000u32) & 0xff80_0000u32
}

/// `y` where it is the logarithm of a positive number, and what else there is for other `x`.
#[cube]
fn limits(x: f32, y: f32, #[comptime] zero: f32) -> f32 {
    let finite = select(bits(x) == INFINITY, x, y);
    let outside = select(x == zero, number((INFINITY | SIGN).runtime()), number(NAN.runtime()));
    let y = select(x <= zero, outside, finite);
    select(is_nan(x), x, y)
}

#[cube]
pub(crate) fn log(x: f32, zero: u32) -> f32 {
    let tiny = x < 1.175_494_4e-38f32;
    let scaled = select(tiny, x * STEP, x);
    let place = exponent(scaled);
    let t = number(bits(scaled) - place) - 1.0f32;
    let whole = f32::cast_from(i32::reinterpret(place) >> 23i32);
    let whole = select(tiny, whole - 23.0f32, whole);
    limits(x, logarithm(t, whole, zero), 0.0)
}

#[cube]
pub(crate) fn log1p(x: f32, zero: u32) -> f32 {
    let place = exponent(1.0f32 + x);
    let scale = number(0x4080_0000u32 - place);
    let t = 0.25f32 * fma(x, scale, scale - 4.0f32);
    let y = logarithm(t, f32::cast_from(i32::reinterpret(place) >> 23i32), zero);
    let y = select(x == 0.0f32, x, y);
    limits(x, y, -1.0)
}

/// Half away from zero, as Nx rounds.
#[cube]
pub(crate) fn round(x: f32, zero: u32) -> f32 {
    let size = x.abs();
    let whole = size.floor();
    let up = select(size - whole >= 0.5f32, whole + 1.0f32, whole);
    // From 2^23 on all numbers are whole; NaN stays.
    let y = select(size < STEP, up, size);
    signed(y, x, zero)
}
