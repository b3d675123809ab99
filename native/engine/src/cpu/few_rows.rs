//! Products of few rows by a matrix that lies in rows. `gemm` would bring the matrix in order first, which takes as long as
//! such a product.

use std::marker::PhantomData;

use pulp::{Simd, WithSimd};

use super::ahead::{LINE, prefetch};
use super::product::{Matrix, Real};

/// Registers of AVX-512 and NEON. The sums of a tile of 8 rows and 3 vectors, a row of the matrix and a factor fit in; other
/// processors have half of them.
const REGISTERS: usize = 32;

/// Rows of a matrix so far apart, or a multiple of it, have their elements of a column in the same few places of a cache.
const CLASH: usize = 4096;

/// Few rows and a matrix, and where their product goes.
pub(super) struct FewRows<'a, T> {
    lhs: Matrix<'a, T>,
    rhs: Matrix<'a, T>,
    into: *mut T,
    step: usize,
    add: bool,
    addends: &'a [Matrix<'a, T>],
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
        assert!(lhs.columns() == rhs.rows(), "the inner lengths of a product differ");
        Self { lhs, rhs, into, step, add, addends: &[], target: PhantomData }
    }

    /// With matrices as large as the product, whose rows are lines of memory, that are added to it.
    pub(super) fn with(self, addends: &'a [Matrix<'a, T>]) -> Self {
        let fits =
            |a: &Matrix<'_, T>| a.is_in_rows() && [a.rows(), a.columns()] == [self.lhs.rows(), self.rhs.columns()];
        assert!(addends.iter().all(fits), "what is added to a product is of its shape");
        Self { addends, ..self }
    }

    /// Computes the product; answers how many columns there are of it: a multiple of the processor's vectors.
    pub(super) fn run(self) -> usize {
        pulp::Arch::new().dispatch(self)
    }

    /// All columns that fill vectors, `V` vectors (2 or 3) at a time, in tiles of `G` rows; answers how many these are.
    #[inline(always)]
    fn panels<S: Simd, const G: usize, const V: usize>(&self, simd: S) -> usize {
        let lanes = T::lanes::<S>();
        let (mut first, whole) = (0, self.rhs.columns() / lanes * lanes);
        let mut copy = self.room::<G>(V * lanes);
        while first + V * lanes <= whole {
            self.panel::<S, G, V>(simd, first, &mut copy);
            first += V * lanes;
        }
        if first + 2 * lanes <= whole {
            self.panel::<S, G, 2>(simd, first, &mut copy);
            first += 2 * lanes;
        }
        if first < whole {
            self.panel::<S, G, 1>(simd, first, &mut copy);
        }
        whole
    }

    /// Room for a copy of `width` columns, where many tiles would find them clash in the cache.
    fn room<const G: usize>(&self, width: usize) -> Vec<T> {
        let clashes = (self.rhs.row_bytes() as usize).is_multiple_of(CLASH);
        if clashes && self.lhs.rows() > G { vec![T::zero(); self.lhs.columns() * width] } else { vec![] }
    }

    /// The columns from `first` on, in `V` vectors, which are copied first if there is room for it.
    #[inline(always)]
    fn panel<S: Simd, const G: usize, const V: usize>(&self, simd: S, first: usize, copy: &mut [T]) {
        let width = V * T::lanes::<S>();
        let columns = self.rhs.across(first, width);
        if copy.is_empty() {
            return self.tiles::<S, G, V>(simd, first, columns);
        }
        for (k, line) in copy.chunks_exact_mut(width).take(columns.rows()).enumerate() {
            line.copy_from_slice(columns.row(k).unwrap_or_default());
        }
        self.tiles::<S, G, V>(simd, first, Matrix::new(copy, columns.rows(), width, width));
    }

    #[inline(always)]
    fn tiles<S: Simd, const G: usize, const V: usize>(&self, simd: S, first: usize, columns: Matrix<'_, T>) {
        let (rows, mut row) = (self.lhs.rows(), 0);
        while row + G <= rows {
            self.tile::<S, G, V>(simd, row, first, columns);
            row += G;
        }
        while row + 4 <= rows {
            self.tile::<S, 4, V>(simd, row, first, columns);
            row += 4;
        }
        if row + 2 <= rows {
            self.tile::<S, 2, V>(simd, row, first, columns);
            row += 2;
        }
        if row < rows {
            self.tile::<S, 1, V>(simd, row, first, columns);
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const G: usize, const V: usize>(&self, simd: S, row: usize, first: usize, columns: Matrix<'_, T>) {
        let (inner, lhs) = (self.lhs.columns(), self.lhs.part(row, G));
        let mut sums = [[T::many_zero(simd); V]; G];
        for addend in self.addends {
            for (i, sums) in sums.iter_mut().enumerate() {
                // SAFETY: each addend has these rows and columns, as `with` has checked.
                let line = unsafe { addend.at(row + i, first).cast::<[T::Many<S>; V]>().read_unaligned() };
                (0..V).for_each(|v| sums[v] = T::plus(simd, sums[v], line[v]));
            }
        }
        let parts = if self.addends.is_empty() { 1 } else { G };
        let part = inner.div_ceil(parts);
        for next in 0..parts {
            self.ask::<G>(row, next, first, V * T::lanes::<S>());
            for k in next * part..inner.min((next + 1) * part) {
                // SAFETY: `columns` has a row for each of `inner` columns of `lhs`, with `V` vectors of neighbours.
                let line = unsafe { columns.at(k, 0).cast::<[T::Many<S>; V]>().read_unaligned() };
                for (i, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: `lhs` has `G` rows of `inner` columns.
                    let factor = T::splat(simd, unsafe { *lhs.at(i, k) });
                    (0..V).for_each(|v| sums[v] = T::fused(simd, factor, line[v], sums[v]));
                }
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

impl<T: Real> FewRows<'_, T> {
    /// Asks for what row `next` of the tile behind this one starts from, which often comes from far: the rows below, or the next
    /// columns. All rows at once would be more than the first cache waits for at a time.
    #[inline(always)]
    fn ask<const G: usize>(&self, row: usize, next: usize, first: usize, width: usize) {
        let (row, first) = if row + G < self.lhs.rows() { (row + G, first) } else { (0, first + width) };
        for addend in self.addends.iter().filter(|addend| addend.row_bytes() != 0) {
            if row + next < self.lhs.rows()
                && let Some(line) = addend.row(row + next).and_then(|line| line.get(first..))
            {
                let lines = line.chunks(LINE / size_of::<T>()).take((width * size_of::<T>()).div_ceil(LINE));
                lines.for_each(|line| prefetch(line.as_ptr().cast()));
            }
        }
    }
}

impl<T: Real> WithSimd for FewRows<'_, T> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        if S::REGISTER_COUNT < REGISTERS { self.panels::<S, 6, 2>(simd) } else { self.panels::<S, 8, 3>(simd) }
    }
}
