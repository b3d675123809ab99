//! Values in the CPU's memory, as they lie there.

use std::cmp::Reverse;
use std::sync::Arc;

use burn_backend::Slice;
use burn_dispatch::{BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind};
use burn_flex::{FlexTensor, Layout};

use super::{Memory, Value};
use crate::cpu;
use crate::error::{Error, Result};
use crate::types::Type;

impl Value {
    /// The memory as the CPU backend keeps it: shared, possibly strided. `None` on other devices and while tracked by
    /// autodiff.
    pub fn flex(&self) -> Option<&FlexTensor> {
        match &self.burn()?.kind {
            DispatchTensorKind::Flex(
                BackendTensor::Float(tensor) | BackendTensor::Int(tensor) | BackendTensor::Bool(tensor),
            ) => Some(tensor),
            _ => None,
        }
    }

    /// [`flex`](Self::flex) for writing, a handle of this value's own: others that share the memory count as holders of it.
    pub fn flex_mut(&mut self) -> Option<&mut FlexTensor> {
        self.flex()?;
        let Memory::Burn(tensor) = &mut self.memory else { return None };
        match &mut Arc::make_mut(tensor).kind {
            DispatchTensorKind::Flex(
                BackendTensor::Float(tensor) | BackendTensor::Int(tensor) | BackendTensor::Bool(tensor),
            ) => Some(tensor),
            _ => None,
        }
    }

    /// Whether nobody else holds the memory, of the CPU.
    pub(crate) fn is_alone(&self) -> bool {
        self.burn().is_some_and(|handle| Arc::strong_count(handle) == 1)
            && self.flex().is_some_and(FlexTensor::is_unique)
    }

    /// The same memory with a handle of its own: another core counts its holders without waiting for those of this one.
    pub(crate) fn apart(&self) -> Self {
        match self.burn() {
            Some(handle) => Self { dtype: self.dtype, memory: Memory::Burn(Arc::new(DispatchTensor::clone(handle))) },
            None => self.clone(),
        }
    }

    fn burn(&self) -> Option<&Arc<DispatchTensor>> {
        match &self.memory {
            Memory::Burn(tensor) => Some(tensor),
            #[cfg(feature = "gpu")]
            Memory::Gpu(_) => None,
        }
    }

    /// With row-major CPU memory that holds these elements and no others; copied when it is not so already.
    pub fn contiguous(mut self) -> Self {
        let is_dense = |tensor: &FlexTensor| {
            let layout = tensor.layout();
            let whole = layout.num_elements() * tensor.dtype().size() == tensor.bytes().len();
            whole && layout.is_contiguous()
        };
        if !self.flex().is_some_and(is_dense)
            && let Some(tensor) = self.flex_mut()
        {
            *tensor = cpu::compact(tensor);
        }
        self
    }

    /// [Contiguous](Self::contiguous) in memory that nobody else holds.
    pub(crate) fn into_own(mut self) -> Self {
        if !self.is_alone()
            && let Some(tensor) = self.flex_mut()
        {
            *tensor = cpu::compact(tensor);
        }
        self.contiguous()
    }

    /// Whether some element of a plain value in the CPU's memory stands for many along an axis.
    pub(crate) fn is_spread(&self) -> bool {
        self.spread_axes().next().is_some()
    }

    /// The value with length 1 along the axes that [repeat](Self::is_spread) an element.
    pub(crate) fn unspread(self) -> Self {
        let mut slices = vec![Slice::full(); self.rank()];
        self.spread_axes().for_each(|axis| slices[axis] = (0..1).into());
        self.slice(&slices)
    }

    /// The axes of a plain value in the CPU's memory from the outermost there to the innermost, where that is not their own
    /// order and the elements lie side by side in it.
    pub(crate) fn memory_order(&self) -> Option<Vec<usize>> {
        let layout = self.flex()?.layout();
        if layout.is_contiguous() {
            return None;
        }
        let (shape, strides) = (layout.shape(), layout.strides());
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.sort_by_key(|&axis| Reverse(strides[axis]));
        // Both parts of a complex number are an axis of their own.
        let inwards = (self.rank()..strides.len()).rev().chain(order.iter().copied().rev());
        let mut step = 1;
        for axis in inwards.filter(|&axis| shape[axis] > 1) {
            if strides[axis] != step {
                return None;
            }
            step *= shape[axis] as isize;
        }
        Some(order)
    }

    fn spread_axes(&self) -> impl Iterator<Item = usize> + '_ {
        let layout = self.flex().map(FlexTensor::layout);
        let axes = layout.into_iter().flat_map(|layout| layout.shape().iter().zip(layout.strides()));
        axes.enumerate().filter(|&(_, (&length, &stride))| length > 1 && stride == 0).map(|(axis, _)| axis)
    }

    /// A value over CPU memory that stores elements of `dtype`.
    pub fn from_flex(dtype: Type, tensor: FlexTensor) -> Self {
        let float = dtype.storage().is_float();
        let tensor = if float { BackendTensor::Float(tensor) } else { BackendTensor::Int(tensor) };
        let kind = DispatchTensorKind::Flex(tensor);
        let tensor = DispatchTensor { kind, autodiff: DispatchAutodiffContext::Disabled };
        Self { dtype, memory: Memory::Burn(Arc::new(tensor)) }
    }

    /// The same memory, which is plain and of the CPU, seen in another layout: nothing is copied.
    pub(super) fn laid(mut self, layout: Layout) -> Self {
        let is_alone = self.burn().is_some_and(|handle| Arc::strong_count(handle) == 1);
        let seen = |tensor: &FlexTensor, layout| FlexTensor::from_arc(tensor.data_arc(), layout, tensor.dtype());
        if is_alone && let Some(tensor) = self.flex_mut() {
            *tensor = seen(tensor, layout);
            return self;
        }
        match self.flex() {
            Some(tensor) => Self::from_flex(self.dtype, seen(tensor, layout)),
            None => self,
        }
    }

    /// One element as a real number, for scalars that steer the host.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the value is not one real element.
    pub fn to_f64(&self) -> Result<f64> {
        let dtype = self.dtype;
        if let Some(number) = self.element().and_then(|bytes| crate::scalar::to_f64(dtype, bytes)) {
            return Ok(number);
        }
        let bytes = self.untracked().into_bytes()?;
        crate::scalar::to_f64(dtype, &bytes).ok_or_else(|| Error::invalid("to_number", "expected one real element"))
    }

    /// The bytes of the only element, where they are plain memory.
    pub(crate) fn element(&self) -> Option<&[u8]> {
        let tensor = self.flex()?;
        let (size, layout) = (self.dtype.size(), tensor.layout());
        let start = layout.start_offset() * size;
        if layout.shape().num_elements() == 1 { tensor.bytes().get(start..start + size) } else { None }
    }
}
