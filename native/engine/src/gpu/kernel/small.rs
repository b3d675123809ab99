//! Floats of 8 and 16 bits, which are held as `f32`.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::function::{INFINITY, NAN, SIGN, bits, is_nan, number};
use crate::gpu::small::Small;

/// The bits of an `f32` that is a power of two.
fn power(exponent: i32) -> u32 {
    ((127 + exponent) as u32) << 23
}

impl Small {
    /// The bits that `f32` has more in its fraction.
    fn dropped(self) -> u32 {
        23 - self.fraction
    }

    /// The exponent of its least number above zero.
    fn unit(self) -> i32 {
        1 - self.bias as i32 - self.fraction as i32
    }

    /// The bits of its least number with a leading bit, as an `f32`.
    fn least(self) -> u32 {
        power(1 - self.bias as i32)
    }

    /// The bits of its largest number, as an `f32`: a fraction of ones, of which one stands for NaN where there is no infinity.
    fn largest(self) -> u32 {
        let exponent = if self.infinite { self.bias } else { self.bias + 1 };
        let ones = (1 << self.fraction) - if self.infinite { 1 } else { 2 };
        power(exponent as i32) | (ones << self.dropped())
    }

    /// The bits of what is larger, as an `f32`.
    fn beyond(self) -> u32 {
        if self.infinite { INFINITY } else { self.largest() }
    }

    /// The stored exponent of what is no number, where that has its own.
    fn last(self) -> u32 {
        2 * self.bias + 1
    }
}

/// The nearest number, of two the even one; what is below the least with a leading bit keeps multiples of a unit.
#[cube]
pub(super) fn round(x: u32, #[comptime] small: Small) -> u32 {
    let size = x & 0x7fff_ffffu32;
    let dropped = comptime!(small.dropped());
    let half = comptime!((1u32 << (small.dropped() - 1)) - 1);
    let mask = comptime!(!((1u32 << small.dropped()) - 1));
    let normal = (size + half + ((size >> dropped) & 1u32)) & mask;
    // In units, which the exponent tells how far to shift for.
    let first = comptime!((150 + small.unit()) as u32);
    let shift = first - min(size >> 23u32, comptime!(first - small.dropped() - 1).runtime());
    let held = min(shift, 30u32.runtime());
    let mantissa = (size & 0x007f_ffffu32) | 0x0080_0000u32;
    let half = (1u32 << (held - 1u32)) - 1u32;
    let units = (mantissa + half + ((mantissa >> held) & 1u32)) >> held;
    let low = bits(f32::cast_from(units) * number(comptime!(power(small.unit())).runtime()));
    let rounded = select(size < comptime!(small.least()), low, normal);
    let held = select(rounded > comptime!(small.largest()), comptime!(small.beyond()).runtime(), rounded);
    select(is_nan(number(x)), x, held | (x & SIGN))
}

/// The bits of a number of the type.
#[cube]
pub(super) fn encode(x: u32, #[comptime] small: Small) -> u32 {
    let size = x & 0x7fff_ffffu32;
    let dropped = comptime!(small.dropped());
    let normal = (size >> dropped) - comptime!((127 - small.bias) << small.fraction);
    let low = u32::cast_from(number(size) * number(comptime!(power(-small.unit())).runtime()));
    let finite = select(size < comptime!(small.least()), low, normal);
    let payload = (size & 0x007f_ffffu32) >> dropped;
    let other = comptime!(if small.infinite { small.last() << small.fraction } else { 0x7f });
    let coded = select(size >= INFINITY, payload | other, finite);
    let sign = comptime!(small.fraction + if small.infinite { 5 } else { 4 });
    coded | ((x >> 31u32) << sign)
}

/// The number with these bits.
#[cube]
pub(super) fn decode(x: u32, #[comptime] small: Small) -> u32 {
    let place = comptime!(small.fraction + if small.infinite { 5 } else { 4 });
    let sign = (x >> place) << 31u32;
    let size = x & comptime!((1u32 << (small.fraction + if small.infinite { 5 } else { 4 })) - 1);
    let dropped = comptime!(small.dropped());
    let normal = (size << dropped) + comptime!((127 - small.bias) << 23);
    let low = bits(f32::cast_from(size) * number(comptime!(power(small.unit())).runtime()));
    let finite = select(size < comptime!(1u32 << small.fraction), low, normal);
    let last = comptime!(if small.infinite { small.last() << small.fraction } else { 0x7f });
    let other = select(comptime!(small.infinite).runtime(), INFINITY | (size << dropped), NAN.runtime());
    select(size >= last, other, finite) | sign
}
