//! Reductions and scans.

mod arg;
mod cumulative;

pub(super) use arg::arg_reduce;
pub(super) use cumulative::cumulative;

use crate::cpu::{self, Number, for_number};
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
    if x.dtype().burn().is_none() || out.dtype.burn().is_none() {
        return Err(call.unsupported());
    }
    let reduced = mask(attrs.axes.as_deref(), x.rank()).ok_or_else(|| call.invalid("has an axis out of range"))?;
    let kept: Vec<usize> = x.shape().iter().zip(&reduced).map(|(&len, &gone)| if gone { 1 } else { len }).collect();
    let shape = match attrs.keep_axes {
        true => kept.clone(),
        false => kept.iter().zip(&reduced).filter(|&(_, &gone)| !gone).map(|(&len, _)| len).collect(),
    };
    let fold = attrs.fold;
    match fold {
        Fold::All | Fold::Any => Ok(cast(folded(fold, &x.untracked(), &reduced)?, out.dtype)?.reshape(&shape)),
        _ => with_gradient(
            [cast(x, out.dtype)?],
            |[x]| Ok(folded(fold, &x, &reduced)?.reshape(&shape)),
            |[x], y| {
                let (x, y, reduced) = (x.clone(), y.clone().reshape(&kept), reduced.clone());
                Box::new(move |_, g| gradient(fold, &x, &y, &reduced, g.reshape(&kept)))
            },
        ),
    }
}

/// For each axis whether it is among `axes`; `None` for an axis that does not exist.
fn mask(axes: Option<&[usize]>, rank: usize) -> Option<Vec<bool>> {
    let Some(axes) = axes else { return Some(vec![true; rank]) };
    axes.iter().all(|&axis| axis < rank).then(|| (0..rank).map(|axis| axes.contains(&axis)).collect())
}

/// A plain value folded over the axes where `reduced` holds, which stay with length 1.
fn folded(fold: Fold, x: &Value, reduced: &[bool]) -> Result<Value> {
    fn of<T: Number>(fold: Fold, x: &Value, reduced: &[bool]) -> Result<Value> {
        match fold {
            Fold::All => cpu::fold::<T, cpu::All>(x, reduced),
            Fold::Any => cpu::fold::<T, cpu::Any>(x, reduced),
            Fold::Sum => cpu::fold::<T, cpu::Sum>(x, reduced),
            Fold::Product => cpu::fold::<T, cpu::Product>(x, reduced),
            Fold::Max => cpu::fold::<T, cpu::Max>(x, reduced),
            Fold::Min => cpu::fold::<T, cpu::Min>(x, reduced),
        }
    }
    for_number!(x.dtype(), T => of::<T>(fold, x, reduced))
}

/// The gradient of x from the gradient `g` of y = fold(x); the reduced axes of y and g have length 1.
fn gradient(fold: Fold, x: &Value, y: &Value, reduced: &[bool], g: Value) -> Result<Value> {
    let shape = x.shape();
    match fold {
        Fold::Sum => Ok(g.expand(&shape)),
        Fold::Product => product_gradient(x, y, reduced, &g),
        Fold::Max | Fold::Min => {
            let chosen = Real::new(x)?.ones_where_equal(&Real::new(y)?)?;
            let ties = Real::new(&folded(Fold::Sum, &chosen.clone().value(), reduced)?)?;
            Ok((chosen * Real::new(&g)? / ties).value())
        }
        Fold::All | Fold::Any => Err(Error::invalid(<&str>::from(fold), "has no gradient")),
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
