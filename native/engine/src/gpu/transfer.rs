//! Tensors between the host and a GPU.
//!
//! On a GPU an element takes 32 bits: narrower types are held in the one of 32 bits that has all of their values, a complex number
//! in two. The types of 64 bits stay in the host's memory.

use burn_backend::{DType, Shape};
use burn_cubecl::cubecl::future::DynFut;
use burn_cubecl::cubecl::server::ServerError;
use burn_cubecl::tensor::CubeTensor;
use burn_std::Bytes;

use super::Adapter;
use super::ask::ask;
use super::recorded::transferred;
use super::wait::wait;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::ops::cast;
use crate::types::{Class, TensorType, Type};
use crate::value::{Value, stored_shape};

/// The type of 32 bits that holds the numbers of `dtype` on a GPU; `None` where none does.
pub(crate) fn word(dtype: Type) -> Option<Type> {
    match dtype.class() {
        _ if dtype == Type::C64 => Some(Type::C64),
        _ if dtype.bits() > 32 => None,
        Class::Unsigned => Some(Type::U32),
        Class::Signed => Some(Type::S32),
        _ => Some(Type::F32),
    }
}

/// The value on the GPU; itself where its type has no place there.
///
/// # Errors
///
/// [`Error::Invalid`] when the GPU does not start or the value is too large for it.
pub(crate) fn upload(value: Value, adapter: Adapter) -> Result<Value> {
    let Some(word) = word(value.dtype()) else { return Ok(value) };
    if value.adapter() == Some(adapter) {
        return Ok(value);
    }
    let (dtype, shape) = (value.dtype(), value.shape());
    let words = cast(download(value)?.untracked(), word)?.into_data()?;
    let bytes = words.into_bytes();
    let client = adapter.client()?;
    ensure(bytes.len(), adapter)?;
    // A buffer of no bytes cannot be bound.
    let bytes = if bytes.is_empty() { Bytes::from_bytes_vec(vec![0; 4]) } else { bytes };
    transferred();
    let handle = client.create(bytes);
    let tensor = CubeTensor::new_contiguous(
        client.clone(),
        adapter.device(),
        stored_shape(dtype, &shape),
        handle,
        burn_type(word),
    );
    Ok(from_cube(dtype, tensor))
}

fn ensure(bytes: usize, adapter: Adapter) -> Result<()> {
    let largest = adapter.largest()?;
    if bytes <= largest {
        return Ok(());
    }
    Err(Error::invalid("device", format!("a tensor of {bytes} bytes there, the GPU takes {largest} at most")))
}

/// A tensor on the GPU whose elements are still to be written.
pub(crate) fn empty(ty: &TensorType, adapter: Adapter) -> Result<CubeTensor> {
    let word = word(ty.dtype).ok_or_else(|| Error::invalid("device", format!("{} has no place on a GPU", ty.dtype)))?;
    let shape = stored_shape(ty.dtype, &ty.shape);
    let bytes = shape.num_elements() * 4;
    ensure(bytes, adapter)?;
    let client = adapter.client()?;
    let handle = client.empty(bytes.max(4));
    Ok(CubeTensor::new_contiguous(client.clone(), adapter.device(), shape, handle, burn_type(word)))
}

/// The value in the host's memory.
///
/// # Errors
///
/// [`Error::Invalid`] when the GPU failed to compute it or to give it back.
pub(crate) fn download(value: Value) -> Result<Value> {
    if value.cube().is_none() {
        return Ok(value);
    }
    let lost = || Error::invalid("to_binary", "the GPU gave nothing back");
    Reading::start(vec![value])?.wait()?.pop().ok_or_else(lost)
}

/// The bytes of values, once the GPU has them.
type Coming = DynFut<std::result::Result<Vec<Bytes>, ServerError>>;

/// Values on their way to the host's memory: what is asked of the GPU later does not delay them.
pub(crate) struct Reading {
    values: Vec<Value>,
    /// Of those that are on a GPU, and which.
    coming: Option<(Coming, Adapter)>,
}

impl Reading {
    /// Asks for the values, all that are on one GPU at once.
    pub(crate) fn start(values: Vec<Value>) -> Result<Self> {
        let handles = values.iter().filter_map(Value::cube).map(|tensor| tensor.handle.clone()).collect();
        let coming = match values.iter().find_map(Value::adapter) {
            Some(adapter) => {
                transferred();
                let client = adapter.client()?;
                Some((ask(adapter, move || Box::pin(client.read_async(handles)) as Coming)?, adapter))
            }
            None => None,
        };
        Ok(Self { values, coming })
    }

    /// The values in the host's memory.
    pub(crate) fn wait(self) -> Result<Vec<Value>> {
        let bytes = match self.coming {
            Some((coming, adapter)) => wait(coming, adapter).map_err(failed)?,
            None => vec![],
        };
        let mut bytes = bytes.into_iter();
        let held = |value: Value| match value.cube().and_then(|_| bytes.next()) {
            Some(bytes) => from_words(&value, &bytes),
            None => Ok(value),
        };
        self.values.into_iter().map(held).collect()
    }
}

fn failed(error: ServerError) -> Error {
    Error::invalid("to_binary", format!("the GPU failed: {error}"))
}

/// The value whose elements on the GPU are `bytes`.
fn from_words(value: &Value, bytes: &[u8]) -> Result<Value> {
    let dtype = value.dtype();
    let word = word(dtype).unwrap_or(dtype);
    let elements: usize = value.len() * if dtype.is_complex() { 2 } else { 1 };
    let bytes = bytes[..elements * 4].to_vec();
    cast(Value::from_bytes(&TensorType::new(word, value.shape()), bytes, &Device::Cpu)?, dtype)
}

fn burn_type(word: Type) -> DType {
    word.storage()
}

/// A value over a contiguous tensor of a GPU that holds elements of `dtype`.
pub(crate) fn from_cube(dtype: Type, tensor: CubeTensor) -> Value {
    Value::on_gpu(dtype, tensor)
}

/// The same elements under another shape.
pub(crate) fn reshaped(value: &Value, dtype: Type, shape: &[usize]) -> Option<Value> {
    let tensor = value.cube()?;
    let shape: Shape = stored_shape(dtype, shape);
    let tensor = CubeTensor::new_contiguous(
        tensor.client.clone(),
        tensor.device.clone(),
        shape,
        tensor.handle.clone(),
        word(dtype).map_or(tensor.dtype, burn_type),
    );
    Some(from_cube(dtype, tensor))
}
