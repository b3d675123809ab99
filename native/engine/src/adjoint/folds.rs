//! Folds of axes, running ones, and folds of windows.

use super::builder::Builder;
use super::{Gradients, Site};
use crate::program::{Binary, Cumulative, Extremum, Fold, Op, Reduce, WindowReduce, WindowScatter, Windows};

pub(super) fn reduce(b: &mut Builder, attrs: &Reduce, site: &Site) -> Option<Gradients> {
    let x = site.operand(0);
    let shape = b.shape(x);
    let axes = attrs.axes.clone().unwrap_or_else(|| (0..shape.len()).collect());
    let kept: Vec<usize> = (0..shape.len()).map(|axis| if axes.contains(&axis) { 1 } else { shape[axis] }).collect();
    let g = b.reshape(site.g, &kept);
    match attrs.fold {
        Fold::Sum => Some(vec![(0, b.broadcast(g, (0..shape.len()).collect(), &shape))]),
        Fold::Max | Fold::Min => {
            let [x, y, g] = [x, site.y, g].map(|id| b.real(id));
            let y = b.reshape(y, &kept);
            let is_chosen = b.binary(Binary::Equal, x, y);
            let chosen = b.cast(is_chosen, b.ty(x).dtype);
            let ties = b.sum(chosen, axes);
            let ties = b.reshape(ties, &kept);
            let product = b.times(chosen, g);
            Some(vec![(0, b.over(product, ties))])
        }
        _ => None,
    }
}

pub(super) fn cumulative(b: &mut Builder, attrs: &Cumulative, site: &Site) -> Option<Gradients> {
    if attrs.fold != Fold::Sum {
        return None;
    }
    let g = b.real(site.g);
    let (ty, back) = (b.ty(g).clone(), Cumulative { reverse: !attrs.reverse, ..attrs.clone() });
    Some(vec![(0, b.emit(Op::Cumulative(back), &[g], ty.dtype, &ty.shape))])
}

pub(super) fn window(b: &mut Builder, attrs: &WindowReduce, site: &Site) -> Option<Gradients> {
    let gradient = match attrs.fold {
        _ if b.shape(site.operand(0)).contains(&0) => b.zeros_like(site.operand(0), site.g),
        Fold::Max => extremum(b, attrs, Extremum::Max, site)?,
        Fold::Min => extremum(b, attrs, Extremum::Min, site)?,
        Fold::Sum => sum(b, &attrs.windows, site),
        _ => return None,
    };
    Some(vec![(0, gradient)])
}

/// At the last extremum of each window. The padding never is one.
fn extremum(b: &mut Builder, attrs: &WindowReduce, extremum: Extremum, site: &Site) -> Option<usize> {
    let windows = &attrs.windows;
    if windows.dilations.iter().any(|&step| step != 1) {
        return None;
    }
    let (x, g) = (site.operand(0), b.real(site.g));
    let x = b.real(x);
    let (shape, is_padded) = (b.shape(x), windows.padding.iter().any(|edges| *edges != [0, 0]));
    let config = |sign: i64| windows.padding.iter().map(|&[low, high]| [sign * low, sign * high, 0]).collect();
    let padded: Vec<usize> =
        shape.iter().zip(&windows.padding).map(|(&len, &[low, high])| (len as i64 + low + high) as usize).collect();
    let worst = if extremum == Extremum::Max { f64::NEG_INFINITY } else { f64::INFINITY };
    let x = if is_padded { b.pad(x, worst, config(1), &padded) } else { x };
    let zero = b.number(0.0, b.ty(g).dtype);
    let unpadded = Windows { padding: vec![[0, 0]; shape.len()], ..windows.clone() };
    let scatter = Op::WindowScatter(WindowScatter { extremum, windows: unpadded });
    let dtype = b.ty(g).dtype;
    let sums = b.emit(scatter, &[x, g, zero], dtype, &padded);
    Some(if is_padded { b.pad(sums, 0.0, config(-1), &shape) } else { sums })
}

/// Each element gets the gradients of its windows: those are spread as far apart as the windows were, and windows of the
/// same length, which run backwards, sum them up.
fn sum(b: &mut Builder, windows: &Windows, site: &Site) -> usize {
    let (shape, from) = (b.shape(site.operand(0)), b.shape(site.g));
    let g = b.real(site.g);
    let mut config = Vec::with_capacity(shape.len());
    let mut padded = Vec::with_capacity(shape.len());
    for axis in 0..shape.len() {
        let window = (windows.dimensions[axis] as i64 - 1) * windows.dilations[axis] as i64;
        let spread = if from[axis] == 0 { 0 } else { (from[axis] as i64 - 1) * windows.strides[axis] as i64 + 1 };
        let [low, _] = windows.padding[axis];
        let before = window - low;
        let after = shape[axis] as i64 + window - before - spread;
        config.push([before, after, windows.strides[axis] as i64 - 1]);
        padded.push((before + spread + after) as usize);
    }
    let padded = b.pad(g, 0.0, config, &padded);
    let ones = vec![1; shape.len()];
    let windows = Windows { padding: vec![[0, 0]; shape.len()], strides: ones, ..windows.clone() };
    let dtype = b.ty(padded).dtype;
    b.emit(Op::WindowReduce(WindowReduce { fold: Fold::Sum, windows }), &[padded], dtype, &shape)
}
