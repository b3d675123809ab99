//! A tensor of any Nx type on any device.
//!
//! Burn keeps one set of operations for floats and one for integers; the methods here pick the right one, so that the
//! operations in [`crate::ops`] are written once for both. They also hide that a complex tensor is, for Burn, a float
//! tensor with one more axis, the last, for the real and the imaginary part.

use std::sync::Arc;

use burn_backend::ops::{FloatTensorOps, IntTensorOps};
use burn_backend::{AutodiffBackend, BoolDType, Shape, TensorData, TensorMetadata};
#[cfg(feature = "gpu")]
use burn_cubecl::tensor::CubeTensor;
use burn_dispatch::{Dispatch, DispatchAutodiffContext, DispatchTensor};
use burn_std::Bytes;

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
    /// Where Burn's operations and ours on the CPU find them. Values are moved and cloned often, and handles are large.
    Burn(Arc<DispatchTensor>),
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

mod host;
mod pick;
mod shape;

impl Value {
    /// Wraps a tensor of Burn that stores elements of `dtype`. Real floats alone take part in autodiff.
    pub fn new(dtype: Type, mut tensor: DispatchTensor) -> Self {
        if !dtype.is_float() {
            tensor.autodiff = DispatchAutodiffContext::Disabled;
        }
        Self { dtype, memory: Memory::Burn(Arc::new(tensor)) }
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
        Self { dtype, memory: Memory::Burn(Arc::new(tensor)) }
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
        self.with_shape(<[usize]>::to_vec)
    }

    /// Whether [`shape`](Self::shape) is `shape`.
    pub fn has_shape(&self, shape: &[usize]) -> bool {
        // A comparison of slices is a call, which takes longer than to compare a few numbers.
        self.with_shape(|own| own.len() == shape.len() && own.iter().zip(shape).all(|(a, b)| a == b))
    }

    /// Whether [`ty`](Self::ty) is `ty`.
    pub fn has_type(&self, ty: &TensorType) -> bool {
        self.dtype == ty.dtype && self.has_shape(&ty.shape)
    }

    /// What `f` makes of [`shape`](Self::shape), of which no copy is made.
    fn with_shape<T>(&self, f: impl FnOnce(&[usize]) -> T) -> T {
        let own = |stored: &[usize]| f(&stored[..stored.len() - usize::from(self.dtype.is_complex())]);
        if let Some(tensor) = self.flex() {
            return own(tensor.layout().shape());
        }
        match &self.memory {
            Memory::Burn(tensor) => own(&tensor.shape()),
            #[cfg(feature = "gpu")]
            Memory::Gpu(tensor) => own(tensor.meta.shape()),
        }
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.with_shape(<[usize]>::len)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.with_shape(|shape| shape.iter().product())
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
            Memory::Burn(tensor) => Arc::unwrap_or_clone(tensor),
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
}

/// Burn's shape of a tensor of `dtype` and `shape`.
pub(crate) fn stored_shape(dtype: Type, shape: &[usize]) -> Shape {
    let parts = dtype.is_complex().then_some(2);
    Shape::from(shape.iter().copied().chain(parts).collect::<Vec<_>>())
}
