//! Eigenvalues and eigenvectors of Hermitian matrices.

use faer::{Mat, MatRef, Side};

use super::field::Field;
use super::{is_finite, nan};

/// `[values, vectors]` of a Hermitian matrix, of which only the lower triangle is read: values as a column, vectors as
/// the columns of a matrix.
///
/// As `Nx.LinAlg.eigh/2` has it, values stand in the order of their distance from 0, the furthest first; of two that
/// are equally far, the negative one stands first. Vectors are turned by [`orient`].
pub(super) fn eigh<F: Field>(a: MatRef<'_, F>) -> Vec<Mat<F>> {
    let n = a.nrows();
    let decomposed = is_finite(a).then(|| a.self_adjoint_eigen(Side::Lower).ok()).flatten();
    let Some(eigen) = decomposed else { return vec![nan(n, 1), nan(n, n)] };
    let value = |i: usize| eigen.S().column_vector()[i];
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| value(j).magnitude().total_cmp(&value(i).magnitude()));
    let mut vectors = Mat::from_fn(n, n, |i, j| eigen.U()[(i, order[j])]);
    for j in 0..n {
        let phase = orientation(vectors.as_ref(), j);
        (0..n).for_each(|i| vectors[(i, j)] *= phase);
    }
    vec![Mat::from_fn(n, 1, |i, _| F::of(value(order[i]).re())), vectors]
}

/// The number of magnitude 1 that makes the largest element of a column real and positive when multiplied with it; of
/// elements that are equally large but for rounding, the first.
///
/// A vector and its negative are both right. Nx finds vectors by Jacobi rotations of the unit vectors, none by more than
/// an eighth of a circle, which tends to leave the largest element positive; so this agrees with its sign, mostly.
pub(super) fn orientation<F: Field>(vectors: MatRef<'_, F>, column: usize) -> F {
    const ALMOST: f64 = 1.0 - 1e-6;
    let column = || (0..vectors.nrows()).map(|i| vectors[(i, column)]);
    let largest = column().map(|x| x.magnitude()).fold(0.0, f64::max);
    column().find(|x| x.magnitude() >= largest * ALMOST).map_or(F::one(), |x| x.phase().conjugate())
}
