//! Matrices whose every operation rounds to `f32`.

use faer::{Mat, MatRef};

use super::round;

/// The product, each element summed without rounding.
pub(super) fn dot(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let element = |i: usize, j: usize| (0..a.ncols()).fold(0.0, |sum, k| a[(i, k)] * b[(k, j)] + sum);
    Mat::from_fn(a.nrows(), b.ncols(), |i, j| round(element(i, j)))
}

/// `f` of each element.
pub(super) fn map(a: MatRef<'_, f64>, f: impl Fn(f64) -> f64) -> Mat<f64> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| round(f(a[(i, j)])))
}

/// `f` of each pair of elements.
pub(super) fn zip(a: MatRef<'_, f64>, b: MatRef<'_, f64>, f: impl Fn(f64, f64) -> f64) -> Mat<f64> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| round(f(a[(i, j)], b[(i, j)])))
}

/// The mean of a matrix and its transpose.
pub(super) fn symmetric(a: MatRef<'_, f64>) -> Mat<f64> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| round(round(a[(i, j)] + a[(j, i)]) / 2.0))
}

/// With elements of at most `eps` made 0.
pub(super) fn cleaned(a: MatRef<'_, f64>, eps: f64) -> Mat<f64> {
    map(a, |x| if x.abs() <= eps { 0.0 } else { x })
}

/// The columns in another order.
pub(super) fn columns(a: MatRef<'_, f64>, order: &[usize]) -> Mat<f64> {
    Mat::from_fn(a.nrows(), order.len(), |i, j| a[(i, order[j])])
}

/// The places of numbers in falling order; equal ones keep theirs.
pub(super) fn falling(numbers: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&i, &j| numbers[j].total_cmp(&numbers[i]));
    order
}
