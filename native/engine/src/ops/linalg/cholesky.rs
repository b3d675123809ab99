//! Cholesky decomposition.

use faer::{Mat, MatRef, Side};

use super::field::Field;
use super::nan;

/// The lower triangular `l` with `a = l l*`, of which only the lower triangle is read; zero above the diagonal.
///
/// A matrix that is not positive definite has no such factor: the answer is NaN on and below the diagonal, so that one
/// bad matrix does not take a batch or a loop down.
pub(super) fn cholesky<F: Field>(a: MatRef<'_, F>) -> Mat<F> {
    let n = a.nrows();
    match a.llt(Side::Lower) {
        Ok(llt) => lower(llt.L()),
        Err(_) => lower(nan(n, n).as_ref()),
    }
}

/// The lower triangle alone.
pub(super) fn lower<F: Field>(a: MatRef<'_, F>) -> Mat<F> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| if i >= j { a[(i, j)] } else { F::zero() })
}
