//! A tensor of any Nx type on any device.
//!
//! Burn keeps one set of operations for floats and one for integers; the methods here pick the right one, so that the
//! operations in [`crate::ops`] are written once for both. They also hide that a complex tensor is, for Burn, a float
//! tensor with one more axis, the last, for the real and the imaginary part.

#[cfg(feature = "gpu")]
use std::sync::Arc;

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::tensor::{BoolTensor, IndexingUpdateOp};
use burn_backend::{AutodiffBackend, BoolDType, Scalar, Shape, Slice, TensorData, TensorMetadata};
#[cfg(feature = "gpu")]
use burn_cubecl::tensor::CubeTensor;
use burn_dispatch::{BackendTensor, Dispatch, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind};
use burn_flex::FlexTensor;
use burn_std::Bytes;

use crate::cpu;
use crate::device::Device;
use crate::error::{Error, Result};
#[cfg(feature = "gpu")]
use crate::gpu;
use crate::types::{TensorType, Type};

/// How Burn stores the answers of comparisons inside the engine.
pub const BOOL: BoolDType = BoolDType::Native;

/// A tensor: its Nx type and Burn's handle of its memory. Cloning shares the memory.
#[derive(Clone, Debug)]
pub struct Value {
    dtype: Type,
    memory: Memory,
}

/// Where the elements are.
#[derive(Clone, Debug)]
enum Memory {
    /// Where Burn's operations and ours on the CPU find them.
    Burn(DispatchTensor),
    /// On a GPU, for the kernels of [`gpu`] alone.
    #[cfg(feature = "gpu")]
    Gpu(Arc<CubeTensor>),
}

/// Calls the float operation or the integer operation of Burn, whichever the value's storage asks for.
macro_rules! by_class {
    ($value:expr, $float:expr, $int:expr) => {{
        let value = $value;
        let dtype = value.dtype;
        let tensor = if dtype.storage().is_float() { $float(value.into_tensor()) } else { $int(value.into_tensor()) };
        Value::new(dtype, tensor)
    }};
}

impl Value {
    /// Wraps a tensor of Burn that stores elements of `dtype`. Real floats alone take part in autodiff.
    pub fn new(dtype: Type, mut tensor: DispatchTensor) -> Self {
        if !dtype.is_float() {
            tensor.autodiff = DispatchAutodiffContext::Disabled;
        }
        Self { dtype, memory: Memory::Burn(tensor) }
    }

    /// Wraps the memory of a GPU that holds elements of `dtype`, as they are there.
    #[cfg(feature = "gpu")]
    pub(crate) fn on_gpu(dtype: Type, tensor: CubeTensor) -> Self {
        Self { dtype, memory: Memory::Gpu(Arc::new(tensor)) }
    }

    /// A tensor of `ty` from its row-major little-endian bytes. A sub-byte integer takes a byte, whose low bits count.
    ///
    /// # Errors
    ///
    /// As [`Value::from_host`].
    pub fn from_bytes(ty: &TensorType, bytes: Vec<u8>, device: &Device) -> Result<Self> {
        Self::from_host(ty, Bytes::from_bytes_vec(bytes), device)
    }

    /// [`Value::from_bytes`] for bytes in memory of any kind.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the number of bytes is wrong.
    pub fn from_host(ty: &TensorType, mut bytes: Bytes, device: &Device) -> Result<Self> {
        let want = ty.checked_len().map(|n| n * ty.dtype.size());
        if want != Some(bytes.len()) {
            return Err(Error::invalid("from_binary", format!("{} bytes do not make a tensor of {ty}", bytes.len())));
        }
        if ty.dtype.bits() < 8 {
            bytes.iter_mut().for_each(|byte| *byte = crate::scalar::wrap_byte(ty.dtype, *byte));
        }
        let shape = stored_shape(ty.dtype, &ty.shape);
        let data = TensorData::from_bytes(bytes, shape, ty.dtype.storage());
        Ok(Self::from_data(ty.dtype, data, device))
    }

    /// A tensor from Burn's host data, which stores elements of `dtype`.
    pub fn from_data(dtype: Type, data: TensorData, device: &Device) -> Self {
        let tensor = if dtype.storage().is_float() {
            Dispatch::float_from_data(data, &device.burn())
        } else {
            Dispatch::int_from_data(data, &device.burn())
        };
        Self { dtype, memory: Memory::Burn(tensor) }
    }

    /// A tensor of `ty` with every element equal to `number` (wrapped into integers, rounded into floats).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when `ty` is larger than memory.
    pub fn full(ty: &TensorType, number: f64, device: &Device) -> Result<Self> {
        let bytes = crate::scalar::from_f64(ty.dtype, number);
        let one = Self::from_bytes(&TensorType::new(ty.dtype, vec![1; ty.shape.len()]), bytes, device)?;
        Ok(one.expand(&ty.shape))
    }

    /// Element type.
    pub fn dtype(&self) -> Type {
        self.dtype
    }

    /// Length of each axis.
    pub fn shape(&self) -> Vec<usize> {
        let mut shape = self.stored().to_vec();
        shape.truncate(self.rank());
        shape
    }

    /// Whether [`shape`](Self::shape) is `shape`.
    pub fn has_shape(&self, shape: &[usize]) -> bool {
        match self.flex() {
            Some(tensor) => tensor.layout().shape().get(..self.rank()) == Some(shape),
            None => self.shape() == shape,
        }
    }

    /// Whether [`ty`](Self::ty) is `ty`.
    pub fn has_type(&self, ty: &TensorType) -> bool {
        self.dtype == ty.dtype && self.has_shape(&ty.shape)
    }

    /// The shape in memory.
    fn stored(&self) -> Shape {
        match &self.memory {
            Memory::Burn(tensor) => tensor.shape(),
            #[cfg(feature = "gpu")]
            Memory::Gpu(tensor) => tensor.meta.shape().clone(),
        }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.stored().len() - usize::from(self.dtype.is_complex())
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        let numbers = self.stored().num_elements();
        if self.dtype.is_complex() { numbers / 2 } else { numbers }
    }

    /// True when an axis has length 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element type and shape.
    pub fn ty(&self) -> TensorType {
        TensorType::new(self.dtype, self.shape())
    }

    /// The device that holds the memory.
    pub fn device(&self) -> Device {
        #[cfg(feature = "gpu")]
        if let Some(adapter) = self.adapter() {
            return Device::Gpu(adapter);
        }
        Device::Cpu
    }

    /// The same elements on a device. What has no place on a GPU, numbers of 64 bits, stays in the host's memory.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the device fails, or has no memory of that size.
    pub fn to_device(self, device: &Device) -> Result<Self> {
        match device {
            #[cfg(feature = "gpu")]
            Device::Cpu => gpu::download(self),
            #[cfg(not(feature = "gpu"))]
            Device::Cpu => Ok(self),
            #[cfg(feature = "gpu")]
            Device::Gpu(adapter) => gpu::upload(self, *adapter),
        }
    }

    /// The GPU that holds the memory.
    #[cfg(feature = "gpu")]
    pub fn adapter(&self) -> Option<gpu::Adapter> {
        gpu::Adapter::of(&self.cube()?.device)
    }

    /// The memory of a GPU, whose elements are those of the type there. `None` on the CPU and while tracked by autodiff.
    #[cfg(feature = "gpu")]
    pub(crate) fn cube(&self) -> Option<&CubeTensor> {
        match &self.memory {
            Memory::Gpu(tensor) => Some(tensor),
            Memory::Burn(_) => None,
        }
    }

    /// Burn's handle.
    ///
    /// # Panics
    ///
    /// On a GPU, where Burn's operations do not run.
    pub fn tensor(&self) -> &DispatchTensor {
        match &self.memory {
            Memory::Burn(tensor) => tensor,
            #[cfg(feature = "gpu")]
            Memory::Gpu(_) => panic!("{} is on a GPU, where Burn's operations do not run", self.ty()),
        }
    }

    /// Burn's handle, giving up this value.
    ///
    /// # Panics
    ///
    /// As [`Value::tensor`].
    pub fn into_tensor(self) -> DispatchTensor {
        match self.memory {
            Memory::Burn(tensor) => tensor,
            #[cfg(feature = "gpu")]
            Memory::Gpu(_) => panic!("{} is on a GPU, where Burn's operations do not run", self.ty()),
        }
    }

    /// The row-major little-endian bytes; no copy is made when the memory is contiguous and not shared.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the device fails to give the data back.
    pub fn into_bytes(self) -> Result<Vec<u8>> {
        let data = self.into_data()?;
        let bytes = data.into_bytes();
        Ok(bytes.try_into_vec::<u8>().unwrap_or_else(|bytes| bytes.to_vec()))
    }

    /// Burn's host data of the tensor.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the device fails to give the data back.
    pub fn into_data(self) -> Result<TensorData> {
        let this = self.to_device(&Device::Cpu)?;
        let data = if this.dtype.storage().is_float() {
            burn_backend::read_sync(Dispatch::float_into_data(this.into_tensor()))
        } else {
            burn_backend::read_sync(Dispatch::int_into_data(this.into_tensor()))
        };
        data.map_err(|e| Error::invalid("to_binary", format!("{e:?}")))
    }

    /// The memory as the CPU backend keeps it: shared, possibly strided. `None` on other devices and while tracked by
    /// autodiff.
    pub fn flex(&self) -> Option<&FlexTensor> {
        let Memory::Burn(DispatchTensor { kind: DispatchTensorKind::Flex(tensor), .. }) = &self.memory else {
            return None;
        };
        match tensor {
            BackendTensor::Float(t) | BackendTensor::Int(t) | BackendTensor::Bool(t) => Some(t),
            _ => None,
        }
    }

    /// [`flex`](Self::flex) for writing.
    pub fn flex_mut(&mut self) -> Option<&mut FlexTensor> {
        let Memory::Burn(DispatchTensor { kind: DispatchTensorKind::Flex(tensor), .. }) = &mut self.memory else {
            return None;
        };
        match tensor {
            BackendTensor::Float(t) | BackendTensor::Int(t) | BackendTensor::Bool(t) => Some(t),
            _ => None,
        }
    }

    /// With row-major CPU memory that holds these elements and no others; copied when it is not so already.
    pub fn contiguous(mut self) -> Self {
        if let Some(tensor) = self.flex_mut() {
            let layout = tensor.layout();
            let whole = layout.num_elements() * tensor.dtype().size() == tensor.bytes().len();
            if !(whole && layout.is_contiguous()) {
                *tensor = cpu::compact(tensor);
            }
        }
        self
    }

    /// [Contiguous](Self::contiguous) in memory that nobody else holds.
    pub(crate) fn into_own(mut self) -> Self {
        if let Some(tensor) = self.flex_mut().filter(|tensor| !tensor.is_unique()) {
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
        Self { dtype, memory: Memory::Burn(tensor) }
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

    /// The value outside of autodiff, sharing memory.
    pub fn untracked(&self) -> Self {
        #[cfg(feature = "gpu")]
        if self.cube().is_some() {
            return self.clone();
        }
        match self.tensor().autodiff {
            DispatchAutodiffContext::Disabled => self.clone(),
            _ => by_class!(self.clone(), Dispatch::inner, Dispatch::int_inner),
        }
    }

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
    pub fn reshape(mut self, shape: &[usize]) -> Self {
        if self.has_shape(shape) {
            return self;
        }
        let shape = stored_shape(self.dtype, shape);
        if self.flex().is_some_and(|tensor| tensor.layout().reshape(shape.clone()).is_none()) {
            self = self.contiguous();
        }
        by_class!(self, |t| Dispatch::float_reshape(t, shape), |t| Dispatch::int_reshape(t, shape))
    }

    /// The axes in another order.
    pub fn permute(self, axes: &[usize]) -> Self {
        let parts = self.dtype.is_complex().then_some(axes.len());
        let axes: Vec<usize> = axes.iter().copied().chain(parts).collect();
        by_class!(self, |t| Dispatch::float_permute(t, &axes), |t| Dispatch::int_permute(t, &axes))
    }

    /// Axes of length 1 repeated to `shape`, which has the same rank.
    pub fn expand(self, shape: &[usize]) -> Self {
        if self.has_shape(shape) {
            return self;
        }
        let shape = stored_shape(self.dtype, shape);
        by_class!(self, |t| Dispatch::float_expand(t, shape), |t| Dispatch::int_expand(t, shape))
    }

    /// Reversed along `axes`.
    pub fn flip(self, axes: &[usize]) -> Self {
        by_class!(self, |t| Dispatch::float_flip(t, axes), |t| Dispatch::int_flip(t, axes))
    }

    /// The ranges `slices`, one for each axis.
    pub fn slice(self, slices: &[Slice]) -> Self {
        let slices = self.stored_slices(slices);
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

    /// The slices at `places`, a line of integers, along `axis`.
    pub(crate) fn select(self, axis: usize, places: Self) -> Self {
        if self.flex().is_some()
            && let Ok(Some(taken)) = cpu::take(&self, axis, &places)
        {
            return taken;
        }
        let places = places.into_tensor();
        by_class!(self, |t| Dispatch::float_select(t, axis, places.clone()), |t| Dispatch::int_select(
            t,
            axis,
            places.clone()
        ))
    }

    /// With the slices at `places` along `axis` changed by those of `updates`.
    pub(crate) fn select_assign(self, axis: usize, places: Self, updates: Self, how: IndexingUpdateOp) -> Self {
        let (places, updates) = (places.into_tensor(), updates.into_tensor());
        by_class!(self, |t| Dispatch::float_select_assign(t, axis, places.clone(), updates.clone(), how), |t| {
            Dispatch::int_select_assign(t, axis, places.clone(), updates.clone(), how)
        })
    }

    /// The element of `axis` that `places` names, for each element of `places`.
    pub(crate) fn gather(self, axis: usize, places: Self) -> Self {
        let places = self.stored_places(places).into_tensor();
        by_class!(self, |t| Dispatch::float_gather(axis, t, places.clone()), |t| Dispatch::int_gather(
            axis,
            t,
            places.clone()
        ))
    }

    /// `places`, once for each stored number.
    fn stored_places(&self, places: Self) -> Self {
        if !self.dtype.is_complex() {
            return places;
        }
        let shape = places.shape();
        let line = [&shape[..], &[1]].concat();
        places.reshape(&line).expand(&[&shape[..], &[2]].concat())
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
        let tensor = cat(tensors, axis);
        Self { dtype, memory: Memory::Burn(tensor) }
    }

    /// `on_true` where `mask` holds, this value elsewhere; all of one shape.
    pub fn mask_where(self, mask: BoolTensor<Dispatch>, on_true: Self) -> Self {
        let (mask, on_true) = (self.stored_mask(mask), on_true.into_tensor());
        by_class!(self, |t| Dispatch::float_mask_where(t, mask.clone(), on_true.clone()), |t| Dispatch::int_mask_where(
            t,
            mask.clone(),
            on_true.clone()
        ))
    }

    /// `mask`, once for each stored number.
    fn stored_mask(&self, mask: BoolTensor<Dispatch>) -> BoolTensor<Dispatch> {
        if !self.dtype.is_complex() {
            return mask;
        }
        let shape = self.shape();
        let line = [&shape[..], &[1]].concat();
        Dispatch::bool_expand(Dispatch::bool_reshape(mask, Shape::from(line)), stored_shape(self.dtype, &shape))
    }

    /// Whether each element differs from zero; NaN does.
    pub fn truth(self) -> BoolTensor<Dispatch> {
        let (dtype, shape) = (self.dtype, self.shape());
        let truth = match dtype {
            // The bits of -0.0 are not 0.
            Type::F8 | Type::F8E4M3FN => {
                let size = Dispatch::bitwise_and_scalar(self.into_tensor(), Scalar::Int(0x7f));
                Dispatch::int_not_equal_elem(size, Scalar::Int(0), BOOL)
            }
            _ if dtype.storage().is_float() => {
                Dispatch::float_not_equal_elem(self.into_tensor(), Scalar::Float(0.0), BOOL)
            }
            _ => Dispatch::int_not_equal_elem(self.into_tensor(), Scalar::Int(0), BOOL),
        };
        if !dtype.is_complex() {
            return truth;
        }
        // Memory without elements has no second one to start at.
        let second = if shape.contains(&0) { 0..1 } else { 1..2 };
        let [re, im] = [0..1, second].map(|part| {
            let mut slices = vec![Slice::full(); shape.len()];
            slices.push(part.into());
            Dispatch::bool_slice(truth.clone(), &slices)
        });
        Dispatch::bool_reshape(Dispatch::bool_or(re, im), Shape::from(shape))
    }

    /// 0 or 1 of the real float type `dtype` for each element of `mask`.
    pub(crate) fn from_bool(mask: BoolTensor<Dispatch>, dtype: Type) -> Self {
        Self::new(dtype, Dispatch::bool_into_float(mask, dtype.storage().into()))
    }
}

/// Burn's shape of a tensor of `dtype` and `shape`.
pub(crate) fn stored_shape(dtype: Type, shape: &[usize]) -> Shape {
    let parts = dtype.is_complex().then_some(2);
    Shape::from(shape.iter().copied().chain(parts).collect::<Vec<_>>())
}
