//! A tensor of any Nx type on any device.
//!
//! Burn keeps one set of operations for floats and one for integers; the methods here pick the right one, so that the
//! operations in [`crate::ops`] are written once for both.

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn_backend::tensor::BoolTensor;
use burn_backend::{
    AutodiffBackend, BoolDType, DType, FloatDType, IntDType, Scalar, Shape, Slice, TensorData, TensorMetadata,
};
use burn_dispatch::{BackendTensor, Dispatch, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind};
use burn_flex::FlexTensor;
use burn_std::Bytes;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::types::{TensorType, Type};

/// How Burn stores the answers of comparisons inside the engine.
pub const BOOL: BoolDType = BoolDType::Native;

/// A tensor: its Nx type and Burn's handle of its memory. Cloning shares the memory.
#[derive(Clone, Debug)]
pub struct Value {
    dtype: Type,
    tensor: DispatchTensor,
}

/// Calls the float operation or the integer operation of Burn, whichever the value's type asks for.
macro_rules! by_class {
    ($value:expr, $float:expr, $int:expr) => {{
        let value = $value;
        let tensor = if value.dtype.is_float() { $float(value.tensor) } else { $int(value.tensor) };
        Value::new(value.dtype, tensor)
    }};
}

impl Value {
    /// Wraps a tensor of Burn that holds elements of `dtype`. Integers never take part in autodiff.
    pub fn new(dtype: Type, mut tensor: DispatchTensor) -> Self {
        if !dtype.is_float() {
            tensor.autodiff = DispatchAutodiffContext::Disabled;
        }
        Self { dtype, tensor }
    }

    /// A tensor of `ty` from its row-major little-endian bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the number of bytes is wrong, [`Error::Unsupported`] when the device lacks the type.
    pub fn from_bytes(ty: &TensorType, bytes: Vec<u8>, device: &Device) -> Result<Self> {
        let dtype = burn_type("from_binary", ty.dtype, device)?;
        let want = ty.checked_len().map(|n| n * ty.dtype.size());
        if want != Some(bytes.len()) {
            return Err(Error::invalid("from_binary", format!("{} bytes do not make a tensor of {ty}", bytes.len())));
        }
        let data = TensorData::from_bytes(Bytes::from_bytes_vec(bytes), Shape::from(ty.shape.clone()), dtype);
        Ok(Self::from_data(ty.dtype, data, device))
    }

    /// A tensor from Burn's host data, whose type must be the one of `dtype`.
    pub fn from_data(dtype: Type, data: TensorData, device: &Device) -> Self {
        let tensor = if dtype.is_float() {
            Dispatch::float_from_data(data, &device.burn())
        } else {
            Dispatch::int_from_data(data, &device.burn())
        };
        Self { dtype, tensor }
    }

    /// A tensor of `ty` with every element equal to `number` (wrapped into integers, rounded into floats).
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] when the device lacks the type.
    pub fn full(ty: &TensorType, number: f64, device: &Device) -> Result<Self> {
        let bytes = crate::scalar::from_f64(ty.dtype, number).ok_or_else(|| Error::Unsupported {
            op: "constant".into(),
            dtype: ty.dtype,
            device: device.to_string(),
        })?;
        let one = Self::from_bytes(&TensorType::new(ty.dtype, vec![1; ty.shape.len()]), bytes, device)?;
        Ok(one.expand(&ty.shape))
    }

    /// Element type.
    pub fn dtype(&self) -> Type {
        self.dtype
    }

    /// Length of each axis.
    pub fn shape(&self) -> Vec<usize> {
        self.tensor.shape().to_vec()
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.tensor.rank()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.tensor.shape().num_elements()
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
        Device::Cpu
    }

    /// Burn's handle.
    pub fn tensor(&self) -> &DispatchTensor {
        &self.tensor
    }

    /// Burn's handle, giving up this value.
    pub fn into_tensor(self) -> DispatchTensor {
        self.tensor
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
        let data = if self.dtype.is_float() {
            burn_backend::read_sync(Dispatch::float_into_data(self.tensor))
        } else {
            burn_backend::read_sync(Dispatch::int_into_data(self.tensor))
        };
        data.map_err(|e| Error::invalid("to_binary", format!("{e:?}")))
    }

    /// The memory as the CPU backend keeps it: shared, possibly strided. `None` on other devices and while tracked by
    /// autodiff.
    pub fn flex(&self) -> Option<&FlexTensor> {
        match &self.tensor.kind {
            DispatchTensorKind::Flex(BackendTensor::Float(t) | BackendTensor::Int(t) | BackendTensor::Bool(t)) => {
                Some(t)
            }
            _ => None,
        }
    }

    /// [`flex`](Self::flex) for writing.
    pub fn flex_mut(&mut self) -> Option<&mut FlexTensor> {
        match &mut self.tensor.kind {
            DispatchTensorKind::Flex(BackendTensor::Float(t) | BackendTensor::Int(t) | BackendTensor::Bool(t)) => {
                Some(t)
            }
            _ => None,
        }
    }

    /// With row-major CPU memory that holds these elements and no others; copied when it is not so already.
    pub fn contiguous(mut self) -> Self {
        if let Some(tensor) = self.flex_mut() {
            *tensor = tensor.to_contiguous();
        }
        self
    }

    /// A value over CPU memory of `dtype`.
    pub fn from_flex(dtype: Type, tensor: FlexTensor) -> Self {
        let tensor = if dtype.is_float() { BackendTensor::Float(tensor) } else { BackendTensor::Int(tensor) };
        Self {
            dtype,
            tensor: DispatchTensor {
                kind: DispatchTensorKind::Flex(tensor),
                autodiff: DispatchAutodiffContext::Disabled,
            },
        }
    }

    /// One element as a real number, for scalars that steer the host.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the value is not one real element.
    pub fn to_f64(&self) -> Result<f64> {
        let dtype = self.dtype;
        let bytes = self.untracked().into_bytes()?;
        crate::scalar::to_f64(dtype, &bytes).ok_or_else(|| Error::invalid("to_number", "expected one real element"))
    }

    /// The value outside of autodiff, sharing memory.
    pub fn untracked(&self) -> Self {
        match self.tensor.autodiff {
            DispatchAutodiffContext::Disabled => self.clone(),
            _ => by_class!(self.clone(), Dispatch::inner, Dispatch::int_inner),
        }
    }

    /// The same elements in another shape.
    pub fn reshape(self, shape: &[usize]) -> Self {
        let shape = Shape::from(shape.to_vec());
        by_class!(self, |t| Dispatch::float_reshape(t, shape), |t| Dispatch::int_reshape(t, shape))
    }

    /// The axes in another order.
    pub fn permute(self, axes: &[usize]) -> Self {
        by_class!(self, |t| Dispatch::float_permute(t, axes), |t| Dispatch::int_permute(t, axes))
    }

    /// Axes of length 1 repeated to `shape`, which has the same rank.
    pub fn expand(self, shape: &[usize]) -> Self {
        let shape = Shape::from(shape.to_vec());
        by_class!(self, |t| Dispatch::float_expand(t, shape), |t| Dispatch::int_expand(t, shape))
    }

    /// Reversed along `axes`.
    pub fn flip(self, axes: &[usize]) -> Self {
        by_class!(self, |t| Dispatch::float_flip(t, axes), |t| Dispatch::int_flip(t, axes))
    }

    /// The ranges `slices`, one for each axis.
    pub fn slice(self, slices: &[Slice]) -> Self {
        by_class!(self, |t| Dispatch::float_slice(t, slices), |t| Dispatch::int_slice(t, slices))
    }

    /// With the ranges `slices` replaced by `part`.
    pub fn slice_assign(self, slices: &[Slice], part: Self) -> Self {
        let part = part.tensor;
        by_class!(self, |t| Dispatch::float_slice_assign(t, slices, part.clone()), |t| Dispatch::int_slice_assign(
            t,
            slices,
            part.clone()
        ))
    }

    /// Windows of `size` elements every `step` along `axis`, as a new last axis.
    pub fn unfold(self, axis: usize, size: usize, step: usize) -> Self {
        by_class!(self, |t| Dispatch::float_unfold(t, axis, size, step), |t| Dispatch::int_unfold(t, axis, size, step))
    }

    /// Joined along `axis`; all parts have this value's type.
    ///
    /// # Panics
    ///
    /// When `parts` is empty.
    pub fn cat(parts: Vec<Self>, axis: usize) -> Self {
        let dtype = parts[0].dtype;
        let tensors = parts.into_iter().map(|p| p.tensor).collect();
        let tensor =
            if dtype.is_float() { Dispatch::float_cat(tensors, axis) } else { Dispatch::int_cat(tensors, axis) };
        Self { dtype, tensor }
    }

    /// `on_true` where `mask` holds, this value elsewhere; all of one shape.
    pub fn mask_where(self, mask: BoolTensor<Dispatch>, on_true: Self) -> Self {
        let on_true = on_true.tensor;
        by_class!(self, |t| Dispatch::float_mask_where(t, mask.clone(), on_true.clone()), |t| Dispatch::int_mask_where(
            t,
            mask.clone(),
            on_true.clone()
        ))
    }

    /// Whether each element differs from zero; NaN does.
    pub fn truth(self) -> BoolTensor<Dispatch> {
        if self.dtype.is_float() {
            Dispatch::float_not_equal_elem(self.tensor, Scalar::Float(0.0), BOOL)
        } else {
            Dispatch::int_not_equal_elem(self.tensor, Scalar::Int(0), BOOL)
        }
    }

    /// 0 or 1 of type `dtype` for each element of `mask`.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] when the device lacks the type.
    pub fn from_bool(mask: BoolTensor<Dispatch>, dtype: Type) -> Result<Self> {
        let burn = burn_type("as_type", dtype, &Device::Cpu)?;
        let tensor = if dtype.is_float() {
            Dispatch::bool_into_float(mask, burn.into())
        } else {
            Dispatch::bool_into_int(mask, burn.into())
        };
        Ok(Self::new(dtype, tensor))
    }
}

/// The Burn type that holds `dtype` on `device`.
///
/// # Errors
///
/// [`Error::Unsupported`] when there is none.
pub fn burn_type(op: &str, dtype: Type, device: &Device) -> Result<DType> {
    dtype.burn().ok_or_else(|| Error::Unsupported { op: op.into(), dtype, device: device.to_string() })
}

/// The Burn float type of `dtype`.
///
/// # Errors
///
/// [`Error::Unsupported`] when `dtype` is not a float that Burn has.
pub fn float_type(op: &str, dtype: Type, device: &Device) -> Result<FloatDType> {
    match burn_type(op, dtype, device)? {
        burn if dtype.is_float() => Ok(burn.into()),
        _ => Err(Error::Unsupported { op: op.into(), dtype, device: device.to_string() }),
    }
}

/// The Burn integer type of `dtype`.
///
/// # Errors
///
/// [`Error::Unsupported`] when `dtype` is not an integer that Burn has.
pub fn int_type(op: &str, dtype: Type, device: &Device) -> Result<IntDType> {
    match burn_type(op, dtype, device)? {
        burn if dtype.is_int() => Ok(burn.into()),
        _ => Err(Error::Unsupported { op: op.into(), dtype, device: device.to_string() }),
    }
}
