//! Running folds along a line, and their gradient.

use super::{Cell, Fold};

/// Each prefix of `line` folded.
pub(crate) fn scan<T: Cell, F: Fold<T>>(line: &[T], out: &mut [F::Result]) {
    let mut state = F::IDENTITY;
    for (&x, out) in line.iter().zip(out) {
        state = F::step(state, x);
        *out = F::finish(state);
    }
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
