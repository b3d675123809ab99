//! Products of few rows by a matrix that lies in rows. `gemm` would bring the matrix in order first, which takes as long as
//! such a product.

use std::marker::PhantomData;

use pulp::{Simd, WithSimd};

use super::product::Real;

/// Rows of a tile, and most vectors in each: their sums, a row of the matrix and a factor fill the registers of AVX-512 and
/// NEON.
const ROWS: usize = 6;
const VECTORS: usize = 4;

/// Registers that a processor has for that.
const REGISTERS: usize = 32;

/// Few rows and a matrix, and where their product goes.
pub(super) struct FewRows<'a, T> {
    /// The rows in groups of [`ROWS`], 4, 2 and 1: of each the first number, and the elements column by column.
    groups: Vec<(usize, Vec<T>)>,
    rows: usize,
    /// The matrix from its first element on, and how far its rows lie apart.
    rhs: &'a [T],
    rhs_step: usize,
    columns: usize,
    into: *mut T,
    step: usize,
    add: bool,
    target: PhantomData<&'a mut [T]>,
}

impl<'a, T: Real> FewRows<'a, T> {
    /// `lhs` answers the element of a row and column.
    ///
    /// # Safety
    ///
    /// From `into` on, there are `rows` rows of `columns` elements, `step` apart, that nobody else writes to; with `add`,
    /// they are written already.
    pub(super) unsafe fn new(
        [rows, inner, columns]: [usize; 3],
        lhs: impl Fn(usize, usize) -> T,
        (rhs, rhs_step): (&'a [T], usize),
        (into, step): (*mut T, usize),
        add: bool,
    ) -> Self {
        let mut groups = Vec::new();
        let mut first = 0;
        while first < rows {
            let count = [ROWS, 4, 2, 1].into_iter().find(|count| first + count <= rows).unwrap_or(1);
            let elements = (0..inner * count).map(|i| lhs(first + i % count, i / count)).collect();
            groups.push((first, elements));
            first += count;
        }
        Self { groups, rows, rhs, rhs_step, columns, into, step, add, target: PhantomData }
    }

    /// Computes the product; answers how many columns there are of it: a multiple of the processor's vectors.
    pub(super) fn run(self) -> usize {
        pulp::Arch::new().dispatch(self)
    }

    /// The columns from `first` on, in `V` vectors.
    #[inline(always)]
    fn panel<S: Simd, const V: usize>(&self, simd: S, first: usize) {
        for (number, (row, lhs)) in self.groups.iter().enumerate() {
            let next = self.groups.get(number + 1).map_or(self.rows, |&(next, _)| next);
            match next - row {
                ROWS => self.tile::<S, ROWS, V>(simd, *row, lhs, first),
                4 => self.tile::<S, 4, V>(simd, *row, lhs, first),
                2 => self.tile::<S, 2, V>(simd, *row, lhs, first),
                _ => self.tile::<S, 1, V>(simd, *row, lhs, first),
            }
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const G: usize, const V: usize>(&self, simd: S, row: usize, lhs: &[T], first: usize) {
        let width = V * T::lanes::<S>();
        let mut sums = [[T::many_zero(simd); V]; G];
        for (k, factors) in lhs.as_chunks::<G>().0.iter().enumerate() {
            let (line, _) = T::split::<S>(&self.rhs[k * self.rhs_step + first..][..width]);
            let line: [T::Many<S>; V] = std::array::from_fn(|v| line[v]);
            for (sums, &factor) in sums.iter_mut().zip(factors) {
                let factor = T::splat(simd, factor);
                (0..V).for_each(|v| sums[v] = T::fused(simd, factor, line[v], sums[v]));
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            for (v, &sum) in sums.iter().enumerate() {
                // SAFETY: these columns of this row are in the place that `new` was given.
                unsafe {
                    let place = self.into.add((row + i) * self.step + first).cast::<T::Many<S>>().add(v);
                    let sum = if self.add { T::plus(simd, place.read_unaligned(), sum) } else { sum };
                    place.write_unaligned(sum);
                }
            }
        }
    }
}

impl<T: Real> WithSimd for FewRows<'_, T> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        let lanes = T::lanes::<S>();
        let (mut at, whole) = (0, self.columns / lanes * lanes);
        while at < whole {
            let most = if S::REGISTER_COUNT < REGISTERS { VECTORS / 2 } else { VECTORS };
            let vectors = most.min((whole - at) / lanes);
            let count = [VECTORS, 2, 1].into_iter().find(|count| *count <= vectors).unwrap_or(1);
            match count {
                VECTORS => self.panel::<S, VECTORS>(simd, at),
                2 => self.panel::<S, 2>(simd, at),
                _ => self.panel::<S, 1>(simd, at),
            }
            at += count * lanes;
        }
        whole
    }
}
