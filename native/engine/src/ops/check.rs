//! Checks of operands and attributes that several operations share.

use crate::error::Result;
use crate::ops::Call;
use crate::value::Value;

/// Refuses axes that `value` does not have or that come twice.
pub(super) fn axes(call: &Call<'_>, axes: &[usize], value: &Value) -> Result<()> {
    let rank = value.rank();
    if axes.iter().any(|&axis| axis >= rank) {
        return Err(call.invalid(format!("axes {axes:?} are not all axes of {}", value.ty())));
    }
    let distinct = (0..rank).all(|axis| axes.iter().filter(|&&a| a == axis).count() <= 1);
    if distinct { Ok(()) } else { Err(call.invalid(format!("axes {axes:?} repeat an axis"))) }
}

/// Refuses a list of attributes that has not one entry for each of `count` axes.
pub(super) fn one_each<T: std::fmt::Debug>(call: &Call<'_>, what: &str, list: &[T], count: usize) -> Result<()> {
    if list.len() == count {
        return Ok(());
    }
    Err(call.invalid(format!("needs one {what} for each of {count} axes, got {list:?}")))
}

/// Refuses steps of length 0.
pub(super) fn steps(call: &Call<'_>, what: &str, steps: &[usize], count: usize) -> Result<()> {
    one_each(call, what, steps, count)?;
    if steps.contains(&0) { Err(call.invalid(format!("{what} {steps:?} must not be 0"))) } else { Ok(()) }
}

/// Refuses a declared result that no memory can hold or whose shape differs from the one that the operands make.
pub(super) fn result_shape(call: &Call<'_>, shape: &[usize]) -> Result<()> {
    let out = call.out()?;
    if out.checked_len().is_none() {
        return Err(call.invalid(format!("{out} is larger than memory")));
    }
    if out.shape == shape {
        return Ok(());
    }
    Err(call.invalid(format!("the operands make a result of shape {shape:?}, not {:?}", out.shape)))
}

/// The operands, when there are at least `least` of them.
pub(super) fn at_least(call: &mut Call<'_>, least: usize) -> Result<Vec<Value>> {
    let inputs = std::mem::take(&mut call.inputs);
    if inputs.len() >= least {
        return Ok(inputs);
    }
    Err(call.invalid(format!("takes at least {least} operands, got {}", inputs.len())))
}
