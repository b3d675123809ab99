//! Running folds along an axis.

use crate::cpu::{self, Cell, Pair, for_cell, for_number};
use crate::error::{Error, Result};
use crate::ops::gradient::with_gradient;
use crate::ops::{Call, cast};
use crate::program::{Cumulative, Fold};
use crate::types::Type;
use crate::value::Value;

/// The fold of the elements up to each one along an axis, or from each one on.
pub(in crate::ops) fn cumulative(attrs: &Cumulative, mut call: Call<'_>) -> Result<Value> {
    let [x] = call.args()?;
    let out = call.out()?;
    let Cumulative { fold, axis, reverse } = *attrs;
    if axis >= x.rank() {
        return Err(call.invalid(format!("axis {axis} of a tensor of rank {}", x.rank())));
    }
    if out.dtype.is_complex() && matches!(fold, Fold::Max | Fold::Min) {
        return Err(call.unsupported());
    }
    let backwards = move |value: Value| if reverse { value.flip(&[axis]) } else { value };
    with_gradient(
        [cast(x, out.dtype)?],
        |[x]| Ok(backwards(scanned(fold, &backwards(x), axis)?)),
        |[x], _| {
            let x = backwards(x.clone());
            Box::new(move |_, g| Ok(backwards(gradient(fold, &x, &backwards(g), axis)?)))
        },
    )
}

fn scanned(fold: Fold, x: &Value, axis: usize) -> Result<Value> {
    fn along<T: Cell>(x: &Value, axis: usize, scan: fn(&[T], &mut [T])) -> Result<Value> {
        cpu::lines([x], axis, x.shape()[axis], &|[line]: [&[T]; 1], out: &mut [T]| scan(line, out))
    }
    match fold {
        Fold::Sum => for_cell!(x.dtype(), T => along::<T>(x, axis, cpu::scan::<T, cpu::Sum>)),
        Fold::Product => for_cell!(x.dtype(), T => along::<T>(x, axis, cpu::scan::<T, cpu::Product>)),
        Fold::Max => for_number!(x.dtype(), T => along::<T>(x, axis, cpu::scan::<T, cpu::Max>)),
        Fold::Min => for_number!(x.dtype(), T => along::<T>(x, axis, cpu::scan::<T, cpu::Min>)),
        Fold::All | Fold::Any => Err(Error::invalid(<&str>::from(fold), "has no running form")),
    }
}

/// The gradient of x from the gradient `g` of its prefix folds.
fn gradient(fold: Fold, x: &Value, g: &Value, axis: usize) -> Result<Value> {
    let pair = match fold {
        Fold::Product => Pair { value: |a, b| a * b, slopes: |a, b| [b, a] },
        Fold::Max => Pair { value: f64::max, slopes: |a, b| shares(a, b, a.max(b)) },
        Fold::Min => Pair { value: f64::min, slopes: |a, b| shares(a, b, a.min(b)) },
        _ => Pair { value: |a, b| a + b, slopes: |_, _| [1.0, 1.0] },
    };
    let (x, g) = (cast(x.clone(), Type::F64)?, cast(g.clone(), Type::F64)?);
    cpu::lines([&x, &g], axis, x.shape()[axis], &|[x, g]: [&[f64]; 2], out: &mut [f64]| {
        out.copy_from_slice(&cpu::scan_gradient(pair, x, g));
    })
}

/// How two numbers share the gradient of the one of them that was chosen: equal ones get half each.
fn shares(a: f64, b: f64, chosen: f64) -> [f64; 2] {
    let won = |x: f64| f64::from(x == chosen);
    [won(a) / (1.0 + won(b)), won(b) / (1.0 + won(a))]
}
