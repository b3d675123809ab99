//! Elements as they are stored, for kernels that move them and ask nothing but their width.

use burn_backend::{DType, Shape};
use burn_flex::{FlexTensor, Layout};
use burn_std::Bytes;
use bytemuck::Pod;
use num_traits::{PrimInt, WrappingNeg};

use super::turn::Turn;

/// An unsigned integer that stands for any element of its width.
pub(super) trait Stored: PrimInt + WrappingNeg + Pod + Default + Send + Sync + Turn {}

impl Stored for u8 {}

impl Stored for u16 {}

impl Stored for u32 {}

impl Stored for u64 {}

/// A contiguous tensor of `dtype` from its elements.
pub(super) fn stored<T: Stored>(elements: Vec<T>, shape: Shape, dtype: DType) -> FlexTensor {
    let bytes = Bytes::from_elems(elements);
    FlexTensor::new(bytes, Layout::contiguous(shape), dtype)
}

/// Evaluates `$body` with `$t` as the type that stands for elements of `$width` bytes.
macro_rules! for_width {
    ($width:expr, $t:ident => $body:expr) => {
        match $width {
            1 => {
                type $t = u8;
                $body
            }
            2 => {
                type $t = u16;
                $body
            }
            4 => {
                type $t = u32;
                $body
            }
            _ => {
                type $t = u64;
                $body
            }
        }
    };
}

pub(super) use for_width;
