//! Sums at the extrema of windows: the gradient of a pool.

use burn_backend::tensor::IndexingUpdateOp;

use crate::cpu::{self, WindowAxis, for_number};
use crate::error::Result;
use crate::ops::gradient::with_gradient;
use crate::ops::promote::merge;
use crate::ops::shape::{PaddedAxis, pad_with, padded_axes};
use crate::ops::window::{compute_type, window_axes};
use crate::ops::{Call, cast, check};
use crate::program::{Extremum, WindowScatter, Windows};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// A tensor of the initial value, to which each element of `source` is added where its window has its extremum: the last of
/// equal ones. As in Nx, the padding holds the initial value too, and what falls there is lost; NaN is chosen only as the
/// first element of a window.
pub(super) fn scatter(attrs: &WindowScatter, mut call: Call<'_>) -> Result<Value> {
    let [x, source, init] = call.args()?;
    let counts: Vec<usize> = window_axes(&call, &attrs.windows, &x.shape())?.iter().map(|axis| axis.count).collect();
    if init.len() != 1 || source.shape() != counts {
        let given = format!("{} and {}", source.ty(), init.ty());
        return Err(call.invalid(format!("takes sources of shape {counts:?} and a scalar, got {given}")));
    }
    if x.dtype().is_complex() {
        return Err(call.invalid(format!("{} has no order", x.ty())));
    }
    check::result_shape(&call, &x.shape())?;
    let out = call.out()?.dtype;
    let pool = Pool::new(&call, attrs, x.untracked(), init.untracked())?;
    let gradient = pool.clone();
    with_gradient(
        [source, init],
        |[source, init]| pool.add(source, init, out),
        |_, _| Box::new(move |operand, g| if operand == 0 { gradient.take(g, &counts) } else { Ok(g) }),
    )
}

/// What windows choose.
#[derive(Clone)]
struct Pool {
    /// What padding makes of the tensor.
    padding: Vec<PaddedAxis>,
    /// What undoes it.
    cropping: Vec<PaddedAxis>,
    /// For each window, the row-major position in the padded tensor.
    places: Value,
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
        let places = places(call, &attrs.windows, attrs.extremum, &x)?;
        Ok(Self { padding, cropping, places })
    }

    /// `init` with each source added at its place.
    fn add(&self, source: Value, init: Value, out: Type) -> Result<Value> {
        let (dtype, padded) = (compute_type(out), lengths(&self.padding));
        let line = [self.places.len()];
        let (source, init) = (cast(source.reshape(&line), dtype)?, cast(init.reshape(&[]), dtype)?);
        let start = init.clone().reshape(&[1]).expand(&[padded.iter().product()]);
        let sums = match source.is_empty() {
            true => start,
            false => start.select_assign(0, self.places.clone().reshape(&line), source, IndexingUpdateOp::Add),
        };
        cast(pad_with(sums.reshape(&padded), init, &self.cropping), out)
    }

    /// What `g` has at each place, nothing in the padding.
    fn take(&self, g: Value, counts: &[usize]) -> Result<Value> {
        let nothing = Value::full(&TensorType::new(g.dtype(), []), 0.0, &g.device())?;
        let padded = pad_with(g, nothing, &self.padding);
        let line = [padded.len()];
        Ok(padded.reshape(&line).select(0, self.places.clone().reshape(&[self.places.len()])).reshape(counts))
    }
}

fn lengths(axes: &[PaddedAxis]) -> Vec<usize> {
    axes.iter().map(|axis| axis.length).collect()
}

/// Where each window of a padded tensor has its extremum.
fn places(call: &Call<'_>, windows: &Windows, extremum: Extremum, x: &Value) -> Result<Value> {
    let unpadded = Windows { padding: vec![[0, 0]; x.rank()], ..windows.clone() };
    let axes: Vec<WindowAxis> = window_axes(call, &unpadded, &x.shape())?;
    for_number!(x.dtype(), T => cpu::extrema::<T>(x, &axes, match extremum {
        Extremum::Max => |new, best| new >= best,
        Extremum::Min => |new, best| new <= best,
    }))
}
