//! Triangular systems.

use faer::{Mat, MatRef, get_global_parallelism};

use super::field::Field;
use super::{Failure, SMALL};

/// The `x` with `a x = b` for a square `a` of which only the lower or the upper triangle is read.
///
/// Small systems are solved by substitution in the order of `Nx.BinaryBackend`, so that sums round alike.
///
/// # Errors
///
/// [`Failure::Singular`] for a zero on the diagonal, [`Failure::Unfit`] for a `b` of other rows.
pub(super) fn solve<F: Field>(a: MatRef<'_, F>, lower: bool, b: Mat<F>) -> Result<Mat<F>, Failure> {
    if a.nrows() != b.nrows() {
        return Err(Failure::Unfit);
    }
    if (0..a.nrows()).any(|i| a[(i, i)].is_zero()) {
        return Err(Failure::Singular);
    }
    let mut x = b;
    if a.nrows() <= SMALL {
        substitute(a, lower, &mut x);
    } else if lower {
        faer::linalg::triangular_solve::solve_lower_triangular_in_place(a, x.as_mut(), get_global_parallelism());
    } else {
        faer::linalg::triangular_solve::solve_upper_triangular_in_place(a, x.as_mut(), get_global_parallelism());
    }
    Ok(x)
}

fn substitute<F: Field>(a: MatRef<'_, F>, lower: bool, x: &mut Mat<F>) {
    let n = a.nrows();
    // The unknowns in the order in which they become known.
    let order: Vec<usize> = if lower { (0..n).collect() } else { (0..n).rev().collect() };
    for column in 0..x.ncols() {
        for (known, &i) in order.iter().enumerate() {
            let sum = order[..known].iter().fold(F::zero(), |sum, &k| a[(i, k)] * x[(k, column)] + sum);
            x[(i, column)] = (x[(i, column)] - sum).over(a[(i, i)]);
        }
    }
}
