//! The two 8-bit float formats of Nx: E5M2 (`f8`) and E4M3FN (`f8_e4m3fn`).
//!
//! P. Micikevicius et al., "FP8 Formats for Deep Learning" (2022). E4M3FN has no infinities; like Nx, it saturates at 448.

use crate::types::Type;

/// A format with subnormals, `1 - bias` being the smallest exponent of the others.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    /// Bits of the fraction.
    fraction: i32,
    bias: i32,
    /// The bits of everything too large, infinity included.
    overflow: u8,
    nan: u8,
}

const E5M2: Format = Format { fraction: 2, bias: 15, overflow: 0x7c, nan: 0x7e };
const E4M3FN: Format = Format { fraction: 3, bias: 7, overflow: 0x7e, nan: 0x7f };

const SIGN: u8 = 0x80;

impl Format {
    /// The format of an 8-bit float type; `None` for other types.
    pub(crate) fn of(dtype: Type) -> Option<Self> {
        match dtype {
            Type::F8 => Some(E5M2),
            Type::F8E4M3FN => Some(E4M3FN),
            _ => None,
        }
    }

    /// The number with the bits `bits`.
    pub(crate) fn decode(self, bits: u8) -> f32 {
        let Self { fraction, bias, overflow, nan } = self;
        let size = bits & !SIGN;
        let exponent = i32::from(size >> fraction);
        let digits = i32::from(size) - (exponent << fraction);
        let number = if size > overflow {
            f32::NAN
        } else if size == overflow && overflow + 1 < nan {
            f32::INFINITY
        } else if exponent == 0 {
            digits as f32 * power(1 - bias - fraction)
        } else {
            (digits + (1 << fraction)) as f32 * power(exponent - bias - fraction)
        };
        if bits & SIGN == 0 { number } else { -number }
    }

    /// The bits of the nearest number, of the even one of two.
    pub(crate) fn encode(self, x: f64) -> u8 {
        let Self { fraction, bias, overflow, nan } = self;
        let size = match x.abs() {
            size if size.is_nan() => nan,
            size if size >= 65536.0 => overflow,
            size => {
                // Subnormals have the step of the smallest normal numbers.
                let exponent = exponent_of(size).max(1 - bias);
                let steps = (size / f64::from(power(exponent - fraction))).round_ties_even() as i32;
                // One binade is `1 << fraction` codes, and steps that fill a binade lead over into the next one.
                let code = ((exponent + bias - 1) << fraction) + steps;
                code.min(overflow.into()) as u8
            }
        };
        if x.is_sign_negative() { size | SIGN } else { size }
    }
}

fn power(exponent: i32) -> f32 {
    2f32.powi(exponent)
}

/// The exponent of the largest power of two up to `size`; far below all exponents here for subnormal numbers.
fn exponent_of(size: f64) -> i32 {
    (size.to_bits() >> 52) as i32 - 1023
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(dtype: Type, bits: u8) -> f32 {
        Format::of(dtype).expect("an 8-bit float type").decode(bits)
    }

    fn encode(dtype: Type, x: f64) -> u8 {
        Format::of(dtype).expect("an 8-bit float type").encode(x)
    }

    #[test]
    fn reads_known_numbers() {
        // Table 1 of the paper.
        assert_eq!(decode(Type::F8, 0x7b), 57344.0);
        assert_eq!(decode(Type::F8, 0x7c), f32::INFINITY);
        assert_eq!(decode(Type::F8, 0x04), 2f32.powi(-14));
        assert_eq!(decode(Type::F8, 0x01), 2f32.powi(-16));
        assert_eq!(decode(Type::F8E4M3FN, 0x7e), 448.0);
        assert_eq!(decode(Type::F8E4M3FN, 0x08), 2f32.powi(-6));
        assert_eq!(decode(Type::F8E4M3FN, 0x81), -(2f32.powi(-9)));
        for (dtype, bits) in [(Type::F8, 0x7d), (Type::F8, 0x7e), (Type::F8, 0xff), (Type::F8E4M3FN, 0x7f)] {
            assert!(decode(dtype, bits).is_nan(), "{dtype} {bits:x}");
        }
    }

    #[test]
    fn e5m2_is_the_upper_byte_of_f16() {
        for bits in 0..=u8::MAX {
            let expected = half::f16::from_bits(u16::from(bits) << 8).to_f32();
            let number = decode(Type::F8, bits);
            assert!(number == expected || (number.is_nan() && expected.is_nan()), "{bits:x}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        for dtype in [Type::F8, Type::F8E4M3FN] {
            for bits in 0..=u8::MAX {
                let number = decode(dtype, bits);
                if !number.is_nan() {
                    assert_eq!(encode(dtype, number.into()), bits, "{dtype} {number}");
                }
            }
        }
    }

    #[test]
    fn rounds_to_the_nearest_and_then_to_even() {
        let rounded = |dtype, x| decode(dtype, encode(dtype, x));
        assert_eq!(rounded(Type::F8, 1.1), 1.0);
        assert_eq!(rounded(Type::F8, 1.125), 1.0);
        assert_eq!(rounded(Type::F8, 1.375), 1.5);
        assert_eq!(rounded(Type::F8, 1.9), 2.0);
        assert_eq!(rounded(Type::F8, 61440.0), f32::INFINITY);
        assert_eq!(rounded(Type::F8, 61439.0), 57344.0);
        assert_eq!(rounded(Type::F8, 2f64.powi(-18)), 0.0);
        assert_eq!(rounded(Type::F8E4M3FN, 1.0625), 1.0);
        assert_eq!(rounded(Type::F8E4M3FN, 1e9), 448.0);
        assert_eq!(rounded(Type::F8E4M3FN, f64::NEG_INFINITY), -448.0);
        assert!(rounded(Type::F8E4M3FN, f64::NAN).is_nan());
    }
}
