//! Running folds along a line, and their gradient.

use std::array::from_fn;

use bytemuck::{cast_slice, cast_slice_mut};

use super::block::vectorized;
use super::fold::fold_slice;
use super::prefix::running_sums;
use super::tasks::{CHUNK, chunks};
use super::{Cell, Fold};
use crate::types::Type;

/// Stretches of neighbours that are scanned side by side, because each step of a scan waits for the last.
const STRETCHES: usize = 8;

/// Elements of a stretch.
const LENGTH: usize = 32;

const BLOCK: usize = STRETCHES * LENGTH;

/// Each prefix of `line` folded, in parts that start from the fold of all before.
pub(crate) fn scan<T: Cell, F: Fold<T>>(line: &[T], out: &mut [F::Result]) {
    if line.len() <= CHUNK {
        if F::IS_SUM && T::TYPE == Type::F32 && running_sums(cast_slice(line), cast_slice_mut(out)) {
            return;
        }
        if F::is_doubtful(scan_from::<T, F>(F::IDENTITY, line, out)) {
            scan_in_order::<T, F>(F::IDENTITY, line, out);
        }
        return;
    }
    let parts: Vec<&[T]> = line.chunks(CHUNK).collect();
    let mut starts = vec![F::IDENTITY; parts.len()];
    chunks(&mut starts, 1, &|i, start| start[0] = fold_slice::<T, F>(parts[i]));
    let mut state = F::IDENTITY;
    starts.iter_mut().for_each(|start| state = F::join(state, std::mem::replace(start, state)));
    if F::is_doubtful(state) {
        scan_in_order::<T, F>(F::IDENTITY, line, out);
        return;
    }
    chunks(out, CHUNK, &|i, out| {
        scan_from::<T, F>(starts[i], parts[i], out);
    });
}

/// Scans on from `state`; answers the state at the end.
fn scan_from<T: Cell, F: Fold<T>>(mut state: F::State, line: &[T], out: &mut [F::Result]) -> F::State {
    let (blocks, rest) = line.as_chunks::<BLOCK>();
    let (block_results, rest_results) = out.as_chunks_mut::<BLOCK>();
    vectorized(
        #[inline(always)]
        || state = scan_blocks::<T, F>(state, blocks, block_results),
    );
    scan_in_order::<T, F>(state, rest, rest_results)
}

fn scan_in_order<T: Cell, F: Fold<T>>(mut state: F::State, line: &[T], out: &mut [F::Result]) -> F::State {
    for (&x, out) in line.iter().zip(out) {
        state = F::step(state, x);
        *out = F::finish(state);
    }
    state
}

#[inline(always)]
fn scan_blocks<T: Cell, F: Fold<T>>(
    mut state: F::State,
    blocks: &[[T; BLOCK]],
    out: &mut [[F::Result; BLOCK]],
) -> F::State {
    let mut sums = [[F::IDENTITY; STRETCHES]; LENGTH];
    for (block, out) in blocks.iter().zip(out) {
        let mut ends = [F::IDENTITY; STRETCHES];
        for (i, sums) in sums.iter_mut().enumerate() {
            ends = from_fn(|k| F::step(ends[k], block[k * LENGTH + i]));
            *sums = ends;
        }
        let starts = ends.map(|end| {
            let start = state;
            state = F::join(state, end);
            start
        });
        for (i, sums) in sums.iter().enumerate() {
            let results: [F::Result; STRETCHES] = from_fn(|k| F::finish(F::join(starts[k], sums[k])));
            (0..STRETCHES).for_each(|k| out[k * LENGTH + i] = results[k]);
        }
    }
    state
}

/// A function of two numbers with its derivatives by each.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    /// The function.
    pub(crate) value: fn(f64, f64) -> f64,
    /// Its derivatives at two numbers.
    pub(crate) slopes: fn(f64, f64) -> [f64; 2],
}

/// The gradient of `x` from the gradient `g` of each prefix of `x` folded by `pair`.
///
/// Nx folds prefixes by an associative scan: neighbours first, then the pairs. Going back through the same tree gives
/// elements that tie the shares they have in Nx.
pub(crate) fn scan_gradient(pair: Pair, x: &[f64], g: &[f64]) -> Vec<f64> {
    if x.len() < 2 {
        return g.to_vec();
    }
    let couples = couples(pair, x);
    let odd = scan_tree(pair, &couples);
    let mut odd_g: Vec<f64> = g.iter().skip(1).step_by(2).copied().collect();
    let mut out = vec![0.0; x.len()];
    out[0] = g[0];
    for i in (2..x.len()).step_by(2) {
        let [before, own] = (pair.slopes)(odd[i / 2 - 1], x[i]);
        odd_g[i / 2 - 1] += g[i] * before;
        out[i] = g[i] * own;
    }
    for (i, g) in scan_gradient(pair, &couples, &odd_g).into_iter().enumerate() {
        let [right, left] = (pair.slopes)(x[2 * i + 1], x[2 * i]);
        out[2 * i + 1] += g * right;
        out[2 * i] += g * left;
    }
    out
}

/// Each prefix of `x` folded, neighbours first.
fn scan_tree(pair: Pair, x: &[f64]) -> Vec<f64> {
    if x.len() < 2 {
        return x.to_vec();
    }
    let odd = scan_tree(pair, &couples(pair, x));
    let prefix = |i: usize| match i {
        0 => x[0],
        _ if i % 2 == 1 => odd[i / 2],
        _ => (pair.value)(odd[i / 2 - 1], x[i]),
    };
    (0..x.len()).map(prefix).collect()
}

fn couples(pair: Pair, x: &[f64]) -> Vec<f64> {
    x.chunks_exact(2).map(|two| (pair.value)(two[1], two[0])).collect()
}
