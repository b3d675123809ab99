//! Sums at the extrema of windows: the gradient of a pool.

use crate::cpu::{self, WindowAxis};
use crate::error::Result;
use crate::ops::gradient::with_gradient;
use crate::ops::promote::merge;
use crate::ops::shape::{PaddedAxis, pad_with, padded_axes};
use crate::ops::window::{compute_type, order_of, window_axes};
use crate::ops::{Call, cast, check};
use crate::program::{Extremum, WindowScatter, Windows};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// A tensor of the initial value, to which each element of `source` is added where its window has its extremum: the last of
/// equal ones. As in Nx, the padding holds the initial value too, and what falls there is lost; NaN is chosen only as the
/// first element of a window.
pub(super) fn scatter(attrs: &WindowScatter, mut call: Call<'_>) -> Result<Value> {
    let [x, source, init] = call.args()?;
    let axes = window_axes(&call, &attrs.windows, &x.shape())?;
    let counts: Vec<usize> = axes.iter().map(|axis| axis.count).collect();
    if init.len() != 1 || source.shape() != counts {
        let given = format!("{} and {}", source.ty(), init.ty());
        return Err(call.invalid(format!("takes sources of shape {counts:?} and a scalar, got {given}")));
    }
    if x.dtype().is_complex() {
        return Err(call.invalid(format!("{} has no order", x.ty())));
    }
    check::result_shape(&call, &x.shape())?;
    let x = x.untracked();
    let Some(order) = order_of(&x, &axes) else { return add(attrs, &call, [x, source, init]) };
    let Windows { dimensions, padding, strides, dilations } = &attrs.windows;
    let windows = Windows {
        dimensions: order.list(dimensions),
        padding: order.list(padding),
        strides: order.list(strides),
        dilations: order.list(dilations),
    };
    let sums = add(&WindowScatter { windows, ..*attrs }, &call, [order.apply(x), order.apply(source), init])?;
    Ok(order.undo(sums))
}

/// [`scatter`] of operands that fit.
fn add(attrs: &WindowScatter, call: &Call<'_>, [x, source, init]: [Value; 3]) -> Result<Value> {
    let (out, counts) = (call.out()?.dtype, source.shape());
    let pool = Pool::new(call, attrs, x, init.untracked())?;
    let gradient = pool.clone();
    with_gradient(
        [source, init],
        |[source, init]| pool.add(source, init, out),
        |_, _| Box::new(move |operand, g| if operand == 0 { gradient.take(g, &counts) } else { Ok(g) }),
    )
}

/// What windows choose from.
#[derive(Clone)]
struct Pool {
    /// What padding makes of the tensor.
    padding: Vec<PaddedAxis>,
    /// What undoes it.
    cropping: Vec<PaddedAxis>,
    /// The tensor with its padding.
    x: Value,
    axes: Vec<WindowAxis>,
    extremum: Extremum,
}

impl Pool {
    fn new(call: &Call<'_>, attrs: &WindowScatter, x: Value, init: Value) -> Result<Self> {
        let config = |sign: i64| -> Vec<[i64; 3]> {
            attrs.windows.padding.iter().map(|&[low, high]| [sign * low, sign * high, 0]).collect()
        };
        let padding = padded_axes(call, &x.shape(), &config(1))?;
        let cropping = padded_axes(call, &lengths(&padding), &config(-1))?;
        let dtype = merge(x.dtype(), init.dtype());
        let x = pad_with(cast(x, dtype)?, cast(init.reshape(&[]), dtype)?, &padding);
        let unpadded = Windows { padding: vec![[0, 0]; x.rank()], ..attrs.windows.clone() };
        let axes = window_axes(call, &unpadded, &x.shape())?;
        Ok(Self { padding, cropping, x, axes, extremum: attrs.extremum })
    }

    /// `init` with each source added at its place.
    fn add(&self, source: Value, init: Value, out: Type) -> Result<Value> {
        let dtype = compute_type(out);
        let (source, init) = (cast(source, dtype)?, cast(init.reshape(&[]), dtype)?);
        let sums = cpu::add_at_extrema(&self.x, &self.axes, self.extremum, &source, &init)?;
        cast(pad_with(sums, init, &self.cropping), out)
    }

    /// What `g` has at each place, nothing in the padding.
    fn take(&self, g: Value, counts: &[usize]) -> Result<Value> {
        let nothing = Value::full(&TensorType::new(g.dtype(), []), 0.0, &g.device())?;
        let padded = pad_with(g, nothing, &self.padding);
        let places = cpu::extrema(&self.x, &self.axes, self.extremum)?;
        let line = [padded.len()];
        Ok(padded.reshape(&line).select(0, places.clone().reshape(&[places.len()])).reshape(counts))
    }
}

fn lengths(axes: &[PaddedAxis]) -> Vec<usize> {
    axes.iter().map(|axis| axis.length).collect()
}
