//! Reading and writing at places that a tensor of indices names.
//!
//! The last axis of the indices holds one index for each of `axes`. The other axes of the indices, the batch, come first
//! in the slices read or written, then the remaining axes of the tensor in order.

use std::collections::HashMap;

use burn_backend::ops::{FloatTensorOps, IntTensorOps};
use burn_backend::tensor::IndexingUpdateOp;
use burn_dispatch::Dispatch;

use super::positions;
use crate::error::Result;
use crate::ops::shape::permute;
use crate::ops::{Call, cast, check};
use crate::program::{Axes, Axis};
use crate::types::TensorType;
use crate::value::Value;

pub(in crate::ops) fn gather(attrs: &Axes, mut call: Call<'_>) -> Result<Value> {
    let [value, indices] = call.args()?;
    let rows = Rows::new(&call, &value, &indices, &attrs.axes)?;
    check::result_shape(&call, &rows.slices_shape())?;
    if rows.slices_shape().contains(&0) {
        return empty(&call);
    }
    let table = rows.flatten(value);
    Ok(select(table, 0, &rows.positions, &call)?.reshape(&rows.slices_shape()))
}

/// Adds each update; updates of one place add up.
pub(in crate::ops) fn indexed_add(attrs: &Axes, call: Call<'_>) -> Result<Value> {
    update(attrs, call, |rows, table, updates, call| {
        write(table, &rows.positions, updates, IndexingUpdateOp::Add, call)
    })
}

/// Writes each update; the last update of one place stays.
pub(in crate::ops) fn indexed_put(attrs: &Axes, call: Call<'_>) -> Result<Value> {
    update(attrs, call, |rows, table, updates, call| {
        let last: HashMap<i64, usize> = rows.positions.iter().enumerate().map(|(row, &place)| (place, row)).collect();
        if last.len() == rows.positions.len() {
            return write(table, &rows.positions, updates, IndexingUpdateOp::Assign, call);
        }
        let mut last: Vec<(i64, usize)> = last.into_iter().collect();
        last.sort_unstable();
        let (places, kept): (Vec<i64>, Vec<i64>) = last.into_iter().map(|(place, row)| (place, row as i64)).unzip();
        let updates = select(updates, 0, &kept, call)?;
        write(table, &places, updates, IndexingUpdateOp::Assign, call)
    })
}

/// Slices along `axis`; the axes of the indices take its place.
pub(in crate::ops) fn take(attrs: &Axis, mut call: Call<'_>) -> Result<Value> {
    let [value, indices] = call.args()?;
    check::axes(&call, &[attrs.axis], &value)?;
    let mut shape = value.shape();
    let positions = positions::read_along(&call, &indices, attrs.axis, &shape)?;
    shape.splice(attrs.axis..=attrs.axis, indices.shape());
    check::result_shape(&call, &shape)?;
    if shape.contains(&0) {
        return empty(&call);
    }
    Ok(select(value, attrs.axis, &positions, &call)?.reshape(&shape))
}

/// One element of `axis` for each element of the indices, which have the shape of the result.
pub(in crate::ops) fn take_along_axis(attrs: &Axis, mut call: Call<'_>) -> Result<Value> {
    let [value, indices] = call.args()?;
    check::axes(&call, &[attrs.axis], &value)?;
    let (mut shape, picks) = (value.shape(), indices.shape());
    let positions = positions::read_along(&call, &indices, attrs.axis, &shape)?;
    if indices.rank() == value.rank() {
        shape[attrs.axis] = picks[attrs.axis];
    }
    if shape != picks {
        return Err(call.invalid(format!("{} does not index {} along {}", indices.ty(), value.ty(), attrs.axis)));
    }
    check::result_shape(&call, &shape)?;
    if shape.contains(&0) {
        return empty(&call);
    }
    let picks = positions::tensor(&call, &positions, &shape)?.into_tensor();
    let dtype = value.dtype();
    let gather = if dtype.is_float() { Dispatch::float_gather } else { Dispatch::int_gather };
    Ok(Value::new(dtype, gather(attrs.axis, value.into_tensor(), picks)))
}

/// A tensor seen as a table: its indexed axes are the rows, the remaining axes the columns.
struct Rows {
    /// The tensor's axes, the indexed ones first.
    order: Vec<usize>,
    /// Lengths of the axes in that order.
    shape: Vec<usize>,
    /// How many axes are indexed.
    depth: usize,
    /// Shape of the indices without their last axis.
    batch: Vec<usize>,
    /// The rows that the indices name.
    positions: Vec<i64>,
}

impl Rows {
    fn new(call: &Call<'_>, value: &Value, indices: &Value, axes: &[usize]) -> Result<Self> {
        check::axes(call, axes, value)?;
        let depth = axes.len();
        let mut batch = indices.shape();
        if batch.pop() != Some(depth) || depth == 0 {
            return Err(call.invalid(format!("indices {} need a last axis of length {depth}", indices.ty())));
        }
        let order: Vec<usize> = axes.iter().copied().chain((0..value.rank()).filter(|a| !axes.contains(a))).collect();
        let shape: Vec<usize> = order.iter().map(|&axis| value.shape()[axis]).collect();
        let positions = positions::read_tuples(call, indices, depth, &shape)?;
        Ok(Self { order, shape, depth, batch, positions })
    }

    /// Shape of the slices that are read or written.
    fn slices_shape(&self) -> Vec<usize> {
        [&self.batch, &self.shape[self.depth..]].concat()
    }

    fn columns(&self) -> usize {
        self.shape[self.depth..].iter().product()
    }

    fn flatten(&self, value: Value) -> Value {
        let rows = self.shape[..self.depth].iter().product();
        permute(value, &self.order).reshape(&[rows, self.columns()])
    }

    /// Undoes [`Rows::flatten`].
    fn restore(&self, table: Value) -> Value {
        let mut back = vec![0; self.order.len()];
        self.order.iter().enumerate().for_each(|(to, &from)| back[from] = to);
        permute(table.reshape(&self.shape), &back)
    }
}

fn update(
    attrs: &Axes,
    mut call: Call<'_>,
    write: impl Fn(&Rows, Value, Value, &Call<'_>) -> Result<Value>,
) -> Result<Value> {
    let [value, indices, updates] = call.args()?;
    let dtype = call.out()?.dtype;
    let rows = Rows::new(&call, &value, &indices, &attrs.axes)?;
    check::result_shape(&call, &value.shape())?;
    if updates.shape() != rows.slices_shape() {
        return Err(call.invalid(format!("updates {} need the shape {:?}", updates.ty(), rows.slices_shape())));
    }
    let (value, updates) = (cast(value, dtype)?, cast(updates, dtype)?);
    if updates.is_empty() {
        return Ok(value);
    }
    let updates = updates.reshape(&[rows.positions.len(), rows.columns()]);
    Ok(rows.restore(write(&rows, rows.flatten(value), updates, &call)?))
}

fn select(value: Value, axis: usize, positions: &[i64], call: &Call<'_>) -> Result<Value> {
    let dtype = value.dtype();
    let positions = positions::tensor(call, positions, &[positions.len()])?.into_tensor();
    let select = if dtype.is_float() { Dispatch::float_select } else { Dispatch::int_select };
    Ok(Value::new(dtype, select(value.into_tensor(), axis, positions)))
}

fn write(table: Value, rows: &[i64], updates: Value, how: IndexingUpdateOp, call: &Call<'_>) -> Result<Value> {
    let dtype = table.dtype();
    let rows = positions::tensor(call, rows, &[rows.len()])?.into_tensor();
    let write = if dtype.is_float() { Dispatch::float_select_assign } else { Dispatch::int_select_assign };
    Ok(Value::new(dtype, write(table.into_tensor(), 0, rows, updates.into_tensor(), how)))
}

fn empty(call: &Call<'_>) -> Result<Value> {
    let out = call.out()?;
    Value::full(&TensorType::new(out.dtype, out.shape.clone()), 0.0, call.device)
}
