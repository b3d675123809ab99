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
    fn fold_across<T, F, const STEP: usize>(&self, x: &[T], first: usize, out: &mut [MaybeUninit<T>])
    where
        T: Cell,
        F: Fold<T, Result = T>,
    {
        let axis = &self.axis;
        let (whole, mut block, mut window, mut done) = (axis.whole(), first / axis.count, first % axis.count, 0);
        while done < out.len() {
            let end = if whole.contains(&window) { whole.end } else { window + 1 };
            let count = (end - window).min(out.len() - done);
            let taps = self.taps(block, window, axis.dilation);
            fold_row::<T, F, STEP>(x, taps, axis.stride, &mut out[done..], count);
            (window, done) = (window + count, done + count);
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
        for done in (0..out.len()).step_by(inner.max(1)) {
            let taps = self.taps(block, window, axis.dilation * inner);
            fold_row::<T, F, 1>(x, taps, 1, &mut out[done..], inner);
            window += 1;
            if window == axis.count {
                (block, window) = (block + 1, 0);
            }
        }
    }

    #[inline(always)]
    fn taps(&self, block: usize, window: usize, apart: usize) -> Taps {
        let taps = self.axis.taps(window);
        let start = self.axis.place(window, taps.start).unwrap_or_default();
        Taps { first: (block * self.axis.length + start) * self.inner, count: taps.len(), apart }
    }
}

/// Where the elements of a window are.
#[derive(Clone, Copy)]
struct Taps {
    first: usize,
    count: usize,
    apart: usize,
}

/// Folds the `count` windows of a row, which lie `step` apart; `taps` are those of the first. What is written past the
/// end of the row, the next row writes again.
#[inline(always)]
fn fold_row<T, F, const STEP: usize>(x: &[T], taps: Taps, step: usize, out: &mut [MaybeUninit<T>], count: usize)
where
    T: Cell,
    F: Fold<T, Result = T>,
{
    for window in (0..count).step_by(LANES) {
        let taps = Taps { first: taps.first + window * step, ..taps };
        let end = taps.first + taps.count.saturating_sub(1) * taps.apart + reach(step);
        match out[window..].first_chunk_mut() {
            Some(out) if end <= x.len() => fold_lanes::<T, F, STEP>(x, taps, step, out),
            _ => fold_singly::<T, F>(x, taps, step, &mut out[window..count.min(window + LANES)]),
        }
    }
}

#[inline(always)]
fn fold_lanes<T, F, const STEP: usize>(x: &[T], taps: Taps, step: usize, out: &mut [MaybeUninit<T>; LANES])
where
    T: Cell,
    F: Fold<T, Result = T>,
{
    let mut states = [F::IDENTITY; LANES];
    for tap in 0..taps.count {
        let xs = pick::<T, STEP>(x, taps.first + tap * taps.apart, step);
        (0..LANES).for_each(|k| states[k] = F::step(states[k], xs[k]));
    }
    *out = states.map(|state| MaybeUninit::new(F::finish(state)));
}

/// [`fold_lanes`] of the last windows, past which there is nothing to read or to write.
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
