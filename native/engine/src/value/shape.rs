//! The same elements in other shapes and orders, some of them, or joined.

use burn_backend::ops::{FloatTensorOps, IntTensorOps};
use burn_backend::{Shape, Slice};
use burn_dispatch::Dispatch;
use burn_flex::Layout;

use super::{Value, stored_shape};
use crate::cpu;
use crate::types::Type;

impl Value {
    /// The same memory seen as elements of `dtype`, which are stored alike.
    pub(crate) fn relabel(self, dtype: Type) -> Self {
        debug_assert_eq!(self.dtype.storage(), dtype.storage());
        Self { dtype, ..self }
    }

    /// A complex tensor as a real one whose last axis holds the two parts; other tensors themselves.
    pub(crate) fn into_parts(self) -> Self {
        let part = self.dtype.part();
        self.relabel(part)
    }

    /// The real (0) or imaginary (1) part of a complex tensor.
    pub(crate) fn part(self, part: usize) -> Self {
        let shape = self.shape();
        let parts = self.into_parts();
        let mut slices = vec![Slice::full(); shape.len()];
        // Memory without elements has no second one to start at.
        let start = if shape.contains(&0) { 0 } else { part };
        slices.push((start..start + 1).into());
        parts.slice(&slices).reshape(&shape)
    }

    /// The same elements in another shape.
    ///
    /// # Panics
    ///
    /// When the shape is of another number of elements.
    pub fn reshape(mut self, shape: &[usize]) -> Self {
        if self.has_shape(shape) {
            return self;
        }
        // A layout of more elements would read its neighbours in memory.
        assert!(self.len() == shape.iter().product::<usize>(), "{} is not of the size of {shape:?}", self.ty());
        let shape = stored_shape(self.dtype, shape);
        if let Some(tensor) = self.flex() {
            if let Some(layout) = tensor.layout().reshape(shape.clone()) {
                return self.laid(layout);
            }
            self = self.contiguous();
        }
        by_class!(self, |t| Dispatch::float_reshape(t, shape), |t| Dispatch::int_reshape(t, shape))
    }

    /// The axes in another order.
    pub fn permute(self, axes: &[usize]) -> Self {
        let parts = self.dtype.is_complex().then_some(axes.len());
        let axes: Vec<usize> = axes.iter().copied().chain(parts).collect();
        if let Some(tensor) = self.flex() {
            let layout = tensor.layout().permute(&axes);
            return self.laid(layout);
        }
        by_class!(self, |t| Dispatch::float_permute(t, &axes), |t| Dispatch::int_permute(t, &axes))
    }

    /// The last two axes exchanged.
    pub(crate) fn turned(self) -> Self {
        let rank = self.rank();
        let mut axes: Vec<usize> = (0..rank).collect();
        axes.swap(rank - 2, rank - 1);
        self.permute(&axes)
    }

    /// Axes of length 1 repeated to `shape`, which has the same rank.
    ///
    /// # Panics
    ///
    /// When the rank or the length of another axis differs.
    pub fn expand(self, shape: &[usize]) -> Self {
        if self.has_shape(shape) {
            return self;
        }
        let shape = stored_shape(self.dtype, shape);
        if let Some(tensor) = self.flex() {
            let layout = expanded(tensor.layout(), shape);
            return self.laid(layout);
        }
        by_class!(self, |t| Dispatch::float_expand(t, shape), |t| Dispatch::int_expand(t, shape))
    }

    /// Reversed along `axes`.
    pub fn flip(self, axes: &[usize]) -> Self {
        by_class!(self, |t| Dispatch::float_flip(t, axes), |t| Dispatch::int_flip(t, axes))
    }

    /// Every so many elements, `strides` says for each axis how many, of the `lengths` from `starts` on, which are inside.
    pub(crate) fn cut(self, starts: &[usize], lengths: &[usize], strides: &[usize]) -> Self {
        if let Some(tensor) = self.flex().filter(|_| !lengths.contains(&0)) {
            let layout = window(tensor.layout(), starts, lengths, strides);
            return self.laid(layout);
        }
        let axes = starts.iter().zip(lengths).zip(strides);
        let slices: Vec<_> = axes
            .map(|((&start, &length), &stride)| {
                Slice::new(start as isize, Some((start + length) as isize), stride as isize)
            })
            .collect();
        self.slice(&slices)
    }

    /// The ranges `slices`, one for each axis.
    pub fn slice(self, slices: &[Slice]) -> Self {
        let slices = self.stored_slices(slices);
        if let Some(tensor) = self.flex() {
            let (layout, _) = tensor.layout().slice(&slices);
            return self.laid(layout);
        }
        by_class!(self, |t| Dispatch::float_slice(t, &slices), |t| Dispatch::int_slice(t, &slices))
    }

    /// With the ranges `slices` replaced by `part`.
    pub fn slice_assign(self, slices: &[Slice], part: Self) -> Self {
        let slices = self.stored_slices(slices);
        let part = part.into_tensor();
        by_class!(self, |t| Dispatch::float_slice_assign(t, &slices, part.clone()), |t| Dispatch::int_slice_assign(
            t,
            &slices,
            part.clone()
        ))
    }

    fn stored_slices(&self, slices: &[Slice]) -> Vec<Slice> {
        let parts = self.dtype.is_complex().then_some(Slice::full());
        slices.iter().copied().chain(parts).collect()
    }

    /// Joined along `axis`; all parts have this value's type.
    ///
    /// # Panics
    ///
    /// When `parts` is empty.
    pub fn cat(parts: Vec<Self>, axis: usize) -> Self {
        if let Ok(joined) = cpu::concatenate(&parts, axis) {
            return joined;
        }
        // Some are tracked by autodiff.
        let dtype = parts[0].dtype;
        let tensors = parts.into_iter().map(|p| p.into_tensor()).collect();
        let cat = if dtype.storage().is_float() { Dispatch::float_cat } else { Dispatch::int_cat };
        Self::new(dtype, cat(tensors, axis))
    }
}

/// The layout of a tensor whose axes of length 1 repeat to `shape`.
fn expanded(layout: &Layout, shape: Shape) -> Layout {
    let lengths = layout.shape().iter();
    let fits =
        layout.num_dims() == shape.num_dims() && lengths.zip(&shape[..]).all(|(&own, &to)| own == to || own == 1);
    // Other elements than those of the tensor would be read.
    assert!(fits, "{:?} does not repeat to {shape:?}", layout.shape());
    let axes = layout.shape().iter().zip(layout.strides()).zip(&shape[..]);
    let strides = axes.map(|((&length, &stride), &to)| if length == to { stride } else { 0 }).collect();
    Layout::new(shape, strides, layout.start_offset())
}

/// The layout of every so many elements of a part of a tensor. Both parts of complex numbers, an axis more, stay.
fn window(layout: &Layout, starts: &[usize], lengths: &[usize], strides: &[usize]) -> Layout {
    let (mut shape, mut steps) = (layout.shape().clone(), layout.strides().to_vec());
    let mut start = layout.start_offset();
    for (axis, &first) in starts.iter().enumerate() {
        start = start.wrapping_add_signed(first as isize * steps[axis]);
        shape[axis] = lengths[axis].div_ceil(strides[axis]);
        steps[axis] *= strides[axis] as isize;
    }
    Layout::new(shape, steps, start)
}
