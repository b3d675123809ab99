//! The definition of the QR decomposition: reflections as full matrices. Below its diagonal, `R` has rounding errors.

use faer::{Mat, MatRef};

use super::matrix::{cleaned, dot};
use super::round;
use crate::program::QrMode;

pub(super) fn qr(a: MatRef<'_, f64>, mode: QrMode, eps: f64) -> [Mat<f64>; 2] {
    let (m, n) = (a.nrows(), a.ncols());
    let mut r = a.to_owned();
    let mut q = Mat::identity(m, m);
    for i in 0..n.min(m.saturating_sub(1)) {
        let h = reflector(r.as_ref(), i, eps);
        r = dot(h.as_ref(), r.as_ref());
        q = dot(q.as_ref(), h.as_ref());
    }
    let k = if mode == QrMode::Complete { m } else { m.min(n) };
    [cleaned(q.get(.., ..k), eps), cleaned(r.get(..k, ..), eps)]
}

/// The matrix that sends column `i` of `r`, from its diagonal down, to the positive axis.
fn reflector(r: MatRef<'_, f64>, i: usize, eps: f64) -> Mat<f64> {
    let m = r.nrows();
    let mut v: Vec<f64> = (0..m).map(|row| if row < i { 0.0 } else { r[(row, i)] }).collect();
    let square = |v: &[f64]| round(v.iter().fold(0.0, |sum, x| x * x + sum));
    let (x, norm) = (v[i], round(square(&v).sqrt()));
    let below = round(square(&v) - round(x * x));
    if below < eps {
        return Mat::identity(m, m);
    }
    let first = round(if x <= 0.0 { x - norm } else { -below / round(x + norm) });
    v[i] = first;
    v.iter_mut().for_each(|x| *x = round(*x / first));
    let scale = round(2.0 / square(&v));
    Mat::from_fn(m, m, |row, column| {
        let unit = f64::from(u8::from(row == column));
        round(unit - round(scale * round(v[row] * v[column])))
    })
}
