//! Many numbers divided by one.

use std::mem::MaybeUninit;

use num_traits::{Bounded as _, NumCast, One as _, PrimInt, WrappingSub};

use super::Float;
use super::block::vectorized;
use super::map::{each, write};

/// Each number divided by `divisor`, rounded as division rounds, which takes several times as long.
pub(crate) fn divide_all<T: Float>(xs: &[T], divisor: T, out: &mut [MaybeUninit<T>]) {
    let by = divisor.math();
    if Divisor::new(by).is_none_or(|by| !divide_usual(xs, by, out)) {
        each(xs, out, |x| T::round_from(x.math() / by));
    }
}

/// Answers whether all numbers were of a size to be divided so.
fn divide_usual<T: Float>(xs: &[T], by: Divisor<T::Math>, out: &mut [MaybeUninit<T>]) -> bool {
    let mut sizes = Sizes::none();
    vectorized(
        #[inline(always)]
        || {
            sizes = xs.iter().zip(out).fold(sizes, |sizes, (&x, r)| {
                write(r, T::round_from(by.quotient(x.math())));
                sizes.with(x.math())
            });
        },
    );
    sizes.are_usual()
}

/// A divisor whose inverse is known.
#[derive(Clone, Copy)]
pub(crate) struct Divisor<F> {
    by: F,
    inverse: F,
    /// The inverse rounded down, and what that took from it.
    below: F,
    rest: F,
}

impl<F: Wide> Divisor<F> {
    /// `None` for divisors that are negative, or so large or small that a step of a division may leave the normal numbers.
    pub(crate) fn new(by: F) -> Option<Self> {
        let power = |exponent: i32| <F as NumCast>::from(2f64.powi(exponent));
        if !(power(-40)?..=power(40)?).contains(&by) {
            return None;
        }
        let inverse = by.recip();
        let error = |inverse: F| (-inverse).mul_add(by, F::one());
        let below = if error(inverse) < F::zero() { inverse.below() } else { inverse };
        Some(Self { by, inverse, below, rest: error(below) * inverse })
    }

    /// The number itself.
    pub(super) fn number(self) -> F {
        self.by
    }

    /// The product with both parts of the inverse is one of the two numbers beside the quotient. From such a number the
    /// remainder is exact, and the remainder's product with the rounded inverse leads to the nearest number. All products
    /// of a zero have its sign.
    ///
    /// P. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", IBM Journal of Research
    /// and Development 34 (1990); N. Brisebarre, J.-M. Muller and S. Raina, "Accelerating correctly rounded floating-point
    /// division when the divisor is known in advance", IEEE Transactions on Computers 53 (2004).
    #[inline(always)]
    pub(super) fn quotient(self, x: F) -> F {
        let near = x.mul_add(self.below, x * self.rest);
        let excess = near.mul_add(self.by, -x);
        (-excess).mul_add(self.inverse, near)
    }
}

/// The sizes of some numbers: bits without the sign order as sizes do.
#[derive(Clone, Copy)]
pub(super) struct Sizes<F: Wide> {
    /// One less than the smallest, so that zeros, which do no harm, count as large.
    pub(super) least: F::Bits,
    pub(super) most: F::Bits,
}

impl<F: Wide> Sizes<F> {
    pub(super) fn none() -> Self {
        Self { least: F::Bits::max_value(), most: F::Bits::min_value() }
    }

    #[inline(always)]
    fn with(self, x: F) -> Self {
        let bits = x.size();
        self.join(Self { least: bits.wrapping_sub(&F::Bits::one()), most: bits })
    }

    /// The sizes of both.
    #[inline(always)]
    pub(super) fn join(self, other: Self) -> Self {
        Self {
            least: if other.least < self.least { other.least } else { self.least },
            most: if other.most > self.most { other.most } else { self.most },
        }
    }

    /// Whether all were zeros or from 2^-60 to 2^60 in size.
    pub(super) fn are_usual(self) -> bool {
        let bits = |exponent: i32| <F as NumCast>::from(2f64.powi(exponent)).map(Wide::size);
        bits(-60).is_some_and(|least| self.least >= least - F::Bits::one())
            && bits(60).is_some_and(|most| self.most <= most)
    }
}

/// A float of 32 or 64 bits.
pub(crate) trait Wide: num_traits::Float + Into<f64> + Send + Sync {
    /// An unsigned integer of the same width.
    type Bits: PrimInt + WrappingSub + Send + Sync;

    /// The bits without the sign.
    fn size(self) -> Self::Bits;

    /// The number before a positive one.
    fn below(self) -> Self;
}

macro_rules! wide {
    ($($t:ident, $bits:ident;)*) => {$(
        impl Wide for $t {
            type Bits = $bits;

            #[inline(always)]
            fn size(self) -> $bits {
                self.to_bits() & ($bits::MAX >> 1)
            }

            fn below(self) -> Self {
                self.next_down()
            }
        }
    )*};
}

wide! {
    f32, u32;
    f64, u64;
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha8Rng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Numbers of every size, with those that no rule covers.
    fn numbers(rng: &mut ChaCha8Rng) -> Vec<f32> {
        let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45, 1.0];
        let near_one = (0..500).map(|_| rng.random_range(-4.0f32..4.0)).collect::<Vec<_>>();
        let any = (0..20).map(|_| f32::from_bits(rng.random())).collect::<Vec<_>>();
        special.into_iter().chain(near_one).chain(any).collect()
    }

    fn bits_of_quotients(xs: &[f32], by: f32) -> Vec<u32> {
        let mut out = vec![MaybeUninit::uninit(); xs.len()];
        divide_all(xs, by, &mut out);
        // SAFETY: each place was written.
        out.iter().map(|r: &MaybeUninit<f32>| unsafe { r.assume_init() }.to_bits()).collect()
    }

    #[test]
    fn quotients_are_those_of_the_processor() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let xs = numbers(&mut rng);
        let usual: Vec<f32> = xs.iter().copied().filter(|x| *x == 0.0 || (1e-15..1e15).contains(&x.abs())).collect();
        for _ in 0..20_000 {
            let by = if rng.random() { rng.random_range(0.0f32..10.0) } else { f32::from_bits(rng.random()) };
            for xs in [&xs, &usual] {
                let expected: Vec<u32> = xs.iter().map(|x| (x / by).to_bits()).collect();
                let same = |(a, b): (&u32, &u32)| a == b || f32::from_bits(*a).is_nan() && f32::from_bits(*b).is_nan();
                assert!(bits_of_quotients(xs, by).iter().zip(&expected).all(same), "divided by {by:e}");
            }
        }
    }

    #[test]
    fn all_quotients_of_a_divisor_are_right() {
        for by in [3.0f32, std::f32::consts::SQRT_2, 0.1, 1_023.999_9, 5.960_465e-8] {
            let xs: Vec<f32> = (0..1 << 23).map(|i| f32::from_bits((127 << 23) + i)).collect();
            let expected: Vec<u32> = xs.iter().map(|x| (x / by).to_bits()).collect();
            assert_eq!(bits_of_quotients(&xs, by), expected, "divided by {by}");
        }
    }
}
