//! Plain memory as kernels read it.

use std::borrow::Cow;
use std::ops::Deref;

use burn_backend::Shape;
use burn_flex::Layout;

use super::{Cell, memory};
use crate::error::{Error, Result};
use crate::value::Value;

/// The elements of a tensor, with those between and around them, and where its axes lie among them.
pub(crate) struct View<'a, T> {
    elements: &'a [T],
    layout: Cow<'a, Layout>,
}

impl<'a, T: Cell> View<'a, T> {
    /// The memory of a plain value.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the value has another type or does not lie in the CPU's memory.
    pub(crate) fn new(value: &'a Value) -> Result<Self> {
        let tensor = memory(value)?;
        let bytes = tensor.bytes();
        let elements = if bytes.is_empty() { Ok(&[][..]) } else { bytemuck::try_cast_slice(bytes) };
        let elements = elements.map_err(|e| Error::invalid("kernel", e))?;
        if value.dtype() != T::TYPE {
            return Err(Error::invalid("kernel", format!("got a tensor of {}, expected {}", value.dtype(), T::TYPE)));
        }
        let layout = match T::TYPE.is_complex() {
            true => {
                let pairs = pair_layout(tensor.layout());
                Cow::Owned(pairs.ok_or_else(|| Error::invalid("kernel", "parts lie apart"))?)
            }
            false => Cow::Borrowed(tensor.layout()),
        };
        Ok(Self { elements, layout })
    }

    /// Where the axes lie.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }
}

impl<T> Deref for View<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.elements
    }
}

/// The layout of pairs, from the one of their parts; `None` when the parts of a pair do not neighbour each other.
fn pair_layout(parts: &Layout) -> Option<Layout> {
    let (shape, strides) = (parts.shape(), parts.strides());
    let rank = strides.len().checked_sub(1)?;
    let whole = |axis: usize| shape[axis] < 2 || strides[axis] % 2 == 0;
    if strides[rank] != 1 || !parts.start_offset().is_multiple_of(2) || !(0..rank).all(whole) {
        return None;
    }
    let strides = strides[..rank].iter().map(|stride| stride / 2).collect();
    Some(Layout::new(Shape::from(shape[..rank].to_vec()), strides, parts.start_offset() / 2))
}
