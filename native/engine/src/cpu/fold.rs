//! Reductions, in one pass over the operand.

use std::array::from_fn;
use std::ops::Range;

use burn_backend::Shape;
use burn_flex::Layout;

use super::block::{build_parts, vectorized};
use super::map::write;
use super::nest::Nest;
use super::tasks::{CHUNK, chunks};
use super::{Cell, Fold, View, value};
use crate::error::Result;
use crate::value::Value;

/// Most partial results of one reduction. Fixed, so that a sum does not depend on the number of cores.
const PARTS: usize = 16;

/// Independent running results within a row, which the processor works on side by side.
const LANES: usize = 64;

/// Rows whose last running results are joined side by side.
const ROWS: usize = 16;

/// `x` folded over the axes where `reduced` holds, which stay with length 1.
pub(crate) fn fold<T: Cell, F: Fold<T>>(x: &Value, reduced: &[bool]) -> Result<Value> {
    let kept: Vec<usize> = x.shape().iter().zip(reduced).map(|(&len, &gone)| if gone { 1 } else { len }).collect();
    let walk = Walk::new(View::<T>::new(x)?, reduced, &kept);
    if walk.is_scattered() {
        return fold::<T, F>(&x.clone().contiguous(), reduced);
    }
    Ok(value(&kept, walk.fold::<F>()))
}

/// The operand beside its results, which it crosses with step 0 where an axis is reduced.
struct Walk<'a, T> {
    x: View<'a, T>,
    nest: Nest<2>,
    total: usize,
    results: usize,
}

impl<'a, T: Cell> Walk<'a, T> {
    fn new(x: View<'a, T>, reduced: &[bool], kept: &[usize]) -> Self {
        let dense = Layout::contiguous(Shape::from(kept.to_vec()));
        let strides = dense.strides().iter().zip(reduced).map(|(&step, &gone)| if gone { 0 } else { step }).collect();
        let results = Layout::new(x.layout().shape().clone(), strides, 0);
        let (nest, total) = (Nest::new([x.layout(), &results]), x.layout().num_elements());
        Self { x, nest, total, results: kept.iter().product() }
    }

    fn fold<F: Fold<T>>(&self) -> Vec<F::Result> {
        let (outer, [_, result_step]) = self.nest.outermost();
        if result_step > 0 && outer > 1 && self.total > CHUNK {
            return self.fold_apart::<F>(outer);
        }
        let mut states = self.fold_together::<F>();
        self.without_doubt::<F>(0..self.total, 0, &mut states);
        states.into_iter().map(F::finish).collect()
    }

    /// Whether rows are no neighbours in memory, and so many that it is faster to bring them in order first.
    fn is_scattered(&self) -> bool {
        self.total > CHUNK && self.nest.step()[0].abs() > 1 && self.x.len() >= self.total
    }

    /// Folds the steps of `range` again, one element after the other, where their results in `states`, of which the first
    /// is number `first`, may depend on the order.
    fn without_doubt<F: Fold<T>>(&self, range: Range<usize>, first: usize, states: &mut [F::State]) {
        if !states.iter().any(|&state| F::is_doubtful(state)) {
            return;
        }
        states.fill(F::IDENTITY);
        let [x_step, result_step] = self.nest.step();
        self.nest.visit(range, &mut |_, len, [at, result]| {
            for i in 0..len as isize {
                let state = &mut states[(result as isize + i * result_step) as usize - first];
                *state = F::step(*state, self.x[(at as isize + i * x_step) as usize]);
            }
        });
    }

    /// The outermost axis is kept: its parts have results of their own, which are finished while they are in the cache.
    fn fold_apart<F: Fold<T>>(&self, outer: usize) -> Vec<F::Result> {
        let (each, results) = (self.total / outer, self.results / outer);
        let group = CHUNK.div_ceil(each);
        build_parts(self.results, results * group, &|i, part| {
            let first = i * group;
            let range = first * each..first * each + part.len() / results * each;
            let mut states = vec![F::IDENTITY; part.len()];
            self.run::<F>(range.clone(), first * results, &mut states);
            self.without_doubt::<F>(range, first * results, &mut states);
            part.iter_mut().zip(states).for_each(|(place, state)| write(place, F::finish(state)));
        })
    }

    /// Parts of the elements side by side, where there are few results, else one part.
    fn fold_together<F: Fold<T>>(&self) -> Vec<F::State> {
        let (total, results) = (self.total, self.results);
        if total > CHUNK && results > 0 && results * PARTS <= total {
            return self.fold_parts::<F>(total);
        }
        let mut states = vec![F::IDENTITY; results];
        self.run::<F>(0..total, 0, &mut states);
        states
    }

    /// The outermost axis is reduced: its parts have partial results, joined in order.
    fn fold_parts<F: Fold<T>>(&self, total: usize) -> Vec<F::State> {
        let size = total.div_ceil(PARTS).max(CHUNK);
        let mut states = vec![F::IDENTITY; self.results * total.div_ceil(size)];
        chunks(&mut states, self.results, &|i, part| {
            self.run::<F>(i * size..total.min((i + 1) * size), 0, part);
        });
        let (all, parts) = states.split_at_mut(self.results);
        for part in parts.chunks(self.results) {
            all.iter_mut().zip(part).for_each(|(a, &b)| *a = F::join(*a, b));
        }
        states.truncate(self.results);
        states
    }

    /// The length of rows that follow each other in memory and are too short for a loop each.
    fn short_rows(&self) -> Option<usize> {
        let len = self.nest.row();
        let follow = self.nest.siblings() == Some([len as isize, 1]);
        (self.nest.step() == [1, 0] && follow && (1..LANES).contains(&len)).then_some(len)
    }

    /// How far apart rows lie that are long enough for a loop each, when `range` holds several and whole ones.
    fn long_rows(&self, range: &Range<usize>) -> Option<usize> {
        let len = self.nest.row();
        let [apart, result] = self.nest.siblings()?;
        let whole = self.nest.step() == [1, 0] && result == 1 && len >= LANES;
        let many =
            whole && range.start.is_multiple_of(len) && range.len().is_multiple_of(len) && range.len() >= ROWS * len;
        many.then(|| usize::try_from(apart).ok()).flatten()
    }

    /// Folds the steps of `range` into `states`, whose first belongs to result `first`.
    fn run<F: Fold<T>>(&self, range: Range<usize>, first: usize, states: &mut [F::State]) {
        let xs = &self.x;
        if let Some(len) = self.short_rows() {
            let [at, result] = self.nest.at(range.start);
            return fold_short_rows::<T, F>(&xs[at..at + range.len()], len, &mut states[result - first..]);
        }
        if let Some(apart) = self.long_rows(&range) {
            let [at, result] = self.nest.at(range.start);
            let rows = range.len() / self.nest.row();
            return fold_long_rows::<T, F>(&xs[at..], self.nest.row(), apart, &mut states[result - first..][..rows]);
        }
        let [x_step, result_step] = self.nest.step();
        self.nest.visit(range, &mut |_, len, [at, result]| {
            let row = (0..len).map(|i| xs[(at as isize + i as isize * x_step) as usize]);
            let states = &mut states[result - first..];
            match (x_step, result_step) {
                (1, 0) => states[0] = F::join(states[0], fold_slice::<T, F>(&xs[at..at + len])),
                (1, 1) => vectorized(
                    #[inline(always)]
                    || states.iter_mut().zip(&xs[at..at + len]).for_each(|(s, &x)| *s = F::step(*s, x)),
                ),
                (_, 0) => states[0] = row.fold(states[0], F::step),
                _ => states.iter_mut().step_by(result_step as usize).zip(row).for_each(|(s, x)| *s = F::step(*s, x)),
            }
        });
    }
}

/// Neighbours folded.
pub(super) fn fold_slice<T: Cell, F: Fold<T>>(xs: &[T]) -> F::State {
    if xs.len() < LANES {
        return xs.iter().fold(F::IDENTITY, |state, &x| F::step(state, x));
    }
    let mut state = F::IDENTITY;
    vectorized(
        #[inline(always)]
        || state = fold_lanes::<T, F>(xs),
    );
    state
}

/// Rows of `len` neighbours, each folded into its state: several rows side by side, the elements of each in order.
fn fold_short_rows<T: Cell, F: Fold<T>>(xs: &[T], len: usize, states: &mut [F::State]) {
    let rows = xs.len() / len;
    let (groups, rest) = states[..rows].as_chunks_mut::<ROWS>();
    let (many, few) = xs.split_at(groups.len() * ROWS * len);
    vectorized(
        #[inline(always)]
        || {
            for (rows, states) in many.chunks_exact(ROWS * len).zip(groups) {
                let mut group = *states;
                for i in 0..len {
                    let column: [T; ROWS] = from_fn(|k| rows[k * len + i]);
                    (0..ROWS).for_each(|k| group[k] = F::step(group[k], column[k]));
                }
                *states = group;
            }
        },
    );
    for (row, state) in few.chunks_exact(len).zip(rest) {
        *state = row.iter().fold(*state, |state, &x| F::step(state, x));
    }
}

/// Rows of `len` neighbours, the first elements of which lie `apart`, each folded into its state.
fn fold_long_rows<T: Cell, F: Fold<T>>(xs: &[T], len: usize, apart: usize, states: &mut [F::State]) {
    for (number, group) in states.chunks_mut(ROWS).enumerate() {
        let row = |k: usize| &xs[(number * ROWS + k) * apart..][..len];
        let Ok(group) = <&mut [F::State; ROWS]>::try_from(&mut *group) else {
            group.iter_mut().enumerate().for_each(|(k, s)| *s = F::join(*s, fold_slice::<T, F>(row(k))));
            continue;
        };
        vectorized(
            #[inline(always)]
            || {
                let mut tile = [F::IDENTITY; ROWS * ROWS];
                for (k, place) in tile.as_chunks_mut::<ROWS>().0.iter_mut().enumerate() {
                    *place = lanes::<T, F, ROWS>(row(k));
                }
                join_halves::<T, F, 8>(&mut tile);
                join_halves::<T, F, 4>(&mut tile[..ROWS * 8]);
                join_halves::<T, F, 2>(&mut tile[..ROWS * 4]);
                join_halves::<T, F, 1>(&mut tile[..ROWS * 2]);
                for (k, state) in group.iter_mut().enumerate() {
                    let rest = &row(k)[len / LANES * LANES..];
                    *state = F::join(*state, rest.iter().fold(tile[k], |state, &x| F::step(state, x)));
                }
            },
        );
    }
}

/// Joins the halves of each group of two times `HALF` results; what is made comes to the front.
#[inline(always)]
fn join_halves<T: Cell, F: Fold<T>, const HALF: usize>(tile: &mut [F::State]) {
    for group in 0..tile.len() / (2 * HALF) {
        let (from, to) = (group * 2 * HALF, group * HALF);
        let joined: [F::State; HALF] = from_fn(|k| F::join(tile[from + k], tile[from + HALF + k]));
        tile[to..to + HALF].copy_from_slice(&joined);
    }
}

#[inline(always)]
fn fold_lanes<T: Cell, F: Fold<T>>(xs: &[T]) -> F::State {
    let [state] = lanes::<T, F, 1>(xs);
    xs[xs.len() / LANES * LANES..].iter().fold(state, |state, &x| F::step(state, x))
}

/// Whole blocks of neighbours as `WIDTH` running results.
#[inline(always)]
fn lanes<T: Cell, F: Fold<T>, const WIDTH: usize>(xs: &[T]) -> [F::State; WIDTH] {
    let mut lanes = [F::IDENTITY; LANES];
    let (fours, rest) = xs.as_chunks::<{ 4 * LANES }>();
    for four in fours {
        (0..LANES).for_each(|k| lanes[k] = F::steps(lanes[k], from_fn(|i| four[i * LANES + k])));
    }
    for block in rest.as_chunks::<LANES>().0 {
        (0..LANES).for_each(|k| lanes[k] = F::step(lanes[k], block[k]));
    }
    // Halves are joined, which the processor does side by side too.
    let mut width = LANES;
    while width > WIDTH {
        width /= 2;
        (0..width).for_each(|k| lanes[k] = F::join(lanes[k], lanes[k + width]));
    }
    from_fn(|k| lanes[k])
}
