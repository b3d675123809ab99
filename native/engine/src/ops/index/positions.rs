//! Index tensors, read and checked on the host.

use burn_backend::{Shape, TensorData};

use crate::cpu::{self, Int, for_int};
use crate::error::{Error, Result};
use crate::ops::shape::range;
use crate::ops::{Call, cast};
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

/// A line of the elements of an integer tensor as s64, refusing indices outside of `axis` of `shape`.
pub(super) fn read_along(call: &Call<'_>, indices: &Value, axis: usize, shape: &[usize]) -> Result<Value> {
    let places = places(call, indices)?;
    let length = shape[axis] as i64;
    if cpu::any(&places, |place: i64| place < 0 || place >= length)? {
        return Err(outside(call, indices, axis, shape)?);
    }
    Ok(places)
}

/// A line of the elements of an integer tensor as s64. An index that s64 does not hold becomes negative.
pub(in crate::ops) fn places(call: &Call<'_>, indices: &Value) -> Result<Value> {
    let line = cast(indices.clone(), indices.dtype().widened())?.reshape(&[indices.len()]);
    match line.dtype() {
        Type::S64 => Ok(line),
        dtype if dtype.is_int() => for_int!(dtype, T => cpu::map(&line, |index: T| index.widen() as i64)),
        _ => Err(call.invalid(format!("indices must be integers, got {}", indices.ty()))),
    }
}

/// The error of the first index outside of `axis` of `shape`.
pub(super) fn outside(call: &Call<'_>, indices: &Value, axis: usize, shape: &[usize]) -> Result<Error> {
    let outside = |&index: &i128| !(0..shape[axis] as i128).contains(&index);
    let index = read(call, indices)?.into_iter().find(outside).unwrap_or_default();
    Ok(Error::OutOfBounds { op: call.op.name(), index, axis, shape: shape.to_vec() })
}

/// The row-major positions that the tuples of `indices` (its last axis) have among the leading axes of `shape`, as a line
/// of s64.
pub(super) fn read_tuples(call: &Call<'_>, indices: &Value, depth: usize, shape: &[usize]) -> Result<Value> {
    let tuples = indices.len() / depth;
    let indices = indices.clone().reshape(&[tuples, depth]);
    let column = |axis: usize| {
        let column = indices.clone().slice(&[range(0, tuples, 1), range(axis, axis + 1, 1)]);
        read_along(call, &column, axis, shape)
    };
    (1..depth).try_fold(column(0)?, |positions, axis| {
        let length = shape[axis] as i64;
        cpu::combine(positions, column(axis)?, |position: i64, place| position * length + place)
    })
}

/// The elements of a line of s64.
pub(super) fn list(positions: Value) -> Result<Vec<i64>> {
    let bytes = positions.into_bytes()?;
    Ok(bytemuck::pod_collect_to_vec(&bytes))
}

/// Positions as a line of s64.
pub(super) fn line(call: &Call<'_>, positions: Vec<i64>) -> Value {
    let shape = Shape::from(vec![positions.len()]);
    Value::from_data(Type::S64, TensorData::new(positions, shape), call.device)
}
