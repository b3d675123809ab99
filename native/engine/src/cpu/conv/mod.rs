//! Convolution of images with channels last.

mod geometry;
mod kernel;
mod product;

pub(crate) use geometry::Geometry;
pub(crate) use kernel::{convolve, images_gradient, kernel_gradient};
