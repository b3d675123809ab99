//! Products of matrices that are parts of larger ones.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use gemm::Parallelism;
use num_traits::Float;

use super::block::vectorized;
use super::few_rows::FewRows;
use super::meet::meet;
use super::vectors::Vectors;
use crate::cpu::Number;

/// A float that `gemm` multiplies matrices of.
pub(crate) trait Real: Number + Float + Vectors {}

impl Real for f32 {}

impl Real for f64 {}

/// A matrix inside of a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<'a, T> {
    elements: &'a [T],
    start: usize,
    rows: usize,
    columns: usize,
    row_step: isize,
    column_step: isize,
}

impl<'a, T> Matrix<'a, T> {
    /// The first `columns` elements of `rows` rows that lie `step` elements apart.
    ///
    /// # Panics
    ///
    /// When `elements` are too few.
    pub(super) fn new(elements: &'a [T], rows: usize, columns: usize, step: usize) -> Self {
        Self::strided(elements, 0, [rows, columns], [step as isize, 1])
    }

    /// The matrix of a shape whose first element is number `start`, and whose rows and columns lie these steps apart.
    ///
    /// # Panics
    ///
    /// When `elements` are too few.
    pub(super) fn strided(
        elements: &'a [T],
        start: usize,
        [rows, columns]: [usize; 2],
        [row_step, column_step]: [isize; 2],
    ) -> Self {
        let ends = [(rows, row_step), (columns, column_step)].map(|(count, step)| {
            let last = isize::try_from(count.saturating_sub(1)).ok()?;
            last.checked_mul(step)
        });
        let inside =
            |at: Option<isize>| at.and_then(|at| start.checked_add_signed(at)).is_some_and(|at| at < elements.len());
        let corners = [Some(0), ends[0], ends[1], ends[0].zip(ends[1]).and_then(|(a, b)| a.checked_add(b))];
        assert!(rows == 0 || columns == 0 || corners.into_iter().all(inside), "a matrix needs more elements");
        // Rows of one element are lines of memory.
        let column_step = if columns == 1 { 1 } else { column_step };
        Self { elements, start, rows, columns, row_step, column_step }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes from a row to the next.
    pub(super) fn row_bytes(&self) -> isize {
        self.row_step * size_of::<T>() as isize
    }

    /// Whether rows are lines of memory.
    pub(super) fn is_in_rows(&self) -> bool {
        self.column_step == 1
    }

    /// `count` columns from column `first` on.
    pub(super) fn across(self, first: usize, count: usize) -> Self {
        let start = self.start.wrapping_add_signed(self.column_step * first as isize);
        Self::strided(self.elements, start, [self.rows, count], [self.row_step, self.column_step])
    }

    /// The elements of a row whose columns are neighbours in memory.
    #[inline(always)]
    pub(super) fn row(&self, number: usize) -> Option<&'a [T]> {
        let start = self.start.wrapping_add_signed(self.row_step * number as isize);
        if self.column_step == 1 { self.elements.get(start..start + self.columns) } else { None }
    }

    /// Where an element lies.
    ///
    /// # Safety
    ///
    /// The matrix has this row and this column.
    #[inline(always)]
    pub(super) unsafe fn at(&self, row: usize, column: usize) -> *const T {
        let offset = self.row_step * row as isize + self.column_step * column as isize;
        // SAFETY: each element is inside of the slice, which `strided` has checked.
        unsafe { self.elements.as_ptr().add(self.start).offset(offset) }
    }

    pub(super) fn transposed(self) -> Self {
        let Self { elements, start, rows, columns, row_step, column_step } = self;
        Self { elements, start, rows: columns, columns: rows, row_step: column_step, column_step: row_step }
    }

    /// `count` rows from row `first` on.
    pub(super) fn part(self, first: usize, count: usize) -> Self {
        let start = self.start.wrapping_add_signed(self.row_step * first as isize);
        Self::strided(self.elements, start, [count, self.columns], [self.row_step, self.column_step])
    }
}

/// Writes `lhs * rhs` to `into`, whose rows lie `step` elements apart; with `add`, adds it to what is there.
///
/// # Panics
///
/// When the matrices do not fit together.
pub(super) fn multiply<T: Real>(into: &mut [T], step: usize, lhs: Matrix<'_, T>, rhs: Matrix<'_, T>, add: bool) {
    let target = Target::new(into, lhs.rows, rhs.columns, step);
    // SAFETY: the target is all there is.
    unsafe { target.write(0, lhs, rhs, add) };
}

/// A place for a product, parts of which many threads write.
pub(super) struct Target<'a, T> {
    start: *mut T,
    rows: usize,
    columns: usize,
    step: usize,
    elements: PhantomData<&'a mut [T]>,
}

// SAFETY: `write` asks its caller to see to it that parts written at one time do not overlap.
unsafe impl<T: Send> Sync for Target<'_, T> {}

impl<'a, T: Real> Target<'a, T> {
    /// A place for `rows` rows of `columns` elements that lie `step` elements apart.
    ///
    /// # Panics
    ///
    /// When `into` is too short.
    pub(super) fn new(into: &'a mut [T], rows: usize, columns: usize, step: usize) -> Self {
        assert!(columns <= step, "a product needs longer rows");
        Matrix::new(into, rows, columns, step);
        Self { start: into.as_mut_ptr(), rows, columns, step, elements: PhantomData }
    }

    /// A place for `rows` whole rows of `columns` elements in memory that nobody has written yet.
    ///
    /// # Panics
    ///
    /// When `into` is too short.
    pub(super) fn fresh(into: &'a mut [MaybeUninit<T>], rows: usize, columns: usize) -> Self {
        assert!(rows * columns <= into.len(), "a product needs more memory");
        Self { start: into.as_mut_ptr().cast(), rows, columns, step: columns, elements: PhantomData }
    }

    /// Writes `lhs * rhs` to the columns from column `first` on; with `add`, adds it to what is there.
    ///
    /// # Panics
    ///
    /// When the matrices do not fit.
    ///
    /// # Safety
    ///
    /// No other thread writes to these columns at the same time. With `add`, they are written already.
    pub(super) unsafe fn write(&self, first: usize, lhs: Matrix<'_, T>, rhs: Matrix<'_, T>, add: bool) {
        assert!(lhs.columns == rhs.rows, "the inner lengths of a product differ");
        assert!(lhs.rows == self.rows && first + rhs.columns <= self.columns, "a product is larger than its place");
        if lhs.rows == 0 || rhs.columns == 0 {
            return;
        }
        let is_wide = rhs.columns > NARROW || !lhs.is_in_rows();
        let is_one = lhs.rows == 1 && rhs.is_in_rows() && is_wide;
        let meets = rhs.row_step == 1 && lhs.column_step == 1 && !rhs.is_in_rows();
        if lhs.columns > 0 && (is_one || meets && lhs.rows < ORDERED_ROWS) {
            let by_row = if is_one { combine_rows } else { meet_columns };
            for number in 0..lhs.rows {
                let start = number * self.step + first;
                if !add {
                    // SAFETY: as the caller's promise.
                    unsafe { self.clear(start, rhs.columns) };
                }
                // SAFETY: the target holds this row, which nobody else writes to, and it is written.
                let row = unsafe { std::slice::from_raw_parts_mut(self.start.add(start), rhs.columns) };
                by_row(row, lhs.part(number, 1), rhs);
            }
            return;
        }
        let (has_few_terms, mut done) = (lhs.columns <= FEW_TERMS, 0);
        if (lhs.rows < GEMM_ROWS || has_few_terms) && FewRows::fits(&lhs, &rhs) {
            for row in (0..lhs.rows).step_by(GEMM_ROWS) {
                let part = lhs.part(row, GEMM_ROWS.min(lhs.rows - row));
                // SAFETY: the target holds rows of so many columns from the first on, which nobody else writes to.
                done =
                    unsafe { FewRows::new(part, rhs, self.start.add(row * self.step + first), self.step, add).run() };
            }
        }
        if done == rhs.columns {
            return;
        }
        let (first, rhs) = (first + done, rhs.across(done, rhs.columns - done));
        // Of these, `gemm` writes the first product as it is, and a sum of negative zeros would be negative.
        let must_clear = !add && (has_few_terms || lhs.rows == 1 || rhs.columns == 1);
        if must_clear {
            // SAFETY: as the caller's promise.
            (0..lhs.rows).for_each(|number| unsafe { self.clear(number * self.step + first, rhs.columns) });
        }
        // SAFETY: as the caller's promise, and what is added to is written.
        unsafe { self.write_by_gemm(first, lhs, rhs, add || must_clear) };
    }

    /// Writes zeros to `count` elements from element `start` on.
    ///
    /// # Safety
    ///
    /// The target holds these elements, which no other thread writes to at the same time.
    unsafe fn clear(&self, start: usize, count: usize) {
        // SAFETY: as the caller's promise.
        (0..count).for_each(|i| unsafe { self.start.add(start + i).write(T::zero()) });
    }

    /// Writes the sum of `lhs * rhs` and `addends`, whose columns fill vectors, to the columns from column `first` on.
    ///
    /// # Panics
    ///
    /// When the matrices do not fit.
    ///
    /// # Safety
    ///
    /// No other thread writes to these columns at the same time.
    pub(super) unsafe fn write_onto(
        &self,
        first: usize,
        lhs: Matrix<'_, T>,
        rhs: Matrix<'_, T>,
        addends: &[Matrix<'_, T>],
    ) {
        assert!(FewRows::fits(&lhs, &rhs), "rows of a product of few are lines of memory");
        assert!(lhs.rows == self.rows && first + rhs.columns <= self.columns, "a product is larger than its place");
        // SAFETY: the target holds rows of so many columns from the first on, which nobody else writes to.
        let done = unsafe { FewRows::new(lhs, rhs, self.start.add(first), self.step, false).with(addends).run() };
        assert!(done == rhs.columns, "columns of such a product fill vectors");
    }

    /// [`Target::write`] by `gemm`.
    ///
    /// # Safety
    ///
    /// As for [`Target::write`], which has checked the sizes.
    unsafe fn write_by_gemm(&self, first: usize, lhs: Matrix<'_, T>, rhs: Matrix<'_, T>, add: bool) {
        let alpha = if add { T::one() } else { T::zero() };
        // SAFETY: `Matrix` and the assertions above make sure that each matrix lies inside of its slice, and the target
        // inside of its own; it is borrowed mutably, so it overlaps with no other, and its rows do not overlap because
        // `step` is at least their length. `Real` is implemented for types that `gemm` knows, with its layout.
        unsafe {
            gemm::gemm(
                lhs.rows,
                rhs.columns,
                lhs.columns,
                self.start.add(first),
                1,
                self.step as isize,
                add,
                lhs.elements.as_ptr().add(lhs.start),
                lhs.column_step,
                lhs.row_step,
                rhs.elements.as_ptr().add(rhs.start),
                rhs.column_step,
                rhs.row_step,
                alpha,
                T::one(),
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }
}

/// Rows from which on it is worth to bring a matrix whose columns are lines of memory in order.
pub(super) const ORDERED_ROWS: usize = 8;

/// Rows from which on `gemm` is as fast or faster than [`FewRows`].
pub(crate) const GEMM_ROWS: usize = 64;

/// Terms up to which [`FewRows`] multiplies any number of rows, some at a time: `gemm` does not start from 0 then.
const FEW_TERMS: usize = 2;

/// Rows that are added at a time where they are short, so that the sums are read and written less often.
const SHORT_STREAMS: usize = 8;

/// Rows that are added at a time where they are long: memory comes fastest in the order in which it lies.
const LONG_STREAMS: usize = 2;

/// Elements of a long row.
const LONG: usize = 512;

/// Columns up to which the sums of a row stay in registers: see [`FewRows`].
const NARROW: usize = 128;

/// Adds the product of one row and a matrix whose rows are lines of memory, each of which is read once, in order.
fn combine_rows<T: Real>(into: &mut [T], lhs: Matrix<'_, T>, rhs: Matrix<'_, T>) {
    vectorized(
        #[inline(always)]
        || match into.len() {
            ..LONG => combine::<T, SHORT_STREAMS>(into, lhs, rhs),
            _ => combine::<T, LONG_STREAMS>(into, lhs, rhs),
        },
    );
}

#[inline(always)]
fn combine<T: Real, const STREAMS: usize>(into: &mut [T], lhs: Matrix<'_, T>, rhs: Matrix<'_, T>) {
    let factor = |i: usize| lhs.elements[lhs.start.wrapping_add_signed(lhs.column_step * i as isize)];
    let row = |i: usize| rhs.row(i).unwrap_or_default();
    let whole = rhs.rows / STREAMS * STREAMS;
    for first in (0..whole).step_by(STREAMS) {
        add_rows::<T, STREAMS>(
            into,
            std::array::from_fn(|k| row(first + k)),
            std::array::from_fn(|k| factor(first + k)),
        );
    }
    for number in whole..rhs.rows {
        let (row, factor) = (row(number), factor(number));
        into.iter_mut().zip(row).for_each(|(sum, &x)| *sum = x.mul_add(factor, *sum));
    }
}

#[inline(always)]
fn add_rows<T: Real, const STREAMS: usize>(into: &mut [T], rows: [&[T]; STREAMS], factors: [T; STREAMS]) {
    let rows = rows.map(|row| &row[..into.len()]);
    for i in 0..into.len() {
        // Two sums, so that no addition waits for all others.
        let half = STREAMS / 2;
        let (mut first, mut second) = (rows[0][i] * factors[0], rows[half][i] * factors[half]);
        for k in 1..half {
            first = rows[k][i].mul_add(factors[k], first);
            second = rows[half + k][i].mul_add(factors[half + k], second);
        }
        into[i] = into[i] + (first + second);
    }
}

/// Adds the product of one row, which is a line of memory, and a matrix whose columns are.
fn meet_columns<T: Real>(into: &mut [T], lhs: Matrix<'_, T>, rhs: Matrix<'_, T>) {
    let Some(row) = lhs.row(0) else { return };
    let column = rhs.transposed();
    meet(row, &|number| column.row(number).unwrap_or_default(), into);
}
