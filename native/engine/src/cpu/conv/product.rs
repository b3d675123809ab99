//! Products of matrices that are parts of larger ones.

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
    rows: usize,
    columns: usize,
    row_step: usize,
    column_step: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// The first `columns` elements of `rows` rows that lie `step` elements apart.
    ///
    /// # Panics
    ///
    /// When `elements` are too few.
    pub(super) fn new(elements: &'a [T], rows: usize, columns: usize, step: usize) -> Self {
        assert!(holds(elements, rows, columns, step), "a matrix needs more elements");
        Self { elements, rows, columns, row_step: step, column_step: 1 }
    }

    pub(super) fn transposed(self) -> Self {
        let Self { elements, rows, columns, row_step, column_step } = self;
        Self { elements, rows: columns, columns: rows, row_step: column_step, column_step: row_step }
    }
}

fn holds<T>(elements: &[T], rows: usize, columns: usize, step: usize) -> bool {
    let last = |count: usize| count.checked_sub(1);
    match (last(rows), last(columns)) {
        (Some(row), Some(column)) => {
            row.checked_mul(step).and_then(|at| at.checked_add(column)).is_some_and(|at| at < elements.len())
        }
        _ => true,
    }
}

/// Writes `lhs * rhs` to `into`, whose rows lie `step` elements apart; with `add`, adds it to what is there.
///
/// # Panics
///
/// When the matrices do not fit together.
pub(super) fn multiply<T: Real>(into: &mut [T], step: usize, lhs: Matrix<'_, T>, rhs: Matrix<'_, T>, add: bool) {
    assert!(lhs.columns == rhs.rows, "the inner lengths of a product differ");
    assert!(rhs.columns <= step && holds(into, lhs.rows, rhs.columns, step), "a product needs more room");
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
            lhs.elements.as_ptr(),
            lhs.column_step as isize,
            lhs.row_step as isize,
            rhs.elements.as_ptr(),
            rhs.column_step as isize,
            rhs.row_step as isize,
            alpha,
            T::one(),
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
