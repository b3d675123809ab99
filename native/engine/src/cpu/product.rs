//! Products of matrices that are parts of larger ones.

use gemm::Parallelism;
use num_traits::Float;

use crate::cpu::Number;

/// A float that `gemm` multiplies matrices of.
pub(crate) trait Real: Number + Float {}

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
        Self { elements, start, rows, columns, row_step, column_step }
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
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
    multiply_on(into, step, lhs, rhs, add, Parallelism::None);
}

/// [`multiply`] on one core or on all.
///
/// # Panics
///
/// When the matrices do not fit together.
pub(super) fn multiply_on<T: Real>(
    into: &mut [T],
    step: usize,
    lhs: Matrix<'_, T>,
    rhs: Matrix<'_, T>,
    add: bool,
    cores: Parallelism,
) {
    assert!(lhs.columns == rhs.rows, "the inner lengths of a product differ");
    assert!(rhs.columns <= step, "a product needs longer rows");
    Matrix::new(into, lhs.rows, rhs.columns, step);
    if lhs.rows == 0 || rhs.columns == 0 {
        return;
    }
    let alpha = if add { T::one() } else { T::zero() };
    // SAFETY: `Matrix` and the assertion above make sure that each matrix lies inside of its slice; `into` is borrowed
    // mutably, so it overlaps with no other, and its rows do not overlap because `step` is at least their length. `Real`
    // is implemented for types that `gemm` knows, with its layout.
    unsafe {
        gemm::gemm(
            lhs.rows,
            rhs.columns,
            lhs.columns,
            into.as_mut_ptr(),
            1,
            step as isize,
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
            cores,
        );
    }
}
