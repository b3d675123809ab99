//! Instructions that run together, and how one more would.

use crate::program::Op;

/// Most instructions of a cluster. A larger region gains nothing, as so many loops over a block take much longer than to
/// write its results once and to read them again; but whatever looks at all pairs in a region would take forever.
pub(super) const LARGEST: usize = 512;

/// What the instructions of a cluster have in common.
#[derive(Clone, Debug, Default)]
pub(super) struct Cluster {
    pub(super) members: Vec<usize>,
    pub(super) shape: Vec<usize>,
    /// How many of the last axes are folded; 0 where none is.
    pub(super) row_axes: usize,
    /// Whether more instructions may join.
    pub(super) is_open: bool,
    /// More than the depth of each cluster that must run before.
    pub(super) depth: usize,
}

impl Cluster {
    /// Elements of a row.
    pub(super) fn row(&self) -> usize {
        self.shape[self.shape.len() - self.row_axes..].iter().product()
    }

    /// Whether a value of one element for each row may have this shape.
    pub(super) fn is_row_shape(&self, shape: &[usize]) -> bool {
        let (outer, inner) = self.shape.split_at(self.shape.len() - self.row_axes);
        let kept = shape.len() == self.shape.len() && shape[..outer.len()] == *outer;
        shape == outer || kept && inner.len() <= shape.len() && shape[outer.len()..].iter().all(|&len| len == 1)
    }

    /// Whether a value of one element for each row, of this shape, is spread over the rows when it is broadcast.
    pub(super) fn spreads(&self, shape: &[usize]) -> bool {
        shape.len() == self.shape.len() && self.is_row_shape(shape)
    }
}

/// How an instruction would take part in a region.
pub(super) struct Part {
    pub(super) shape: Vec<usize>,
    pub(super) row_axes: usize,
    /// Operands whose clusters may be joined.
    pub(super) with: Vec<usize>,
}

/// Whether an operation only changes shape.
pub(super) fn is_view(op: &Op) -> bool {
    matches!(op, Op::Reshape | Op::Broadcast(_))
}
