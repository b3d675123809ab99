//! Running sums of single precision, by vectors of eight doubles.
//!
//! The compiler makes no vectors of a loop whose steps wait for each other. Here the sums within a vector are those of
//! neighbours first, then of four and of all eight, which takes three steps instead of eight.

/// Fills `out` with the sum of all numbers up to each, where this processor has such vectors; answers whether it has.
#[cfg(target_arch = "x86_64")]
pub(super) fn running_sums(line: &[f32], out: &mut [f32]) -> bool {
    let Some(simd) = pulp::x86::V4::try_new() else { return false };
    pulp::Simd::vectorize(simd, x86::Sums { simd, line, out });
    true
}

/// Other processors have no such vectors.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn running_sums(_line: &[f32], _out: &mut [f32]) -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use pulp::x86::V4;
    use pulp::{Simd, WithSimd, cast};

    type Doubles = <V4 as Simd>::f64s;
    type Places = <V4 as Simd>::u64s;

    pub(super) struct Sums<'a> {
        pub(super) simd: V4,
        pub(super) line: &'a [f32],
        pub(super) out: &'a mut [f32],
    }

    impl WithSimd for Sums<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let simd = self.simd;
            let ((eights, rest), (places, rest_places)) = (self.line.as_chunks::<8>(), self.out.as_chunks_mut::<8>());
            let mut before = simd.splat_f64s(0.0);
            for (&eight, place) in eights.iter().zip(places) {
                let sums = within(simd, cast(simd.avx512f._mm512_cvtps_pd(cast(eight))));
                *place = cast(simd.avx512f._mm512_cvtpd_ps(cast(simd.add_f64s(before, sums))));
                before = simd.add_f64s(before, moved(simd, sums, [7; 8], 0xff));
            }
            let mut before = cast::<Doubles, [f64; 8]>(before)[0];
            for (&x, place) in rest.iter().zip(rest_places) {
                before += f64::from(x);
                *place = before as f32;
            }
        }
    }

    /// The sum of all elements up to each.
    #[inline(always)]
    fn within(simd: V4, x: Doubles) -> Doubles {
        let two = simd.add_f64s(x, moved(simd, x, [0, 0, 1, 2, 3, 4, 5, 6], 0b1111_1110));
        let four = simd.add_f64s(two, moved(simd, two, [0, 0, 0, 1, 2, 3, 4, 5], 0b1111_1100));
        simd.add_f64s(four, moved(simd, four, [0, 0, 0, 0, 0, 1, 2, 3], 0b1111_0000))
    }

    /// The elements at places, or zero where the bit of `mask` is not set.
    #[inline(always)]
    fn moved(simd: V4, x: Doubles, places: [u64; 8], mask: u8) -> Doubles {
        cast(simd.avx512f._mm512_maskz_permutexvar_pd(mask, cast(cast::<[u64; 8], Places>(places)), cast(x)))
    }
}
