//! Running folds along a line, and their gradient.

use super::block::vectorized;
use super::fold::fold_slice;
use super::tasks::{CHUNK, chunks};
use super::{Cell, Fold};

/// Parts of a line that one core works on side by side, because each step waits for the last.
const LANES: usize = 4;

/// Each prefix of `line` folded, one element after the other.
pub(crate) fn scan<T: Cell, F: Fold<T>>(line: &[T], out: &mut [F::Result]) {
    scan_from::<T, F>(F::IDENTITY, line, out);
}

fn scan_from<T: Cell, F: Fold<T>>(mut state: F::State, line: &[T], out: &mut [F::Result]) {
    for (&x, out) in line.iter().zip(out) {
        state = F::step(state, x);
        *out = F::finish(state);
    }
}

/// Each prefix of `line` folded, in parts that start from the fold of all before.
pub(crate) fn scan_in_parts<T: Cell, F: Fold<T>>(line: &[T], out: &mut [F::Result]) {
    if line.len() <= CHUNK {
        return scan_lanes::<T, F>(F::IDENTITY, line, out);
    }
    let parts: Vec<&[T]> = line.chunks(CHUNK).collect();
    let mut starts = vec![F::IDENTITY; parts.len()];
    chunks(&mut starts, 1, &|i, start| start[0] = fold_slice::<T, F>(parts[i]));
    let mut state = F::IDENTITY;
    starts.iter_mut().for_each(|start| state = F::join(state, std::mem::replace(start, state)));
    chunks(out, CHUNK, &|i, out| scan_lanes::<T, F>(starts[i], parts[i], out));
}

fn scan_lanes<T: Cell, F: Fold<T>>(start: F::State, line: &[T], out: &mut [F::Result]) {
    let size = line.len() / LANES;
    if size < 2 * LANES {
        return scan_from::<T, F>(start, line, out);
    }
    let mut states = [start; LANES];
    (1..LANES).for_each(|k| states[k] = F::join(states[k - 1], fold_slice::<T, F>(&line[(k - 1) * size..k * size])));
    let (lanes, rest) = line.split_at(LANES * size);
    let (out, out_rest) = out.split_at_mut(LANES * size);
    vectorized(
        #[inline(always)]
        || step_lanes::<T, F>(&mut states, lanes, out, size),
    );
    scan_from::<T, F>(states[LANES - 1], rest, out_rest);
}

/// Scans parts of `size` elements side by side.
#[inline(always)]
fn step_lanes<T: Cell, F: Fold<T>>(states: &mut [F::State; LANES], xs: &[T], out: &mut [F::Result], size: usize) {
    let [a, b, c, d]: [&[T]; LANES] = std::array::from_fn(|k| &xs[k * size..(k + 1) * size]);
    let (left, right) = out.split_at_mut(2 * size);
    let ((p, q), (r, s)) = (left.split_at_mut(size), right.split_at_mut(size));
    let s = &mut s[..size];
    let [mut at_a, mut at_b, mut at_c, mut at_d] = *states;
    for i in 0..size {
        (at_a, at_b) = (F::step(at_a, a[i]), F::step(at_b, b[i]));
        (at_c, at_d) = (F::step(at_c, c[i]), F::step(at_d, d[i]));
        (p[i], q[i], r[i], s[i]) = (F::finish(at_a), F::finish(at_b), F::finish(at_c), F::finish(at_d));
    }
    *states = [at_a, at_b, at_c, at_d];
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
