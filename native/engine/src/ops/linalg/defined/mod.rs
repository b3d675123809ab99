//! Nx's own definitions of the decompositions, step by step, for matrices that people check by hand.
//!
//! Nx defines each decomposition as a `defn`, whose every step on an `f32` tensor rounds to `f32`. Followed here in the
//! same order and with the same rounding, they give the digits that Nx's documentation and its other backends' users
//! see. Larger matrices, `f64` and complex ones need speed and accuracy, which these definitions lack.
//!
//! Where a definition does badly, as with eigenvalues below its fixed threshold, the accurate answer stands instead.

mod cholesky;
mod eigh;
mod matrix;
mod polar;
mod qr;
mod svd;

use faer::{Mat, MatRef};

use super::lu::{Lu, determinant};
use super::{Failure, decompose};
use crate::program::Linalg;

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
        return decompose(op, operands);
    }
    match op {
        Linalg::Cholesky => Ok(vec![cholesky::cholesky(a)]),
        Linalg::Determinant => Ok(vec![Mat::from_fn(1, 1, |_, _| determinant(a, round))]),
        Linalg::Lu => Ok(Lu::by_columns(a, round).factors().into()),
        Linalg::Solve => Ok(vec![Lu::by_columns(a, round).solve(operands[1], round)?]),
        Linalg::Qr(qr) => Ok(qr::qr(a, qr.mode, round(qr.eps)).into()),
        Linalg::Eigh(eigh) => {
            let accurate = decompose(op, operands)?;
            Ok(if_right(accurate, 0, || eigh::eigh(a, eigh.max_iter, round(eigh.eps)).into()))
        }
        Linalg::Svd(svd) => {
            let accurate = decompose(op, operands)?;
            Ok(if_right(accurate, 1, || svd::svd(a, svd).into()))
        }
    }
}

/// The results by definition, if its values, which are result number `values`, are those of the accurate results.
fn if_right(accurate: Vec<Mat<f64>>, values: usize, defined: impl FnOnce() -> Vec<Mat<f64>>) -> Vec<Mat<f64>> {
    const TOLERANCE: f64 = 1e-3;
    // A definition for matrices of two rows and more.
    if accurate[values].nrows() < 2 {
        return accurate;
    }
    let defined = defined();
    let furthest = (&defined[values] - &accurate[values]).norm_max();
    if furthest <= TOLERANCE * accurate[values].norm_max() { defined } else { accurate }
}
