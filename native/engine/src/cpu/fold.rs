//! Reductions, in one pass over the operand.

use std::ops::Range;

use burn_backend::Shape;
use burn_flex::Layout;

use super::block::vectorized;
use super::nest::Nest;
use super::tasks::{CHUNK, chunks};
use super::{Cell, Number, Total, View, value};
use crate::error::Result;
use crate::value::Value;

/// Most partial results of one reduction. Fixed, so that a sum does not depend on the number of cores.
const PARTS: usize = 16;

/// Independent running results within a row, which the processor works on side by side.
const LANES: usize = 64;

/// How elements are folded, in any order.
pub(crate) trait Fold<T> {
    /// The running result.
    type State: Copy + Send + Sync;

    /// What the running result ends as.
    type Result: Cell;

    /// The result of nothing.
    const IDENTITY: Self::State;

    /// Takes one more element.
    fn step(state: Self::State, x: T) -> Self::State;

    /// Makes one of two running results.
    fn join(a: Self::State, b: Self::State) -> Self::State;

    /// Rounds the running result.
    fn finish(state: Self::State) -> Self::Result;

    /// Whether another order may give another result: infinities that parts grew to may have met, or a zero.
    fn is_doubtful(_state: Self::State) -> bool {
        false
    }
}

/// `x` folded over the axes where `reduced` holds, which stay with length 1.
pub(crate) fn fold<T: Cell, F: Fold<T>>(x: &Value, reduced: &[bool]) -> Result<Value> {
    let kept: Vec<usize> = x.shape().iter().zip(reduced).map(|(&len, &gone)| if gone { 1 } else { len }).collect();
    let walk = Walk::new(View::<T>::new(x)?, reduced, &kept);
    if walk.is_scattered() {
        return fold::<T, F>(&x.clone().contiguous(), reduced);
    }
    let mut states = walk.fold::<F>();
    if states.iter().any(|&state| F::is_doubtful(state)) {
        states = walk.fold_in_order::<F>();
    }
    Ok(value(&kept, states.into_iter().map(F::finish).collect()))
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

    fn fold<F: Fold<T>>(&self) -> Vec<F::State> {
        let total = self.total;
        let mut states = vec![F::IDENTITY; self.results];
        let (outer, [_, result_step]) = self.nest.outermost();
        if total <= CHUNK || self.results == 0 {
            self.run::<F>(0..total, 0, &mut states);
        } else if result_step > 0 && outer > 1 {
            self.fold_apart::<F>(outer, &mut states);
        } else if self.results * PARTS <= total {
            return self.fold_parts::<F>(total);
        } else {
            self.run::<F>(0..total, 0, &mut states);
        }
        states
    }

    /// Whether rows are no neighbours in memory, and so many that it is faster to bring them in order first.
    fn is_scattered(&self) -> bool {
        self.total > CHUNK && self.nest.step()[0].abs() > 1 && self.x.len() >= self.total
    }

    /// One element after the other.
    fn fold_in_order<F: Fold<T>>(&self) -> Vec<F::State> {
        let mut states = vec![F::IDENTITY; self.results];
        let [x_step, result_step] = self.nest.step();
        self.nest.visit(0..self.total, &mut |_, len, [at, result]| {
            for i in 0..len as isize {
                let state = &mut states[(result as isize + i * result_step) as usize];
                *state = F::step(*state, self.x[(at as isize + i * x_step) as usize]);
            }
        });
        states
    }

    /// The outermost axis is kept: its parts have results of their own.
    fn fold_apart<F: Fold<T>>(&self, outer: usize, states: &mut [F::State]) {
        let (each, results) = (self.total / outer, self.results / outer);
        let group = CHUNK.div_ceil(each.max(1));
        chunks(states, results * group, &|i, part| {
            let first = i * group;
            let last = first + part.len() / results;
            self.run::<F>(first * each..last * each, first * results, part);
        });
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

    /// Folds the steps of `range` into `states`, whose first belongs to result `first`.
    fn run<F: Fold<T>>(&self, range: Range<usize>, first: usize, states: &mut [F::State]) {
        let xs = &self.x;
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

#[inline(always)]
fn fold_lanes<T: Cell, F: Fold<T>>(xs: &[T]) -> F::State {
    let mut lanes = [F::IDENTITY; LANES];
    let (blocks, rest) = xs.as_chunks::<LANES>();
    for block in blocks {
        (0..LANES).for_each(|k| lanes[k] = F::step(lanes[k], block[k]));
    }
    // Halves are joined, which the processor does side by side too.
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        (0..width).for_each(|k| lanes[k] = F::join(lanes[k], lanes[k + width]));
    }
    rest.iter().fold(lanes[0], |state, &x| F::step(state, x))
}

/// The sum, wide for floats and wrapping for integers.
pub(crate) struct Sum;

impl<T: Cell> Fold<T> for Sum {
    type State = T::Total;
    type Result = T;

    const IDENTITY: T::Total = T::Total::ZERO;

    fn step(state: T::Total, x: T) -> T::Total {
        state.plus(x.total())
    }

    fn join(a: T::Total, b: T::Total) -> T::Total {
        a.plus(b)
    }

    fn finish(state: T::Total) -> T {
        T::from_total(state)
    }

    fn is_doubtful(state: T::Total) -> bool {
        state.is_nan()
    }
}

/// The product, wide for floats and wrapping for integers.
pub(crate) struct Product;

impl<T: Cell> Fold<T> for Product {
    type State = T::Total;
    type Result = T;

    const IDENTITY: T::Total = T::Total::ONE;

    fn step(state: T::Total, x: T) -> T::Total {
        state.times(x.total())
    }

    fn join(a: T::Total, b: T::Total) -> T::Total {
        a.times(b)
    }

    fn finish(state: T::Total) -> T {
        T::from_total(state)
    }

    fn is_doubtful(state: T::Total) -> bool {
        state.is_nan()
    }
}

macro_rules! choice {
    ($($(#[$doc:meta])* $name:ident, $identity:ident, $wins:tt;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl<T: Number> Fold<T> for $name {
            type State = T;
            type Result = T;

            const IDENTITY: T = T::$identity;

            fn step(state: T, x: T) -> T {
                if x $wins state || x.is_unordered() { x } else { state }
            }

            fn join(a: T, b: T) -> T {
                Self::step(a, b)
            }

            fn finish(state: T) -> T {
                state
            }
        }
    )*};
}

choice! {
    /// The largest; NaN when there is one.
    Max, LOWEST, >;
    /// The smallest; NaN when there is one.
    Min, HIGHEST, <;
}

macro_rules! truth {
    ($($(#[$doc:meta])* $name:ident, $identity:literal, $combine:tt;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl<T: Cell> Fold<T> for $name {
            type State = bool;
            type Result = u8;

            const IDENTITY: bool = $identity;

            fn step(state: bool, x: T) -> bool {
                state $combine (x != T::default())
            }

            fn join(a: bool, b: bool) -> bool {
                a $combine b
            }

            fn finish(state: bool) -> u8 {
                state.into()
            }
        }
    )*};
}

truth! {
    /// 1 when no element is zero.
    All, true, &;
    /// 1 when an element is not zero.
    Any, false, |;
}
