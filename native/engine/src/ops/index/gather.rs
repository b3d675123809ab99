//! Reading and writing at places that a tensor of indices names.
//!
//! The last axis of the indices holds one index for each of `axes`. The other axes of the indices, the batch, come first
//! in the slices read or written, then the remaining axes of the tensor in order.

use std::collections::BTreeMap;

use burn_backend::tensor::IndexingUpdateOp;

use super::positions;
use crate::cpu;
use crate::error::Result;
use crate::ops::shape::permute;
use crate::ops::{Call, cast, check};
use crate::program::{Axes, Axis};
use crate::value::Value;

pub(in crate::ops) fn gather(attrs: &Axes, mut call: Call<'_>) -> Result<Value> {
    let [value, indices] = call.args()?;
    let (rows, positions) = Rows::new(&call, &value, &indices, &attrs.axes)?;
    check::result_shape(&call, &rows.slices_shape())?;
    if rows.slices_shape().contains(&0) {
        return empty(&call);
    }
    Ok(rows.flatten(value).select(0, positions).reshape(&rows.slices_shape()))
}

/// Adds each update; updates of one place add up.
pub(in crate::ops) fn indexed_add(attrs: &Axes, call: Call<'_>) -> Result<Value> {
    update(attrs, call, |table, positions, updates, _| {
        Ok(table.select_assign(0, positions, updates, IndexingUpdateOp::Add))
    })
}

/// Writes each update; the last update of one place stays.
pub(in crate::ops) fn indexed_put(attrs: &Axes, call: Call<'_>) -> Result<Value> {
    update(attrs, call, |table, positions, updates, call| {
        let last: BTreeMap<i64, i64> = positions::list(positions.clone())?.into_iter().zip(0..).collect();
        if last.len() == positions.len() {
            return Ok(table.select_assign(0, positions, updates, IndexingUpdateOp::Assign));
        }
        let (places, rows) = last.into_iter().unzip();
        let updates = updates.select(0, positions::line(call, rows));
        Ok(table.select_assign(0, positions::line(call, places), updates, IndexingUpdateOp::Assign))
    })
}

/// Slices along `axis`; the axes of the indices take its place.
pub(in crate::ops) fn take(attrs: &Axis, mut call: Call<'_>) -> Result<Value> {
    let [value, indices] = call.args()?;
    check::axes(&call, &[attrs.axis], &value)?;
    let mut shape = value.shape();
    // Nx takes by a gather, which names the shape with its axes in front.
    let mut gathered = shape.clone();
    gathered[..=attrs.axis].rotate_right(1);
    let places = positions::places(&call, &indices)?;
    shape.splice(attrs.axis..=attrs.axis, indices.shape());
    check::result_shape(&call, &shape)?;
    // Without gradients the places are checked where they are used.
    if !shape.contains(&0)
        && value.flex().is_some()
        && let Some(taken) = cpu::take(&value, attrs.axis, &places)?
    {
        return Ok(taken.reshape(&shape));
    }
    let places = positions::read_along(&call, &indices, 0, &gathered)?;
    if shape.contains(&0) {
        return empty(&call);
    }
    Ok(value.select(attrs.axis, places).reshape(&shape))
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
    Ok(value.gather(attrs.axis, positions.reshape(&shape)))
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
}

impl Rows {
    /// The table and the rows that the indices name, as a line of s64.
    fn new(call: &Call<'_>, value: &Value, indices: &Value, axes: &[usize]) -> Result<(Self, Value)> {
        check::axes(call, axes, value)?;
        let depth = axes.len();
        let mut batch = indices.shape();
        if batch.pop() != Some(depth) || depth == 0 {
            return Err(call.invalid(format!("indices {} need a last axis of length {depth}", indices.ty())));
        }
        let order: Vec<usize> = axes.iter().copied().chain((0..value.rank()).filter(|a| !axes.contains(a))).collect();
        let shape: Vec<usize> = order.iter().map(|&axis| value.shape()[axis]).collect();
        let positions = positions::read_tuples(call, indices, depth, &shape)?;
        Ok((Self { order, shape, depth, batch }, positions))
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
    write: impl Fn(Value, Value, Value, &Call<'_>) -> Result<Value>,
) -> Result<Value> {
    let [value, indices, updates] = call.args()?;
    let dtype = call.out()?.dtype;
    let (rows, positions) = Rows::new(&call, &value, &indices, &attrs.axes)?;
    check::result_shape(&call, &value.shape())?;
    // Nx flattens the updates of vectorized tensors.
    let shape = updates.shape();
    if shape != rows.slices_shape() && (shape.len() != 1 || updates.len() != positions.len() * rows.columns()) {
        return Err(call.invalid(format!("updates {} need the shape {:?}", updates.ty(), rows.slices_shape())));
    }
    let (value, updates) = (cast(value, dtype)?, cast(updates, dtype)?);
    if updates.is_empty() {
        return Ok(value);
    }
    let updates = updates.reshape(&[positions.len(), rows.columns()]);
    Ok(rows.restore(write(rows.flatten(value), positions, updates, &call)?))
}

fn empty(call: &Call<'_>) -> Result<Value> {
    Value::full(call.out()?, 0.0, call.device)
}
