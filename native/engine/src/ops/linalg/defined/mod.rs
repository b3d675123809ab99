//! Nx's own definitions of the decompositions, step by step, for matrices that people check by hand.
//!
//! Nx defines each decomposition as a `defn`, whose every step on an `f32` tensor rounds to `f32`. Followed here in the
//! same order and with the same rounding, they give the digits that Nx's documentation and its other backends' users
//! see. Larger matrices, `f64` and complex ones need speed and accuracy, which these definitions lack.
//!
//! The definitions of eigenvalues and singular values have fixed thresholds, and all square what they compute with. Where
//! that makes them miss the right answer, it stands instead. Vectors of singular values of 0 are not looked at: there
//! the definition answers less than a vector of length 1, and Nx's own tests expect that.

mod cholesky;
mod eigh;
mod matrix;
mod polar;
mod qr;
mod svd;

use faer::{Mat, MatRef};

use super::lu::{Lu, determinant};
use super::{Failure, SINGLE, decompose};
use crate::program::{Eigh, Linalg, Qr, Svd};

/// Matrices with more rows or columns are not computed by definition.
const LARGEST: usize = 5;

/// Rounds to `f32`, as each step of a definition does.
fn round(x: f64) -> f64 {
    f64::from(x as f32)
}

/// The results of `op` on real matrices of `f32`, by definition where that is possible and right.
///
/// # Errors
///
/// As [`decompose`].
pub(super) fn decompose_f32(op: &Linalg, operands: &[MatRef<'_, f64>]) -> Result<Vec<Mat<f64>>, Failure> {
    let a = operands[0];
    if a.nrows().max(a.ncols()) > LARGEST || !super::is_finite(a) {
        return decompose(op, operands, SINGLE);
    }
    match op {
        Linalg::Cholesky => cholesky(a).map_or_else(|| decompose(op, operands, SINGLE), Ok),
        Linalg::Determinant => Ok(vec![Mat::from_fn(1, 1, |_, _| determinant(a, round))]),
        Linalg::Lu => Ok(Lu::by_columns(a, round).factors().into()),
        Linalg::Solve => Ok(vec![Lu::by_columns(a, round).solve(operands[1], round)?]),
        Linalg::Qr(attrs) => qr(a, attrs).map_or_else(|| decompose(op, operands, SINGLE), Ok),
        // Definitions for matrices of two rows and more.
        Linalg::Eigh(attrs) if a.nrows() > 1 => Ok(eigh(decompose(op, operands, SINGLE)?, a, attrs)),
        Linalg::Svd(attrs) if a.nrows().min(a.ncols()) > 1 => Ok(svd(decompose(op, operands, SINGLE)?, a, attrs)),
        Linalg::Eigh(_) | Linalg::Svd(_) => decompose(op, operands, SINGLE),
    }
}

/// How far the product of factors may be from the matrix.
const PRODUCT_TOLERANCE: f64 = 1e-6;

/// Whether `product` is `a`, from the diagonal down. A NaN in it is not.
fn restores_lower(product: &Mat<f64>, a: MatRef<'_, f64>) -> bool {
    let off = PRODUCT_TOLERANCE * a.norm_max();
    (0..a.ncols()).all(|j| (j..a.nrows()).all(|i| (product[(i, j)] - a[(i, j)]).abs() <= off))
}

/// `None` where the definition misses the matrix: it adds a threshold to what it divides by, and takes what is below it for
/// 0, which is much where all elements are small.
fn cholesky(a: MatRef<'_, f64>) -> Option<Vec<Mat<f64>>> {
    let l = cholesky::cholesky(a);
    let right = l.has_nan() || restores_lower(&(&l * l.transpose()), a);
    right.then(|| vec![l])
}

/// `None` where the definition misses the matrix: it subtracts squares, of which no digit is left when a column is almost
/// on its axis, and which `f32` can't hold when elements are large.
fn qr(a: MatRef<'_, f64>, attrs: &Qr) -> Option<Vec<Mat<f64>>> {
    let [q, r] = qr::qr(a, attrs.mode, round(attrs.eps));
    // The definition of singular values counts on what rounding has left below the diagonal; nobody else does.
    let r = Mat::from_fn(r.nrows(), r.ncols(), |i, j| if i <= j { r[(i, j)] } else { 0.0 });
    let off = &q * &r - a;
    let right = !off.has_nan() && off.norm_max() <= PRODUCT_TOLERANCE * a.norm_max();
    right.then(|| vec![q, r])
}

/// How far a definition may be from the right answer.
const TOLERANCE: f64 = 1e-4;

fn eigh(accurate: Vec<Mat<f64>>, a: MatRef<'_, f64>, attrs: &Eigh) -> Vec<Mat<f64>> {
    let [values, vectors] = eigh::eigh(a, attrs.max_iter, round(attrs.eps));
    let right = are_close(&values, &accurate[0]) && are_orthonormal(vectors.as_ref(), &values);
    if right { vec![values, vectors] } else { accurate }
}

fn svd(accurate: Vec<Mat<f64>>, a: MatRef<'_, f64>, attrs: &Svd) -> Vec<Mat<f64>> {
    let [u, s, vt] = svd::svd(a, attrs);
    let right = are_close(&s, &accurate[1]) && are_orthonormal(u.as_ref(), &s) && are_orthonormal(vt.transpose(), &s);
    if right { vec![u, s, vt] } else { accurate }
}

/// Whether values differ by little, compared to the largest; no values do when all are 0, of which definitions make NaN.
fn are_close(values: &Mat<f64>, accurate: &Mat<f64>) -> bool {
    let largest = accurate.norm_max();
    largest > 0.0 && (0..values.nrows()).all(|i| (values[(i, 0)] - accurate[(i, 0)]).abs() <= TOLERANCE * largest)
}

/// Whether the vectors of values above 0 have length 1 and right angles between them.
fn are_orthonormal(vectors: MatRef<'_, f64>, values: &Mat<f64>) -> bool {
    let least = TOLERANCE * values.norm_max();
    let counted: Vec<usize> = (0..values.nrows()).filter(|&i| values[(i, 0)].abs() > least).collect();
    counted.iter().all(|&i| {
        counted.iter().all(|&j| {
            let along = vectors.col(i).transpose() * vectors.col(j);
            (along - f64::from(u8::from(i == j))).abs() <= TOLERANCE
        })
    })
}
