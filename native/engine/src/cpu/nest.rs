//! One walk over the elements of several tensors of one shape.

use std::ops::Range;

use burn_flex::Layout;

/// A row-major walk over `N` tensors of one shape, cut into rows that every tensor crosses with one step.
pub(super) struct Nest<const N: usize> {
    /// Axes outside of a row, outermost first: length and each tensor's step.
    outer: Vec<(usize, [isize; N])>,
    /// Elements in a row.
    len: usize,
    /// Each tensor's step within a row.
    step: [isize; N],
    /// Each tensor's first element.
    start: [usize; N],
}

impl<const N: usize> Nest<N> {
    /// The walk over tensors of these layouts, whose shapes are equal. Neighbouring axes that every tensor crosses like
    /// one are walked as one.
    pub(super) fn new(layouts: [&Layout; N]) -> Self {
        if layouts.iter().all(|layout| layout.is_contiguous()) {
            let (len, start) = (layouts[0].num_elements(), layouts.map(Layout::start_offset));
            return Self { outer: Vec::new(), len, step: [1; N], start };
        }
        let mut axes: Vec<(usize, [isize; N])> = Vec::new();
        for (axis, &len) in layouts[0].shape().iter().enumerate().filter(|&(_, &len)| len != 1) {
            let step = layouts.map(|layout| layout.strides()[axis]);
            match axes.last_mut() {
                Some((outer, steps)) if (0..N).all(|k| steps[k] == step[k] * len as isize) => {
                    (*outer, *steps) = (*outer * len, step);
                }
                _ => axes.push((len, step)),
            }
        }
        let (len, step) = axes.pop().unwrap_or((1, [1; N]));
        Self { outer: axes, len, step, start: layouts.map(Layout::start_offset) }
    }

    /// Each tensor's first element for `count` steps from step `first` on, when every tensor crosses them with step 1.
    pub(super) fn neighbours(&self, first: usize, count: usize) -> Option<[usize; N]> {
        let column = first.checked_rem(self.len)?;
        (self.step == [1; N] && column + count <= self.len).then(|| self.offsets(first / self.len, column))
    }

    /// Walks over the steps of `range`, a row or a part of one at a time: its first step, its length and each tensor's
    /// first element.
    pub(super) fn visit(&self, range: Range<usize>, row: &mut dyn FnMut(usize, usize, [usize; N])) {
        let mut at = range.start;
        while at < range.end {
            let (number, column) = (at / self.len, at % self.len);
            let mut offsets = self.offsets(number, column);
            // Rows along the innermost of the outer axes lie a step apart.
            let (siblings, steps) = self.outer.last().copied().unwrap_or((1, [0; N]));
            let mut count = self.len - column;
            for _ in 0..siblings - number % siblings {
                count = count.min(range.end - at);
                row(at, count, offsets);
                at += count;
                if at == range.end {
                    return;
                }
                if count < self.len {
                    break;
                }
                (0..N).for_each(|k| offsets[k] = offsets[k].wrapping_add_signed(steps[k]));
            }
        }
    }

    /// Each tensor's element for step number `at`.
    pub(super) fn at(&self, at: usize) -> [usize; N] {
        self.offsets(at / self.len, at % self.len)
    }

    /// Each tensor's step within a row.
    pub(super) fn step(&self) -> [isize; N] {
        self.step
    }

    /// Elements in a row.
    pub(super) fn row(&self) -> usize {
        self.len
    }

    /// Each tensor's step from a row to the next, when all rows lie along one axis.
    pub(super) fn siblings(&self) -> Option<[isize; N]> {
        match self.outer[..] {
            [(_, steps)] => Some(steps),
            _ => None,
        }
    }

    /// Length of the outermost axis and each tensor's step along it.
    pub(super) fn outermost(&self) -> (usize, [isize; N]) {
        self.outer.first().copied().unwrap_or((self.len, self.step))
    }

    fn offsets(&self, mut row: usize, column: usize) -> [usize; N] {
        let mut at: [isize; N] = std::array::from_fn(|k| self.start[k] as isize + column as isize * self.step[k]);
        for (len, steps) in self.outer.iter().rev() {
            let index = (row % len) as isize;
            row /= len;
            (0..N).for_each(|k| at[k] += index * steps[k]);
        }
        at.map(|offset| offset as usize)
    }
}
