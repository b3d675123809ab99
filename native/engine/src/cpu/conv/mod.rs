//! Convolution of images with channels last.

mod geometry;
mod kernel;

pub(crate) use geometry::Geometry;
pub(crate) use kernel::{convolve, images_gradient, kernel_gradient};
