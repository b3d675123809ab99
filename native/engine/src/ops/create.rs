//! Tensors from nothing.

use crate::error::Result;
use crate::ops::{Call, cast};
use crate::program::{Constant, Iota};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// One element repeated; it takes the memory of one element until something writes to it.
pub(super) fn constant(attrs: &Constant, call: Call<'_>) -> Result<Value> {
    let out = call.out()?;
    let one = TensorType::new(out.dtype, vec![1; out.shape.len()]);
    Ok(Value::from_bytes(&one, attrs.bytes.clone(), call.device)?.expand(&out.shape))
}

/// Counts along an axis, or over all elements in row-major order.
pub(super) fn iota(attrs: &Iota, call: Call<'_>) -> Result<Value> {
    let out = call.out()?;
    let rank = out.shape.len();
    let (len, line) = match attrs.axis {
        Some(axis) if axis >= rank => return Err(call.invalid(format!("axis {axis} of a tensor of rank {rank}"))),
        Some(axis) => (out.shape[axis], line_along(axis, out)),
        None => (out.shape.iter().product(), out.shape.clone()),
    };
    let counted = TensorType::new(Type::S64, [len]);
    if counted.checked_len().is_none() {
        return Err(call.invalid(format!("{counted}, which counts its elements, is larger than memory")));
    }
    let counts = (0..len as i64).flat_map(i64::to_le_bytes).collect();
    let counts = Value::from_bytes(&counted, counts, call.device)?;
    Ok(cast(counts, out.dtype)?.reshape(&line).expand(&out.shape))
}

/// The identity matrix, repeated over the leading axes.
pub(super) fn eye(call: Call<'_>) -> Result<Value> {
    let out = call.out()?;
    let [batch @ .., rows, columns] = out.shape.as_slice() else {
        return Err(call.invalid(format!("needs two axes, got {out}")));
    };
    let mut matrix = vec![0u8; rows * columns];
    (0..*rows.min(columns)).for_each(|i| matrix[i * columns + i] = 1);
    let matrix = Value::from_bytes(&TensorType::new(Type::U8, [*rows, *columns]), matrix, call.device)?;
    let line = [vec![1; batch.len()], vec![*rows, *columns]].concat();
    Ok(cast(matrix, out.dtype)?.reshape(&line).expand(&out.shape))
}

/// The shape of `out` with every axis but `axis` of length 1.
fn line_along(axis: usize, out: &TensorType) -> Vec<usize> {
    out.shape.iter().enumerate().map(|(i, &d)| if i == axis { d } else { 1 }).collect()
}
