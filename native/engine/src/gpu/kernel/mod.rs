//! The code of kernels.

pub(super) mod apply;
pub(super) mod finite;
pub(super) mod fold;
pub(super) mod function;
pub(super) mod region;
