//! Convolution of images with channels last.

mod geometry;
mod kernel;
mod rows;

pub(crate) use geometry::Geometry;
pub(crate) use kernel::{convolve, images_gradient, kernel_gradient};
pub(crate) use rows::convolve_rows;
