//! Folds over windows.

use std::mem::MaybeUninit;

use super::side::{ANY, LANES, pick, reach};
use super::{Frame, WindowAxis};
use crate::cpu::block::{build_parts, vectorized};
use crate::cpu::tasks::CHUNK;
use crate::cpu::{Cell, Fold, View, value};
use crate::error::Result;
use crate::value::Value;

/// `x` folded over the windows of one axis.
pub(crate) fn fold_windows<T, F>(x: &Value, at: usize, axis: WindowAxis) -> Result<Value>
where
    T: Cell,
    F: Fold<T, Result = T>,
{
    let x = x.clone().contiguous();
    let mut shape = x.shape();
    shape[at] = axis.count;
    let frame = Frame::new(axis, at, &shape);
    Ok(value(&shape, frame.fold::<T, F>(&View::new(&x)?)))
}

impl Frame {
    fn fold<T: Cell, F: Fold<T, Result = T>>(&self, x: &[T]) -> Vec<T> {
        let Self { axis, outer, inner } = *self;
        let rows = (CHUNK / inner.max(1)).max(1);
        build_parts(outer * axis.count * inner, rows * inner, &|part, out| {
            vectorized(
                #[inline(always)]
                || match (inner, axis.stride) {
                    (1, 1) => self.fold_across::<T, F, 1>(x, part * rows, out),
                    (1, 2) => self.fold_across::<T, F, 2>(x, part * rows, out),
                    (1, _) => self.fold_across::<T, F, ANY>(x, part * rows, out),
                    _ => self.fold_along::<T, F>(x, part * rows, out),
                },
            );
        })
    }

    /// Windows of the last axis, from number `first` on: neighbouring windows are folded side by side.
    #[inline(always)]
    fn fold_across<T, F, const STEP: usize>(&self, x: &[T], first: usize, mut out: &mut [MaybeUninit<T>])
    where
        T: Cell,
        F: Fold<T, Result = T>,
    {
        let axis = &self.axis;
        let (whole, mut block, mut window) = (axis.whole(), first / axis.count, first % axis.count);
        while !out.is_empty() {
            let middle = whole.contains(&window);
            let until = if middle { whole.end } else { window + 1 };
            let part = out.split_off_mut(..(until - window).min(out.len())).unwrap_or_default();
            let (taps, len) = (axis.taps(window), part.len());
            let start = axis.place(window, taps.start).unwrap_or_default();
            let taps = Taps { first: block * axis.length + start, count: taps.len(), apart: axis.dilation };
            fold_row::<T, F, STEP>(x, taps, axis.stride, part);
            window += len;
            if window == axis.count {
                (block, window) = (block + 1, 0);
            }
        }
    }

    /// Windows of an outer axis, from number `first` on: the elements of each lie in rows.
    #[inline(always)]
    fn fold_along<T, F>(&self, x: &[T], first: usize, out: &mut [MaybeUninit<T>])
    where
        T: Cell,
        F: Fold<T, Result = T>,
    {
        let Self { axis, inner, .. } = *self;
        let (mut block, mut window) = (first / axis.count, first % axis.count);
        for part in out.chunks_exact_mut(inner.max(1)) {
            let taps = axis.taps(window);
            let start = axis.place(window, taps.start).unwrap_or_default();
            let first = (block * axis.length + start) * inner;
            let taps = Taps { first, count: taps.len(), apart: axis.dilation * inner };
            fold_row::<T, F, 1>(x, taps, 1, part);
            window += 1;
            if window == axis.count {
                (block, window) = (block + 1, 0);
            }
        }
    }
}

/// Where the elements of a window are.
#[derive(Clone, Copy)]
struct Taps {
    first: usize,
    count: usize,
    apart: usize,
}

/// Folds the windows of a row, which lie `step` apart; `taps` are those of the first.
#[inline(always)]
fn fold_row<T, F, const STEP: usize>(x: &[T], taps: Taps, step: usize, out: &mut [MaybeUninit<T>])
where
    T: Cell,
    F: Fold<T, Result = T>,
{
    for (i, out) in out.chunks_mut(LANES).enumerate() {
        let first = taps.first + i * LANES * step;
        let end = first + taps.count.saturating_sub(1) * taps.apart + reach(step);
        if end > x.len() {
            fold_singly::<T, F>(x, Taps { first, ..taps }, step, out);
            continue;
        }
        let mut states = [F::IDENTITY; LANES];
        for tap in 0..taps.count {
            let xs = pick::<T, STEP>(x, first + tap * taps.apart, step);
            (0..LANES).for_each(|k| states[k] = F::step(states[k], xs[k]));
        }
        let folded = states.map(|state| MaybeUninit::new(F::finish(state)));
        match <&mut [MaybeUninit<T>; LANES]>::try_from(&mut *out) {
            Ok(out) => *out = folded,
            Err(_) => out.copy_from_slice(&folded[..out.len()]),
        }
    }
}

/// [`fold_row`] of the last windows of a tensor, past which there is nothing to read.
#[inline(always)]
fn fold_singly<T, F>(x: &[T], taps: Taps, step: usize, out: &mut [MaybeUninit<T>])
where
    T: Cell,
    F: Fold<T, Result = T>,
{
    for (i, out) in out.iter_mut().enumerate() {
        let element = |tap: usize| x[taps.first + i * step + tap * taps.apart];
        let state = (0..taps.count).fold(F::IDENTITY, |state, tap| F::step(state, element(tap)));
        out.write(F::finish(state));
    }
}
