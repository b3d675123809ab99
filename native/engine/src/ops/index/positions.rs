//! Index tensors, read and checked on the host.

use burn_backend::{Shape, TensorData};

use crate::error::{Error, Result};
use crate::ops::Call;
use crate::types::Type;
use crate::value::Value;

/// The elements of an integer tensor in row-major order.
pub(super) fn read(call: &Call<'_>, indices: &Value) -> Result<Vec<i128>> {
    let dtype = indices.dtype();
    if !dtype.is_int() {
        return Err(call.invalid(format!("indices must be integers, got {}", indices.ty())));
    }
    let bytes = indices.clone().into_bytes()?;
    Ok(bytes.chunks_exact(dtype.size()).filter_map(|element| crate::scalar::to_i128(dtype, element)).collect())
}

/// [`read`], refusing indices outside of `axis` of `shape`.
pub(super) fn read_along(call: &Call<'_>, indices: &Value, axis: usize, shape: &[usize]) -> Result<Vec<i64>> {
    let check = |index| in_axis(call, index, axis, shape).map(|index| index as i64);
    read(call, indices)?.into_iter().map(check).collect()
}

/// The row-major position that each tuple of `indices` (its last axis) has among the leading axes of `shape`.
pub(super) fn read_tuples(call: &Call<'_>, indices: &Value, depth: usize, shape: &[usize]) -> Result<Vec<i64>> {
    let elements = read(call, indices)?;
    let position = |tuple: &[i128]| {
        tuple
            .iter()
            .enumerate()
            .try_fold(0, |position, (axis, &index)| Ok((position * shape[axis]) + in_axis(call, index, axis, shape)?))
    };
    elements.chunks_exact(depth).map(|tuple| position(tuple).map(|p| p as i64)).collect()
}

fn in_axis(call: &Call<'_>, index: i128, axis: usize, shape: &[usize]) -> Result<usize> {
    let inside = usize::try_from(index).ok().filter(|&i| i < shape[axis]);
    inside.ok_or_else(|| Error::OutOfBounds { op: call.op.name(), index, axis, shape: shape.to_vec() })
}

/// Positions as a tensor of `shape`.
pub(super) fn tensor(call: &Call<'_>, positions: Vec<i64>, shape: &[usize]) -> Value {
    Value::from_data(Type::S64, TensorData::new(positions, Shape::from(shape.to_vec())), call.device)
}
