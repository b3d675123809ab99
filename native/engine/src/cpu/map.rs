//! Elementwise kernels.

use super::nest::Nest;
use super::{Cell, Float, View, value};
use crate::error::Result;
use crate::value::Value;

/// `f` of each element.
pub(crate) fn map<T: Cell, R: Cell>(x: &Value, f: impl Fn(T) -> R + Sync) -> Result<Value> {
    let src = View::<T>::new(x)?;
    let mut out = bytemuck::zeroed_vec::<R>(x.len());
    Nest::new([src.layout()]).fill(&mut out, &|part, [at], [step]| match step {
        1 => part.iter_mut().zip(&src[at..]).for_each(|(r, &x)| *r = f(x)),
        0 => part.fill(f(src[at])),
        _ => part.iter_mut().enumerate().for_each(|(i, r)| *r = f(src[walk(at, step, i)])),
    });
    Ok(value(&x.shape(), out))
}

/// `f` of each pair of elements of two tensors of one shape.
pub(crate) fn zip<A: Cell, B: Cell, R: Cell>(a: &Value, b: &Value, f: impl Fn(A, B) -> R + Sync) -> Result<Value> {
    let (xs, ys) = (View::<A>::new(a)?, View::<B>::new(b)?);
    let mut out = bytemuck::zeroed_vec::<R>(a.len());
    Nest::new([xs.layout(), ys.layout()]).fill(&mut out, &|part, [i, j], steps| match steps {
        [1, 1] => part.iter_mut().zip(&xs[i..]).zip(&ys[j..]).for_each(|((r, &x), &y)| *r = f(x, y)),
        [1, 0] => {
            let y = ys[j];
            part.iter_mut().zip(&xs[i..]).for_each(|(r, &x)| *r = f(x, y));
        }
        [0, 1] => {
            let x = xs[i];
            part.iter_mut().zip(&ys[j..]).for_each(|(r, &y)| *r = f(x, y));
        }
        [s, t] => part.iter_mut().enumerate().for_each(|(n, r)| *r = f(xs[walk(i, s, n)], ys[walk(j, t, n)])),
    });
    Ok(value(&a.shape(), out))
}

/// [`map`] of a real function, rounded once.
pub(crate) fn map_real<T: Float>(x: &Value, f: impl Fn(T::Math) -> T::Math + Sync) -> Result<Value> {
    map::<T, T>(x, |x| T::round_from(f(x.math())))
}

/// [`zip`] of a real function, rounded once.
pub(crate) fn zip_real<T: Float>(
    a: &Value,
    b: &Value,
    f: impl Fn(T::Math, T::Math) -> T::Math + Sync,
) -> Result<Value> {
    zip::<T, T, T>(a, b, |x, y| T::round_from(f(x.math(), y.math())))
}

fn walk(at: usize, step: isize, i: usize) -> usize {
    (at as isize + step * i as isize) as usize
}

/// Whether `test` holds for any element.
pub(crate) fn any<T: Cell>(x: &Value, test: impl Fn(T) -> bool + Sync) -> Result<bool> {
    let x = x.clone().contiguous();
    Ok(View::<T>::new(&x)?[..x.len()].iter().any(|&x| test(x)))
}
