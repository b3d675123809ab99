//! Floats as vectors of the processor.

use pulp::Simd;

/// A float that processors have vectors of, by the names that `pulp` gives them.
pub(crate) trait Vectors: Copy + Send + Sync + 'static {
    /// A vector on a processor with the instructions `S`.
    type Many<S: Simd>: Copy;

    /// Elements of a vector.
    fn lanes<S: Simd>() -> usize;

    /// Neighbours as vectors, and those that are left.
    fn split<S: Simd>(elements: &[Self]) -> (&[Self::Many<S>], &[Self]);

    /// A vector of one number.
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Many<S>;

    /// A vector of zeros.
    fn many_zero<S: Simd>(simd: S) -> Self::Many<S>;

    /// Sum.
    fn plus<S: Simd>(simd: S, a: Self::Many<S>, b: Self::Many<S>) -> Self::Many<S>;

    /// a b + c, rounded once.
    fn fused<S: Simd>(simd: S, a: Self::Many<S>, b: Self::Many<S>, c: Self::Many<S>) -> Self::Many<S>;

    /// The sum of a vector's elements.
    fn sum_of<S: Simd>(simd: S, a: Self::Many<S>) -> Self;
}

macro_rules! vectors {
    ($($t:ident: $many:ident, $lanes:ident, $split:ident, $splat:ident, $add:ident, $fused:ident, $sum:ident;)*) => {$(
        impl Vectors for $t {
            type Many<S: Simd> = S::$many;

            #[inline(always)]
            fn lanes<S: Simd>() -> usize {
                S::$lanes
            }

            #[inline(always)]
            fn split<S: Simd>(elements: &[Self]) -> (&[S::$many], &[Self]) {
                S::$split(elements)
            }

            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::$many {
                simd.$splat(x)
            }

            #[inline(always)]
            fn many_zero<S: Simd>(simd: S) -> S::$many {
                simd.$splat(0.0)
            }

            #[inline(always)]
            fn plus<S: Simd>(simd: S, a: S::$many, b: S::$many) -> S::$many {
                simd.$add(a, b)
            }

            #[inline(always)]
            fn fused<S: Simd>(simd: S, a: S::$many, b: S::$many, c: S::$many) -> S::$many {
                simd.$fused(a, b, c)
            }

            #[inline(always)]
            fn sum_of<S: Simd>(simd: S, a: S::$many) -> Self {
                simd.$sum(a)
            }
        }
    )*};
}

vectors! {
    f32: f32s, F32_LANES, as_simd_f32s, splat_f32s, add_f32s, mul_add_f32s, reduce_sum_f32s;
    f64: f64s, F64_LANES, as_simd_f64s, splat_f64s, add_f64s, mul_add_f64s, reduce_sum_f64s;
}
