//! Singular value decomposition.

use faer::{Mat, MatRef};

use super::eigh::orientation;
use super::field::{Field, handy};
use super::{is_finite, nan};

/// `[u, s, vt]` with `a = u diag(s) vt` and `s` falling; `u` and `vt` are square if `full`, else as narrow as `s`.
///
/// Singular vectors come in pairs with a common sign. As `Nx.LinAlg.svd/2` has it, which finds those of the shorter side
/// as eigenvectors, the largest element of each of these is positive. A matrix of zeros has unit vectors.
///
/// A value as small as rounding by `epsilon` makes of 0 is 0. `Nx.LinAlg.pinv/2` divides by all that are not below 1.0e-10,
/// however large the others.
pub(super) fn svd<F: Field>(a: MatRef<'_, F>, full: bool, epsilon: f64) -> Vec<Mat<F>> {
    let (m, n) = (a.nrows(), a.ncols());
    let k = m.min(n);
    let (wide, high) = if full { (m, n) } else { (k, k) };
    if is_zero(a) {
        return vec![Mat::identity(m, wide), Mat::zeros(k, 1), Mat::identity(high, n)];
    }
    let scale = handy(a.norm_max());
    let scaled = Mat::from_fn(m, n, |i, j| a[(i, j)].times(scale));
    let decomposed = is_finite(a).then(|| if full { scaled.svd() } else { scaled.thin_svd() }.ok()).flatten();
    let Some(svd) = decomposed else { return vec![nan(m, wide), nan(k, 1), nan(high, n)] };
    let (mut u, mut v) = (svd.U().to_owned(), svd.V().to_owned());
    for j in 0..k {
        let phase = orientation(if m < n { u.as_ref() } else { v.as_ref() }, j);
        (0..m).for_each(|i| u[(i, j)] *= phase);
        (0..n).for_each(|i| v[(i, j)] *= phase);
    }
    let values = svd.S().column_vector();
    let least = m.max(n) as f64 * epsilon * values[0].re();
    let s = Mat::from_fn(k, 1, |i, _| if values[i].re() > least { values[i].times(1.0 / scale) } else { F::of(0.0) });
    vec![u, s, Mat::from_fn(high, n, |i, j| v[(j, i)].conjugate())]
}

fn is_zero<F: Field>(a: MatRef<'_, F>) -> bool {
    (0..a.ncols()).all(|j| (0..a.nrows()).all(|i| a[(i, j)].is_zero()))
}
