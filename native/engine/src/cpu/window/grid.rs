//! Where the windows over several axes begin, and what they are made of.

use super::WindowAxis;

/// The windows of a contiguous tensor, all of whose elements exist: rows of windows that lie one step apart.
pub(super) struct Grid {
    /// Axes of rows, outermost first: how many there are and how far apart in memory.
    outer: Vec<(usize, usize)>,
    /// Windows of a row.
    pub(super) row: usize,
    /// Distance of the windows of a row.
    pub(super) step: usize,
    /// Where the elements of a window are, counted from its first one, in row-major order.
    pub(super) taps: Vec<usize>,
    /// Parts of the tensor that share no window.
    pub(super) blocks: usize,
    /// Elements of such a part.
    pub(super) block: usize,
}

impl Grid {
    pub(super) fn new(axes: &[WindowAxis]) -> Self {
        let free = axes.iter().take_while(|axis| axis.is_identity()).count();
        let mut steps = vec![1; axes.len() + 1];
        (0..axes.len()).rev().for_each(|at| steps[at] = steps[at + 1] * axes[at].length);
        let each = |at: usize| (axes[at].count, axes[at].stride * steps[at + 1]);
        let mut rows = merged((free..axes.len()).map(each));
        let (row, step) = rows.pop().unwrap_or((1, 1));
        let outer = [merged((0..free).map(each)), rows].concat();
        let taps = positions(&merged((free..axes.len()).map(|at| (axes[at].size, axes[at].dilation * steps[at + 1]))));
        let blocks = axes[..free].iter().map(|axis| axis.count).product();
        Self { outer, row, step, taps, blocks, block: steps[free] }
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.outer.iter().map(|(count, _)| count).product()
    }

    /// Where the first window of row `row` begins.
    pub(super) fn first(&self, row: usize) -> usize {
        position(&self.outer, row)
    }
}

/// The same elements by fewer axes.
fn merged(axes: impl Iterator<Item = (usize, usize)>) -> Vec<(usize, usize)> {
    let mut merged: Vec<(usize, usize)> = vec![];
    for (count, step) in axes.filter(|&(count, _)| count != 1) {
        match merged.last_mut() {
            Some(outer) if outer.1 == count * step => *outer = (outer.0 * count, step),
            _ => merged.push((count, step)),
        }
    }
    merged
}

/// Element `number` of a grid, in row-major order.
fn position(axes: &[(usize, usize)], mut number: usize) -> usize {
    let mut position = 0;
    for &(count, step) in axes.iter().rev() {
        position += number % count * step;
        number /= count;
    }
    position
}

fn positions(axes: &[(usize, usize)]) -> Vec<usize> {
    let count = axes.iter().map(|(count, _)| count).product();
    (0..count).map(|number| position(axes, number)).collect()
}
