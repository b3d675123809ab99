//! The polar decomposition `x = u h` by Halley's iteration, on which the definition of the full SVD stands.
//!
//! Nakatsukasa, Y., Bai, Z., & Gygi, F. (2010). Optimizing Halley's iteration for computing the matrix polar decomposition.
//! SIAM Journal on Matrix Analysis and Applications, 31(5), 2700-2720.

use faer::{Mat, MatRef};

use super::super::triangular;
use super::matrix::{dot, map, symmetric, zip};
use super::{cholesky, qr, round};
use crate::program::QrMode;

/// The distance from 1 to the next `f32`.
pub(super) const EPS: f64 = f32::EPSILON as f64;

/// `[u, h]` of a square matrix: orthogonal and symmetric.
pub(super) fn polar(x: MatRef<'_, f64>, max_iter: usize) -> [Mat<f64>; 2] {
    let largest = |sums: &mut dyn Iterator<Item = f64>| sums.map(round).fold(0.0, f64::max);
    let by_column = largest(&mut (0..x.ncols()).map(|j| x.col(j).norm_l1()));
    let by_row = largest(&mut (0..x.nrows()).map(|i| x.row(i).norm_l1()));
    let alpha = round(round(by_column.sqrt()) * round(by_row.sqrt()));
    let mut u = map(x, |x| x / alpha);
    let mut l = EPS;
    let tolerance = 5.0 * EPS;
    for _ in 0..max_iter.max(1) {
        let step = Step::at(l);
        l = step.next(l);
        let next = if step.c > 100.0 { step.by_qr(&u) } else { step.by_cholesky(&u) };
        let moved = (&next - &u).norm_l2();
        u = next;
        if round(1.0 - l).abs() <= tolerance && moved <= round(tolerance.cbrt()) {
            break;
        }
    }
    // One step of Newton's and Schulz's iteration.
    let square = dot(u.transpose(), u.as_ref());
    let half = map(dot(u.as_ref(), square.as_ref()).as_ref(), |x| 0.5 * x);
    let u = zip(u.as_ref(), half.as_ref(), |u, half| round(1.5 * u) - half);
    let h = symmetric(dot(u.transpose(), x).as_ref());
    [u, h]
}

/// The weights of one iteration, from the bound `l` of the smallest singular value.
struct Step {
    a: f64,
    b: f64,
    c: f64,
}

impl Step {
    fn at(l: f64) -> Self {
        let l2 = round(l * l).max(EPS);
        let dd = round(round(round(4.0 * round(round(1.0 / l2) - 1.0)) / l2).powf(1.0 / 3.0));
        let sqd = round(round(1.0 + dd).sqrt());
        let under = round(round(8.0 - round(4.0 * dd)) + round(round(8.0 * round(2.0 - l2)) / round(l2 * sqd)));
        let a = round(sqd + round(round(under.sqrt()) / 2.0));
        let b = round(round(round(a - 1.0).powi(2)) / 4.0);
        Self { a, b, c: round(round(a + b) - 1.0) }
    }

    fn next(&self, l: f64) -> f64 {
        let l2 = round(l * l).max(EPS);
        let over = round(l * round(self.a + round(self.b * l2)));
        round(over / round(1.0 + round(self.c * l2)))
    }

    /// `b / c u + (a - b / c) / scale product`.
    fn mix(&self, u: &Mat<f64>, scale: f64, product: MatRef<'_, f64>) -> Mat<f64> {
        let e = round(self.b / self.c);
        let weight = round(round(self.a - e) / scale);
        zip(u.as_ref(), product, |u, x| round(e * u) + round(weight * x))
    }

    fn by_qr(&self, u: &Mat<f64>) -> Mat<f64> {
        let n = u.nrows();
        let root = round(self.c.sqrt());
        let unit = |i: usize, j: usize| f64::from(u8::from(i == j));
        let y = Mat::from_fn(2 * n, n, |i, j| if i < n { round(root * u[(i, j)]) } else { unit(i - n, j) });
        let [q, _] = qr::qr(y.as_ref(), QrMode::Reduced, round(1e-10));
        self.mix(u, root, dot(q.get(..n, ..), q.get(n.., ..).transpose()).as_ref())
    }

    fn by_cholesky(&self, u: &Mat<f64>) -> Mat<f64> {
        let n = u.nrows();
        let product = map(dot(u.transpose(), u.as_ref()).as_ref(), |x| self.c * x);
        let y =
            cholesky::cholesky(zip(product.as_ref(), Mat::<f64>::identity(n, n).as_ref(), |x, unit| x + unit).as_ref());
        let solve = |a, lower, b| triangular::solve(a, lower, b).unwrap_or_else(|_| super::super::nan(n, n));
        let z = map(solve(y.as_ref(), true, u.transpose().to_owned()).as_ref(), |x| x);
        let z = map(solve(y.transpose(), false, z).as_ref(), |x| x);
        self.mix(u, 1.0, z.transpose())
    }
}
