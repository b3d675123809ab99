//! The definition of the Cholesky decomposition: the Cholesky-Banachiewicz algorithm.

use faer::{Mat, MatRef};

use super::super::cholesky::lower;
use super::super::nan;
use super::{matrix, round};

const EPS: f64 = 1e-10;

pub(super) fn cholesky(a: MatRef<'_, f64>) -> Mat<f64> {
    let n = a.nrows();
    let mut l = Mat::zeros(n, n);
    for i in 0..n {
        for j in 0..=i {
            let sum = round((0..j).fold(0.0, |sum, k| l[(i, k)] * l[(j, k)] + sum));
            let rest = round(a[(i, j)] - sum);
            l[(i, j)] = round(if i == j { rest.sqrt() } else { rest / round(l[(j, j)] + EPS) });
        }
    }
    if l.has_nan() { lower(nan(n, n).as_ref()) } else { matrix::cleaned(l.as_ref(), EPS) }
}
