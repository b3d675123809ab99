//! The code of kernels.

mod angle;
pub(super) mod apply;
pub(super) mod arg;
pub(super) mod copy;
mod double;
pub(super) mod exact;
pub(super) mod finite;
pub(super) mod fold;
pub(super) mod fourier;
pub(super) mod function;
pub(super) mod merge;
mod nearest;
mod normal;
mod power;
pub(super) mod region;
pub(super) mod rows;
pub(super) mod scan;
pub(super) mod scatter;
mod small;
mod strip;
pub(super) mod tiled;
pub(super) mod triangular;
