//! The definitions of the singular value decomposition.

use faer::{Mat, MatRef};

use super::matrix::{columns, dot, falling};
use super::polar::{EPS, polar};
use super::{eigh, qr, round};
use crate::program::{QrMode, Svd};

/// The threshold of the eigendecomposition inside, which has no option for it.
const EIGH_EPS: f64 = 1e-4;

/// `[u, s, vt]`, `s` as a column.
pub(super) fn svd(a: MatRef<'_, f64>, attrs: &Svd) -> [Mat<f64>; 3] {
    let wide = a.nrows() < a.ncols();
    let tall = if wide { a.transpose() } else { a };
    let [u, s, v] = if attrs.full_matrices { full(tall, attrs.max_iter) } else { thin(tall, attrs.max_iter) };
    if wide { [v, s, u.transpose().to_owned()] } else { [u, s, v.transpose().to_owned()] }
}

fn full(a: MatRef<'_, f64>, max_iter: usize) -> [Mat<f64>; 3] {
    let (m, n) = (a.nrows(), a.ncols());
    if m == n {
        return square(a, max_iter);
    }
    let [q, r] = qr::qr(a, QrMode::Complete, round(1e-10));
    let [u, s, v] = square(r.get(..n, ..), max_iter);
    let u = dot(q.get(.., ..n), u.as_ref());
    [Mat::from_fn(m, m, |i, j| if j < n { u[(i, j)] } else { q[(i, j)] }), s, v]
}

/// By the eigenvalues of the symmetric factor of the polar decomposition.
fn square(a: MatRef<'_, f64>, max_iter: usize) -> [Mat<f64>; 3] {
    let [u, h] = polar(a, max_iter);
    let [values, vectors] = eigh::eigh(super::matrix::symmetric(h.as_ref()).as_ref(), max_iter, round(EIGH_EPS));
    let n = values.nrows();
    let sign = |j: usize| if values[(j, 0)] < 0.0 { -1.0 } else { 1.0 };
    let s: Vec<f64> = (0..n).map(|j| sign(j) * values[(j, 0)]).collect();
    let signed = Mat::from_fn(n, n, |i, j| sign(j) * vectors[(i, j)]);
    let order = falling(&s);
    let v = columns(signed.as_ref(), &order);
    [dot(u.as_ref(), v.as_ref()), Mat::from_fn(n, 1, |i, _| s[order[i]]), v]
}

/// By the eigenvalues of `a* a`.
fn thin(a: MatRef<'_, f64>, max_iter: usize) -> [Mat<f64>; 3] {
    let n = a.ncols();
    let [values, vectors] = eigh::eigh(dot(a.transpose(), a).as_ref(), max_iter, round(EIGH_EPS));
    let s: Vec<f64> = (0..n).map(|i| round(values[(i, 0)].max(0.0).sqrt())).collect();
    let order = falling(&s);
    let v = columns(vectors.as_ref(), &order);
    let s: Vec<f64> = order.iter().map(|&i| s[i]).collect();
    let least = round(n as f64 * EPS * s[0]);
    let inverse = |s: f64| if s > least { round(1.0 / s) } else { 0.0 };
    let product = dot(a, v.as_ref());
    let u = Mat::from_fn(a.nrows(), n, |i, j| round(product[(i, j)] * inverse(s[j])));
    [u, Mat::from_fn(n, 1, |i, _| s[i]), v]
}
