//! QR decomposition by Householder reflections.

use faer::{Mat, MatRef};

use super::field::{Field, handy};
use super::{SMALL, is_finite, is_triangular, nan};

/// `[Q, R]` with square `Q` if `complete`, else with as many columns as the shorter side of `a`.
///
/// A reflection sends each column of a real matrix to the positive axis, as `Nx.LinAlg.qr/2` has it: the diagonal of `R` is not
/// negative, except where the column was on its axis already (what is left has a squared norm below `eps`) and in the
/// last row of a matrix without rows below. Of a complex matrix each diagonal element gets the phase opposite to the
/// element that was there. Elements of at most `eps` become 0.
pub(super) fn qr<F: Field>(a: MatRef<'_, F>, complete: bool, eps: f64) -> Vec<Mat<F>> {
    let (m, n) = (a.nrows(), a.ncols());
    let k = if complete { m } else { m.min(n) };
    if !is_finite(a) {
        return vec![nan(m, k), nan(k, n)];
    }
    let (q, r) = if m.min(n) <= SMALL || is_triangular(a) { reflected(a, k, eps) } else { factored(a, k) };
    let clean = |x: F| if x.magnitude() <= eps { F::zero() } else { x };
    // Whatever rounding has left below the diagonal is 0.
    let upper = |i: usize, j: usize| if i <= j { clean(r[(i, j)]) } else { F::zero() };
    vec![Mat::from_fn(m, k, |i, j| clean(q[(i, j)])), Mat::from_fn(k, n, upper)]
}

/// One reflection after the other. `Q` has `k` columns; `R` may have more rows.
fn reflected<F: Field>(a: MatRef<'_, F>, k: usize, eps: f64) -> (Mat<F>, Mat<F>) {
    let (m, n) = (a.nrows(), a.ncols());
    let mut r = a.to_owned();
    let mut reflections = Vec::new();
    for i in 0..n.min(m.saturating_sub(1)) {
        let column: Vec<F> = (i..m).map(|row| r[(row, i)]).collect();
        let Some(v) = mirror(&column, eps) else { continue };
        reflect(&mut r, i, &v);
        reflections.push((i, v));
    }
    let mut q = Mat::from_fn(m, k, |i, j| if i == j { F::one() } else { F::zero() });
    for (i, v) in reflections.iter().rev() {
        reflect(&mut q, *i, v);
    }
    (q, r)
}

/// The unit vector `v` for which `x - 2 v (v* x)` has only its first element left; `None` if that holds for `x` already.
fn mirror<F: Field>(x: &[F], eps: f64) -> Option<Vec<F>> {
    let square = |x: &[F]| x.iter().map(|x| x.magnitude().powi(2)).sum::<f64>();
    let scale = handy(x.iter().map(|x| x.magnitude()).fold(0.0, f64::max));
    let x: Vec<F> = x.iter().map(|x| x.times(scale)).collect();
    let below = square(&x[1..]);
    let norm = (below + x[0].magnitude().powi(2)).sqrt();
    let on_axis = below == 0.0 && x[0].re() > 0.0;
    if norm == 0.0 || (!F::COMPLEX && (on_axis || below / scale / scale < eps)) {
        return None;
    }
    let mut v = x.clone();
    v[0] = match x[0] {
        first if F::COMPLEX => first + first.phase().times(norm),
        first if first.re() <= 0.0 => first - F::of(norm),
        // x - norm, without its loss of digits.
        first => F::of(-below / (first.re() + norm)),
    };
    let length = square(&v).sqrt();
    Some(v.into_iter().map(|x| x / F::of(length)).collect())
}

/// Reflects the rows from `first` on at the plane that `v` is normal to.
fn reflect<F: Field>(matrix: &mut Mat<F>, first: usize, v: &[F]) {
    for j in 0..matrix.ncols() {
        let along = v.iter().enumerate().fold(F::zero(), |sum, (i, v)| sum + v.conjugate() * matrix[(first + i, j)]);
        let twice = along.times(2.0);
        for (i, &v) in v.iter().enumerate() {
            matrix[(first + i, j)] -= v * twice;
        }
    }
}

/// By blocks of reflections. Those of complex matrices follow the convention; of real ones, signs are brought to it.
fn factored<F: Field>(a: MatRef<'_, F>, k: usize) -> (Mat<F>, Mat<F>) {
    let (m, n) = (a.nrows(), a.ncols());
    let qr = a.qr();
    let mut q = if k == m { qr.compute_Q() } else { qr.compute_thin_Q() };
    let mut r = Mat::from_fn(k, n, |i, j| if i <= j { qr.R()[(i, j)] } else { F::zero() });
    if F::COMPLEX {
        return (q, r);
    }
    // Each reflection turns the space inside out, and so does each column of the other sign.
    let basis = qr.Q_basis();
    let mirrors = (0..m.min(n)).filter(|&j| (j + 1..m).any(|i| !basis[(i, j)].is_zero())).count();
    let mut inside_out = mirrors % 2 != (m - 1) % 2;
    for i in 0..m.min(n) {
        // The last row of a matrix without rows below has no reflection of its own.
        let negative = if i + 1 == m { inside_out } else { r[(i, i)].re() < 0.0 };
        if negative {
            inside_out = !inside_out;
            (0..m).for_each(|row| q[(row, i)] *= F::of(-1.0));
            (i..n).for_each(|column| r[(i, column)] *= F::of(-1.0));
        }
    }
    (q, r)
}
