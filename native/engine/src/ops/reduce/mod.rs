//! Reductions and scans.

mod arg;
mod cumulative;

pub(super) use arg::arg_reduce;
pub(super) use cumulative::cumulative;

use crate::cpu::{self, for_cell, for_number};
use crate::error::{Error, Result};
use crate::ops::gradient::with_gradient;
use crate::ops::real::{Real, Test};
use crate::ops::{Call, cast};
use crate::program::{Fold, Reduce};
use crate::value::Value;

/// A fold over some axes or all of them. Sums of 16 and 32 bit floats are kept in 64 bits.
pub(super) fn reduce(attrs: &Reduce, mut call: Call<'_>) -> Result<Value> {
    let [x] = call.args()?;
    let out = call.out()?;
    let Shapes { reduced, kept, result } = Shapes::new(&call, &x, attrs.axes.as_deref(), attrs.keep_axes)?;
    let fold = attrs.fold;
    match fold {
        Fold::All | Fold::Any => Ok(cast(folded(fold, &x.untracked(), &reduced)?, out.dtype)?.reshape(&result)),
        _ => with_gradient(
            [cast(x, out.dtype)?],
            |[x]| Ok(folded(fold, &x, &reduced)?.reshape(&result)),
            |[x], y| {
                if fold == Fold::Sum {
                    let shape = x.shape();
                    return Box::new(move |_, g| Ok(g.reshape(&kept).expand(&shape)));
                }
                let (x, y, reduced) = (x.clone(), y.clone().reshape(&kept), reduced.clone());
                Box::new(move |_, g| gradient(fold, &x, &y, &reduced, g.reshape(&kept)))
            },
        ),
    }
}

/// What becomes of the axes of a reduced tensor.
pub(super) struct Shapes {
    /// Whether each axis is reduced.
    pub(super) reduced: Vec<bool>,
    /// The operand's shape with length 1 for the reduced axes.
    pub(super) kept: Vec<usize>,
    /// The result's shape.
    pub(super) result: Vec<usize>,
}

impl Shapes {
    /// Of a reduction of `x` over `axes`, or over all of them.
    pub(super) fn new(call: &Call<'_>, x: &Value, axes: Option<&[usize]>, keep: bool) -> Result<Self> {
        let rank = x.rank();
        if let Some(axis) = axes.unwrap_or_default().iter().find(|&&axis| axis >= rank) {
            return Err(call.invalid(format!("axis {axis} of a tensor of rank {rank}")));
        }
        let reduced: Vec<bool> = (0..rank).map(|axis| axes.is_none_or(|axes| axes.contains(&axis))).collect();
        let shape = x.shape();
        let kept = (0..rank).map(|axis| if reduced[axis] { 1 } else { shape[axis] }).collect();
        let result = (0..rank).filter(|&axis| keep || !reduced[axis]);
        let result = result.map(|axis| if reduced[axis] { 1 } else { shape[axis] }).collect();
        Ok(Self { reduced, kept, result })
    }
}

/// A plain value folded over the axes where `reduced` holds, which stay with length 1.
pub(super) fn folded(fold: Fold, x: &Value, reduced: &[bool]) -> Result<Value> {
    let dtype = x.dtype();
    match fold {
        Fold::All => for_cell!(dtype, T => cpu::fold::<T, cpu::All>(x, reduced)),
        Fold::Any => for_cell!(dtype, T => cpu::fold::<T, cpu::Any>(x, reduced)),
        Fold::Sum => for_cell!(dtype, T => cpu::fold::<T, cpu::Sum>(x, reduced)),
        Fold::Product => for_cell!(dtype, T => cpu::fold::<T, cpu::Product>(x, reduced)),
        Fold::Max => for_number!(dtype, T => cpu::fold::<T, cpu::Max>(x, reduced)),
        Fold::Min => for_number!(dtype, T => cpu::fold::<T, cpu::Min>(x, reduced)),
    }
}

/// The gradient of x from the gradient `g` of y = fold(x); the reduced axes of y and g have length 1.
fn gradient(fold: Fold, x: &Value, y: &Value, reduced: &[bool], g: Value) -> Result<Value> {
    match fold {
        Fold::Product => product_gradient(x, y, reduced, &g),
        Fold::Max | Fold::Min => {
            let chosen = Real::new(x)?.ones_where_equal(&Real::new(y)?)?;
            let ties = Real::new(&folded(Fold::Sum, &chosen.clone().value(), reduced)?)?;
            Ok((chosen * Real::new(&g)? / ties).value())
        }
        Fold::All | Fold::Any | Fold::Sum => Err(Error::invalid(<&str>::from(fold), "needs no operand")),
    }
}

/// The product of all others: the product without x where x is not zero; where x is the only zero, the product of the
/// rest; else zero.
fn product_gradient(x: &Value, y: &Value, reduced: &[bool], g: &Value) -> Result<Value> {
    let (x, y, g) = (Real::new(x)?, Real::new(y)?, Real::new(g)?);
    let zero = x.compare_number(Test::Equal, 0.0);
    let zeros = Real::new(&folded(Fold::Sum, &x.ones_where(zero.clone())?.value(), reduced)?)?;
    let others = x.clone().replace(zero.clone(), 1.0);
    let rest = Real::new(&folded(Fold::Product, &others.clone().value(), reduced)?)?.spread(&x);
    let alone = rest.keep(zeros.spread(&x).compare_number(Test::Equal, 1.0), 0.0);
    Ok((g * (y / others).replace_with(zero, alone)).value())
}

/// A plain `value` summed over the axes along which `shape` is broadcast to its shape.
pub(super) fn sum_to(value: Value, shape: &[usize]) -> Result<Value> {
    let from = value.shape();
    if from == shape {
        return Ok(value);
    }
    let added = from.len() - shape.len();
    let reduced: Vec<bool> =
        (0..from.len()).map(|axis| axis < added || (shape[axis - added] == 1 && from[axis] != 1)).collect();
    Ok(folded(Fold::Sum, &value, &reduced)?.reshape(shape))
}
