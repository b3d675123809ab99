//! Between 16-bit and wider floats, without branches, so that the compiler turns a loop into vector instructions.

use half::f16;

/// The bits of an infinite `f32`, and with the sign cut off the largest that are no NaN.
const INFINITE: u32 = 0xff << 23;

/// What the exponents of an `f32` are greater by.
const BIAS: u32 = (127 - 15) << 23;

/// The number itself.
#[inline(always)]
pub(super) fn widen(x: f16) -> f32 {
    let bits = u32::from(x.to_bits());
    let (sign, size) = ((bits & 0x8000) << 16, (bits & 0x7fff) << 13);
    // Below the least normal number, the bits count units of 2^-24: the sum with 2^-14 is exact.
    let least = f32::from_bits(113 << 23);
    let small = f32::from_bits(size + (113 << 23)) - least;
    let normal = if size >= 31 << 23 { size | INFINITE } else { size + BIAS };
    f32::from_bits(sign | if size < 1 << 23 { small.to_bits() } else { normal })
}

/// Rounded to nearest, to the even one of two; a NaN keeps the first bits of what it says.
#[inline(always)]
pub(super) fn round(x: f32) -> f16 {
    let bits = x.to_bits();
    let (sign, size) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    // Below the least normal number, the addition rounds to units of 2^-24, and the low bits of the sum count them.
    let unit = f32::from_bits(126 << 23);
    let small = (f32::from_bits(size) + unit).to_bits().wrapping_sub(126 << 23);
    let normal = size.wrapping_sub(BIAS).wrapping_add(0xfff + (size >> 13 & 1)) >> 13;
    let rounded = if size < 113 << 23 { small } else { normal };
    let rounded = if rounded > 0x7c00 || size >= 143 << 23 { 0x7c00 } else { rounded };
    let unordered = 0x7e00 | (size >> 13 & 0x3ff);
    f16::from_bits((sign | if size > INFINITE { unordered } else { rounded }) as u16)
}

/// The number where `f32` has it, else that of the two beside it whose last bit is 1: rounded further to 16 bits, it comes to the
/// float nearest to the number, which the nearest `f32` may not (S. Boldo and G. Melquiond, Emulation of a FMA and Correctly
/// Rounded Sums, 2008).
#[inline(always)]
pub(crate) fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    let (bits, back) = (near.to_bits(), f64::from(near));
    let towards_zero = if back.abs() > x.abs() { bits.wrapping_sub(1) } else { bits };
    if back == x || x.is_nan() { near } else { f32::from_bits(towards_zero | 1) }
}

/// An integer that `f64` has: itself, or beyond 2^53 one whose last bit tells of those it has not. See [`to_odd`].
#[inline(always)]
pub(super) fn integer_to_odd(x: u64) -> f64 {
    let told = u64::from(x & 0x7ff != 0) << 11;
    (if x < 1 << 53 { x } else { x & !0x7ff | told }) as f64
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    #[test]
    fn all_16_bit_floats_widen() {
        for bits in 0..=u16::MAX {
            let x = f16::from_bits(bits);
            let (got, want) = (widen(x), x.to_f32());
            assert!(got.to_bits() == want.to_bits() || x.is_nan() && got.is_nan(), "{bits:#x}: {got} is not {want}");
        }
    }

    #[test]
    fn floats_round_to_the_nearest() {
        // Each 16-bit float, the middle between it and the next, and the numbers beside both.
        let near = (0..=u16::MAX).flat_map(|bits| {
            let at = f16::from_bits(bits).to_f32().to_bits();
            [0, 0x1000, 0x2000]
                .into_iter()
                .flat_map(move |more| (-2..=2).map(move |by| (at + more).wrapping_add_signed(by)))
        });
        let spread = (0..1 << 22).map(|i: u32| i.wrapping_mul(0x9e37_79b9));
        for x in near.chain(spread).map(f32::from_bits) {
            let (got, want) = (round(x), f16::from_f32(x));
            assert!(got.to_bits() == want.to_bits(), "{x:e}: {got:?} is not {want:?}");
        }
    }

    /// Checks `round` at positive floats of 16 bits, in the middle between neighbours, and beside that.
    fn rounds_once<T: Copy + PartialEq + std::fmt::Debug>(
        last: u16,
        float: fn(u16) -> T,
        wide: fn(T) -> f64,
        round: fn(f64) -> T,
    ) {
        for bits in 0..last {
            let [low, high] = [float(bits), float(bits + 1)];
            let middle = (wide(low) + wide(high)) / 2.0;
            let even = if bits % 2 == 0 { low } else { high };
            for (x, want) in [(wide(low), low), (middle.next_down(), low), (middle, even), (middle.next_up(), high)] {
                assert_eq!(round(x), want, "{x:e}");
                assert_eq!(wide(round(-x)), -wide(want), "{x:e}");
            }
        }
    }

    #[test]
    fn doubles_round_once() {
        rounds_once(0x7bff, f16::from_bits, f64::from, |x| round(to_odd(x)));
        rounds_once(0x7f7f, bf16::from_bits, f64::from, |x| bf16::from_f32(to_odd(x)));
        assert_eq!(
            [1e300, f64::INFINITY, -1e300].map(|x| round(to_odd(x))),
            [f16::INFINITY, f16::INFINITY, f16::NEG_INFINITY]
        );
        assert!(to_odd(f64::NAN).is_nan());
    }
}
