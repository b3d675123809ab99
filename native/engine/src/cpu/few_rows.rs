//! Products of few rows by a matrix that lies in rows. `gemm` would bring the matrix in order first, which takes as long as
//! such a product.

use std::marker::PhantomData;

use pulp::{Simd, WithSimd};

use super::product::{Matrix, Real};

/// Rows of a tile, and most vectors in each: their sums, a row of the matrix and a factor fill the registers of AVX-512 and
/// NEON.
const ROWS: usize = 6;
const VECTORS: usize = 4;

/// Registers that a processor has for that.
const REGISTERS: usize = 32;

/// Few rows and a matrix, and where their product goes.
pub(super) struct FewRows<'a, T> {
    lhs: Matrix<'a, T>,
    rhs: Matrix<'a, T>,
    into: *mut T,
    step: usize,
    add: bool,
    target: PhantomData<&'a mut [T]>,
}

impl<'a, T: Real> FewRows<'a, T> {
    /// Whether these matrices lie as [`FewRows::run`] reads them.
    pub(super) fn fits(lhs: &Matrix<'_, T>, rhs: &Matrix<'_, T>) -> bool {
        lhs.columns() > 0 && lhs.is_in_rows() && rhs.is_in_rows()
    }

    /// The product of matrices for which [`FewRows::fits`] holds; with `add`, it is added to what is there.
    ///
    /// # Safety
    ///
    /// From `into` on, there is a row for each of `lhs`, `step` apart, with an element for each column of `rhs`, that nobody
    /// else writes to; with `add`, they are written already.
    pub(super) unsafe fn new(lhs: Matrix<'a, T>, rhs: Matrix<'a, T>, into: *mut T, step: usize, add: bool) -> Self {
        Self { lhs, rhs, into, step, add, target: PhantomData }
    }

    /// Computes the product; answers how many columns there are of it: a multiple of the processor's vectors.
    pub(super) fn run(self) -> usize {
        pulp::Arch::new().dispatch(self)
    }

    /// The columns from `first` on, in `V` vectors.
    #[inline(always)]
    fn panel<S: Simd, const V: usize>(&self, simd: S, first: usize) {
        let (rows, mut row) = (self.lhs.rows(), 0);
        while row + ROWS <= rows {
            self.tile::<S, ROWS, V>(simd, row, first);
            row += ROWS;
        }
        if row + 4 <= rows {
            self.tile::<S, 4, V>(simd, row, first);
            row += 4;
        }
        if row + 2 <= rows {
            self.tile::<S, 2, V>(simd, row, first);
            row += 2;
        }
        if row < rows {
            self.tile::<S, 1, V>(simd, row, first);
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const G: usize, const V: usize>(&self, simd: S, row: usize, first: usize) {
        let (inner, width) = (self.lhs.columns(), V * T::lanes::<S>());
        let rows: [&[T]; G] = std::array::from_fn(|i| &self.lhs.row(row + i).unwrap_or_default()[..inner]);
        let mut sums = [[T::many_zero(simd); V]; G];
        for k in 0..inner {
            let (line, _) = T::split::<S>(&self.rhs.row(k).unwrap_or_default()[first..][..width]);
            let line: [T::Many<S>; V] = std::array::from_fn(|v| line[v]);
            for (sums, row) in sums.iter_mut().zip(&rows) {
                let factor = T::splat(simd, row[k]);
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
        let (mut at, whole) = (0, self.rhs.columns() / lanes * lanes);
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
