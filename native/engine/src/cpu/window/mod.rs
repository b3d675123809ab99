//! Kernels that see windows of neighbouring elements.

mod axis;
mod extrema;
mod fold;
mod gradient;
mod grid;
mod side;

pub(crate) use axis::WindowAxis;
pub(crate) use extrema::{add_at_extrema, extrema};
pub(crate) use fold::fold_windows;
pub(crate) use gradient::{Share, window_gradient};

/// One axis of a contiguous tensor that is cut into windows. Before it lie `outer` elements, after it `inner`, which
/// neighbour each other in memory.
#[derive(Clone, Copy, Debug)]
struct Frame {
    axis: WindowAxis,
    outer: usize,
    inner: usize,
}

impl Frame {
    /// The frame of axis `at` of a tensor of `shape`, whatever the length of that axis is there.
    fn new(axis: WindowAxis, at: usize, shape: &[usize]) -> Self {
        Self { axis, outer: shape[..at].iter().product(), inner: shape[at + 1..].iter().product() }
    }
}
