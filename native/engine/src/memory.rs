//! The bytes behind tensors, shared with what lies outside of Burn.

use std::ops::Range;

use burn_backend::Slice;
use burn_std::sync::Arc;
use burn_std::{AllocationProperty, Bytes};

use crate::device::Device;
use crate::error::Result;
use crate::types::TensorType;
use crate::value::Value;

/// Row-major bytes of a tensor on the CPU. They neither change nor move while this lives, even if the tensor is dropped: an
/// operation that could write in place finds the memory shared and makes its own.
///
/// ```
/// use ex_burn_engine::{Device, TensorType, Type, Value, memory::Memory};
///
/// let value = Value::full(&TensorType::new(Type::U8, [3]), 7.0, &Device::Cpu)?.contiguous();
/// let memory = Memory::of(&value).ok_or("the value is contiguous")?;
/// drop(value);
/// assert_eq!(*memory, [7, 7, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Memory {
    data: Arc<Bytes>,
    range: Range<usize>,
}

impl Memory {
    /// The bytes of `value`, or `None` where they do not lie in order in the memory of the CPU.
    pub fn of(value: &Value) -> Option<Self> {
        let tensor = value.flex()?;
        let (start, end) = tensor.layout().contiguous_offsets()?;
        let size = tensor.dtype().size();
        let data = tensor.data_arc();
        (end * size <= data.len()).then_some(Self { data, range: start * size..end * size })
    }

    /// True when `bytes` are at least half of the memory that this keeps: a small part shall not hold back a large tensor.
    pub fn is_thrifty(&self, bytes: usize) -> bool {
        2 * bytes >= self.data.len()
    }
}

impl std::ops::Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.data[self.range.clone()]
    }
}

/// A tensor of `ty` over `bytes`, row by row; they are copied only where they are not aligned for its elements.
///
/// The bytes are never written to. They must not change while the tensor or a view of it lives, unless seeing those changes
/// is what is wanted.
///
/// ```
/// use ex_burn_engine::{Device, TensorType, Type, memory};
///
/// let value = memory::tensor(&TensorType::new(Type::U8, [3]), bytes::Bytes::from_static(&[1, 2, 3]), &Device::Cpu)?;
/// assert_eq!(value.into_bytes()?, [1, 2, 3]);
/// # Ok::<(), ex_burn_engine::Error>(())
/// ```
///
/// # Errors
///
/// As [`Value::from_host`].
pub fn tensor(ty: &TensorType, bytes: bytes::Bytes, device: &Device) -> Result<Value> {
    let bytes = if is_aligned(ty, bytes.as_ptr() as usize) {
        Bytes::from_shared(bytes, AllocationProperty::Other)
    } else {
        Bytes::from_bytes_vec(bytes.to_vec())
    };
    Value::from_host(ty, bytes, device)
}

/// True when an element of `ty` may lie at `address`.
pub fn is_aligned(ty: &TensorType, address: usize) -> bool {
    address.is_multiple_of(ty.dtype.storage().size())
}

impl Value {
    /// A view that starts with the first `limit` elements, row by row, and has few others, so that they can be had without
    /// copying the rest.
    ///
    /// ```
    /// use ex_burn_engine::{Device, TensorType, Type, Value};
    ///
    /// let value = Value::full(&TensorType::new(Type::U8, [9, 5, 7]), 1.0, &Device::Cpu)?;
    /// assert_eq!(value.clone().head(10).shape(), [1, 2, 7]);
    /// assert_eq!(value.head(80).shape(), [3, 5, 7]);
    /// # Ok::<(), ex_burn_engine::Error>(())
    /// ```
    pub fn head(self, limit: usize) -> Self {
        if limit >= self.len() {
            return self;
        }
        let limit = limit.max(1);
        let mut row = self.len();
        let rows = |&length: &usize| {
            row /= length;
            (0..limit.div_ceil(row).min(length)).into()
        };
        let ranges: Vec<Slice> = self.shape().iter().map(rows).collect();
        self.slice(&ranges)
    }
}
