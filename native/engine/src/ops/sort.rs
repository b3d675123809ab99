//! Sorting.

use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::IndexingUpdateOp;
use burn_dispatch::Dispatch;

use crate::cpu::{self, for_number};
use crate::error::Result;
use crate::ops::gradient::with_gradient;
use crate::ops::{Call, cast};
use crate::program::{Direction, Sort, TopK};
use crate::value::Value;

/// The elements along an axis in their order.
pub(super) fn sort(attrs: &Sort, mut call: Call<'_>) -> Result<Value> {
    let (x, axis, shape) = operand(attrs.axis, &mut call)?;
    let order = Order { axis, len: x.shape()[axis], descending: attrs.direction == Direction::Desc };
    Ok(order.sorted(x)?.reshape(&shape))
}

/// The places that the elements along an axis have in their order.
pub(super) fn argsort(attrs: &Sort, mut call: Call<'_>) -> Result<Value> {
    let (x, axis, shape) = operand(attrs.axis, &mut call)?;
    let order = Order { axis, len: x.shape()[axis], descending: attrs.direction == Direction::Desc };
    Ok(cast(order.places(&x.untracked())?, call.out()?.dtype)?.reshape(&shape))
}

/// The largest elements along the last axis and their places.
pub(super) fn top_k(attrs: &TopK, mut call: Call<'_>) -> Result<Vec<Value>> {
    let [_, places] = call.outputs else { return Err(call.invalid("makes two results")) };
    let (x, axis, _) = operand(places.shape.len().saturating_sub(1), &mut call)?;
    let len = x.shape()[axis];
    if attrs.k > len {
        return Err(call.invalid(format!("asks for {} of {len} elements", attrs.k)));
    }
    let order = Order { axis, len: attrs.k, descending: true };
    let found = cast(order.places(&x.untracked())?, places.dtype)?;
    Ok(vec![order.sorted(x)?, found])
}

/// The operand, its axis, which exists, and its shape; a scalar becomes one line.
fn operand(axis: usize, call: &mut Call<'_>) -> Result<(Value, usize, Vec<usize>)> {
    let [x] = call.args()?;
    let shape = x.shape();
    match x.rank() {
        0 => Ok((x.reshape(&[1]), 0, shape)),
        rank if axis >= rank => Err(call.invalid(format!("axis {axis} of a tensor of rank {rank}"))),
        _ => Ok((x, axis, shape)),
    }
}

/// The first `len` elements along an axis in their order.
#[derive(Clone, Copy)]
struct Order {
    axis: usize,
    len: usize,
    descending: bool,
}

impl Order {
    fn sorted(self, x: Value) -> Result<Value> {
        with_gradient(
            [x],
            |[x]| self.pick(&x),
            |[x], _| {
                let x = x.clone();
                Box::new(move |_, g| self.scatter(&x, g))
            },
        )
    }

    /// The elements of a plain value.
    fn pick(self, x: &Value) -> Result<Value> {
        for_number!(x.dtype(), T => cpu::lines([x], self.axis, self.len, &|[line]: [&[T]; 1], out: &mut [T]| {
            cpu::sort(line, self.descending, out);
        }))
    }

    /// The places in a plain value, as s64.
    fn places(self, x: &Value) -> Result<Value> {
        for_number!(x.dtype(), T => cpu::lines([x], self.axis, self.len, &|[line]: [&[T]; 1], out: &mut [i64]| {
            cpu::argsort(line, self.descending, out);
        }))
    }

    /// The gradient of `x` from the gradient `g` of its elements in order: each goes back to its place.
    fn scatter(self, x: &Value, g: Value) -> Result<Value> {
        let zeros = Value::full(&x.ty(), 0.0, &x.device())?.into_tensor();
        let places = self.places(x)?.into_tensor();
        let tensor = Dispatch::float_scatter(self.axis, zeros, places, g.into_tensor(), IndexingUpdateOp::Add);
        Ok(Value::new(x.dtype(), tensor))
    }
}
