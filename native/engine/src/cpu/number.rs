//! The element types that kernels are generic over.

use burn_backend::Element;
use bytemuck::Pod;
use half::{bf16, f16};
use num_complex::Complex;
use num_traits::{CheckedRem, PrimInt, WrappingAdd, WrappingMul, WrappingNeg, WrappingSub};

use super::binary16::{integer_to_odd, round, to_odd, widen};
use super::quotient::Wide;
use crate::types::Type;

/// An element, real or complex, as it lies in memory.
pub(crate) trait Cell: Pod + Default + PartialEq + Send + Sync {
    /// The type of a tensor of such elements.
    const TYPE: Type;

    /// What running sums and products are kept in: wide for floats, wrapping for integers.
    type Total: Total;

    /// The value as a sum of one.
    fn total(self) -> Self::Total;

    /// The sum of four. Floats narrower than `f64` are added in `f32`, which takes a quarter of the time of widening each:
    /// the rounding of four numbers is lost in the sum of many.
    #[inline(always)]
    fn total_of(four: [Self; 4]) -> Self::Total {
        four.into_iter().fold(Self::Total::ZERO, |sum, x| sum.plus(x.total()))
    }

    /// Rounded to nearest.
    fn from_total(total: Self::Total) -> Self;
}

/// A real element.
pub(crate) trait Number: Cell + Element + PartialOrd {
    /// Less than or equal to every number of the type.
    const LOWEST: Self;

    /// Greater than or equal to every number of the type.
    const HIGHEST: Self;

    /// NaN, where the type has it.
    const UNORDERED: Self;

    /// An unsigned integer of the width of the number that orders as numbers do, the two zeros alike; NaN above all.
    fn rank(self) -> u64;

    /// Wrapped, or rounded to nearest.
    fn from_i64(wide: i64) -> Self;

    /// Wrapped, or rounded to nearest.
    fn from_u64(wide: u64) -> Self;

    /// Truncated as [`truncate`] does, or rounded to nearest.
    fn from_f32(single: f32) -> Self;

    /// Truncated as [`truncate`] does, or rounded to nearest.
    fn from_f64(wide: f64) -> Self;

    /// As a number of another type.
    fn convert<R: Number>(self) -> R;

    /// True for NaN alone.
    fn is_unordered(self) -> bool {
        self.partial_cmp(&self).is_none()
    }
}

/// A running sum or product.
pub(crate) trait Total: Copy + Send + Sync {
    /// The sum of nothing.
    const ZERO: Self;

    /// The product of nothing.
    const ONE: Self;

    /// Sum.
    fn plus(self, other: Self) -> Self;

    /// Product.
    fn times(self, other: Self) -> Self;

    /// Whether it is no number.
    fn is_nan(self) -> bool {
        false
    }

    /// Whether it is neither infinite nor no number.
    fn is_finite(self) -> bool {
        true
    }
}

/// An integer, whose arithmetic wraps.
pub(crate) trait Int:
    Number + PrimInt + CheckedRem + WrappingAdd + WrappingMul + WrappingNeg + WrappingSub
{
    /// The low bits of `wide`.
    fn wrap(wide: i128) -> Self;

    /// The value itself.
    fn widen(self) -> i128;
}

/// A float, computed with in a type that has the usual functions and rounded once.
pub(crate) trait Float: Number {
    /// The type functions are computed in.
    type Math: Wide;

    /// The value in the type of functions.
    fn math(self) -> Self::Math;

    /// Rounded to nearest.
    fn round_from(math: Self::Math) -> Self;

    /// The value as an `f64`.
    fn to_f64(self) -> f64;
}

/// The whole part of a float: NaN as zero, infinities as the ends of the type, other numbers out of range wrapped.
fn truncate<I: Int>(x: f64) -> I {
    /// From here on, a float is a multiple of 2^64: all of its low bits are zero.
    const COARSE: f64 = (1u128 << 117) as f64;
    const SMALL: f64 = (1u64 << 63) as f64;
    match x {
        f64::INFINITY => I::max_value(),
        f64::NEG_INFINITY => I::min_value(),
        _ if x.abs() < SMALL => I::wrap((x as i64).into()),
        _ if x.abs() < COARSE => I::wrap(x as i128),
        _ => I::zero(),
    }
}

impl Total for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn times(self, other: Self) -> Self {
        self * other
    }

    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }

    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }
}

macro_rules! ints {
    ($($t:ident $dtype:ident)*) => {$(
        impl Total for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }

        impl Number for $t {
            const LOWEST: Self = $t::MIN;
            const HIGHEST: Self = $t::MAX;
            const UNORDERED: Self = 0;

            fn rank(self) -> u64 {
                (self as u64).wrapping_sub($t::MIN as u64)
            }

            #[inline(always)]
            fn from_i64(wide: i64) -> Self {
                wide as $t
            }

            #[inline(always)]
            fn from_u64(wide: u64) -> Self {
                wide as $t
            }

            #[inline(always)]
            fn from_f32(single: f32) -> Self {
                if size_of::<$t>() > 4 {
                    return truncate(single.into());
                }
                // As [`truncate`], without branches: from 2^63 on, a float is a multiple of 2^40.
                let whole = if single.abs() < (1u64 << 63) as f32 { single as i64 } else { 0 };
                match single {
                    f32::INFINITY => $t::MAX,
                    f32::NEG_INFINITY => $t::MIN,
                    _ => whole as $t,
                }
            }

            #[inline(always)]
            fn from_f64(wide: f64) -> Self {
                truncate(wide)
            }

            #[inline(always)]
            fn convert<R: Number>(self) -> R {
                if $t::MIN == 0 { R::from_u64(self as u64) } else { R::from_i64(self as i64) }
            }
        }

        impl Cell for $t {
            const TYPE: Type = Type::$dtype;

            type Total = Self;

            fn total(self) -> Self {
                self
            }

            fn from_total(total: Self) -> Self {
                total
            }
        }

        impl Int for $t {
            fn wrap(wide: i128) -> Self {
                wide as $t
            }

            fn widen(self) -> i128 {
                self.into()
            }
        }
    )*};
}

ints!(u8 U8 u16 U16 u32 U32 u64 U64 i8 S8 i16 S16 i32 S32 i64 S64);

macro_rules! floats {
    ($($t:ident $dtype:ident $math:ident, |$x:ident| $to:expr, $from:expr, $to_f64:expr, $from_f64:expr, $from_f32:expr, $convert:ident;)*) => {$(
        impl Number for $t {
            const LOWEST: Self = $t::NEG_INFINITY;
            const HIGHEST: Self = $t::INFINITY;
            const UNORDERED: Self = $t::NAN;

            fn rank(self) -> u64 {
                // Without branches on the sign, which in most data nobody can foresee.
                let zero = 1u64 << (8 * size_of::<$t>() - 1);
                let size = u64::from(self.to_bits()) & (zero - 1);
                let negative = u64::from(self.is_sign_negative()).wrapping_neg();
                let rank = zero.wrapping_add((size ^ negative).wrapping_sub(negative));
                if self.is_nan() { zero | (zero - 1) } else { rank }
            }

            #[inline(always)]
            fn from_i64(wide: i64) -> Self {
                if size_of::<$t>() >= 4 {
                    return Self::round_from(wide as $math);
                }
                let size = integer_to_odd(wide.unsigned_abs());
                <Self as Number>::from_f64(if wide < 0 { -size } else { size })
            }

            #[inline(always)]
            fn from_u64(wide: u64) -> Self {
                if size_of::<$t>() >= 4 { Self::round_from(wide as $math) } else { <Self as Number>::from_f64(integer_to_odd(wide)) }
            }

            #[inline(always)]
            fn from_f32($x: f32) -> Self {
                $from_f32
            }

            #[inline(always)]
            fn from_f64($x: f64) -> Self {
                $from_f64
            }

            #[inline(always)]
            fn convert<R: Number>(self) -> R {
                R::$convert(self.math())
            }
        }

        impl Cell for $t {
            const TYPE: Type = Type::$dtype;

            type Total = f64;

            fn total(self) -> f64 {
                self.to_f64()
            }

            #[inline(always)]
            fn total_of([a, b, c, d]: [Self; 4]) -> f64 {
                ((a.math() + b.math()) + (c.math() + d.math())).into()
            }

            fn from_total(total: f64) -> Self {
                <Self as Number>::from_f64(total)
            }
        }

        impl Float for $t {
            type Math = $math;

            #[inline(always)]
            fn math(self) -> $math {
                let $x = self;
                $to
            }

            #[inline(always)]
            fn round_from($x: $math) -> Self {
                $from
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                let $x = self;
                $to_f64
            }
        }
    )*};
}

floats! {
    f32 F32 f32, |x| x, x, x.into(), x as f32, x, from_f32;
    f64 F64 f64, |x| x, x, x, x, x.into(), from_f64;
    f16 F16 f32, |x| widen(x), round(x), widen(x).into(), round(to_odd(x)), round(x), from_f32;
    bf16 BF16 f32, |x| x.to_f32(), bf16::from_f32(x), bf16::to_f64(x), bf16::from_f32(to_odd(x)), bf16::from_f32(x), from_f32;
}

impl Total for Complex<f64> {
    const ZERO: Self = Complex::new(0.0, 0.0);
    const ONE: Self = Complex::new(1.0, 0.0);

    fn plus(self, other: Self) -> Self {
        self + other
    }

    fn times(self, other: Self) -> Self {
        self * other
    }

    fn is_nan(self) -> bool {
        Complex::is_nan(self)
    }

    fn is_finite(self) -> bool {
        Complex::is_finite(self)
    }
}

macro_rules! complexes {
    ($($part:ident $dtype:ident)*) => {$(
        impl Cell for Complex<$part> {
            const TYPE: Type = Type::$dtype;

            type Total = Complex<f64>;

            fn total(self) -> Complex<f64> {
                Complex::new(self.re.into(), self.im.into())
            }

            fn from_total(total: Complex<f64>) -> Self {
                Complex::new(total.re as $part, total.im as $part)
            }
        }
    )*};
}

complexes!(f32 C64 f64 C128);

/// Evaluates `$body`, a `Result`, with `$t` as the Rust type of one of the listed `$dtype`s; an error for others.
macro_rules! for_types {
    ($dtype:expr, $t:ident => $body:expr, $($variant:ident $rust:ty),*) => {
        match $dtype {
            $($crate::types::Type::$variant => {
                type $t = $rust;
                $body
            })*
            other => Err($crate::error::Error::Unsupported {
                op: "kernel".into(),
                dtype: other,
                device: $crate::device::Device::Cpu.to_string(),
            }),
        }
    };
}

/// Evaluates `$body`, a `Result`, with `$t` as the Rust type of an integer `$dtype`.
macro_rules! for_int {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::cpu::for_types!($dtype, $t => $body,
            U8 u8, U16 u16, U32 u32, U64 u64, S8 i8, S16 i16, S32 i32, S64 i64)
    };
}

/// Evaluates `$body`, a `Result`, with `$t` as the Rust type of a float `$dtype`.
macro_rules! for_float {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::cpu::for_types!($dtype, $t => $body, F32 f32, F64 f64, F16 half::f16, BF16 half::bf16)
    };
}

/// Evaluates `$body`, a `Result`, with `$t` as the Rust type of an integer or float `$dtype`.
macro_rules! for_number {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::cpu::for_types!($dtype, $t => $body,
            U8 u8, U16 u16, U32 u32, U64 u64, S8 i8, S16 i16, S32 i32, S64 i64,
            F32 f32, F64 f64, F16 half::f16, BF16 half::bf16)
    };
}

/// Evaluates `$body`, a `Result`, with `$t` as the Rust type of a complex `$dtype`.
macro_rules! for_complex {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::cpu::for_types!($dtype, $t => $body, C64 num_complex::Complex<f32>, C128 num_complex::Complex<f64>)
    };
}

/// Evaluates `$body`, a `Result`, with `$t` as the Rust type of any `$dtype` that is not packed.
macro_rules! for_cell {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::cpu::for_types!($dtype, $t => $body,
            U8 u8, U16 u16, U32 u32, U64 u64, S8 i8, S16 i16, S32 i32, S64 i64,
            F32 f32, F64 f64, F16 half::f16, BF16 half::bf16,
            C64 num_complex::Complex<f32>, C128 num_complex::Complex<f64>)
    };
}

pub(crate) use {for_cell, for_complex, for_float, for_int, for_number, for_types};
