//! Functions of integers that fail for some: whether they would is looked up on the GPU, and only the answer comes back.

use super::formula::Formula;
use super::launch::{Operand, Work};
use super::step::{Fold, Two};
use super::{Adapter, transfer};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{Binary, Op};
use crate::types::{Class, TensorType, Type};
use crate::value::Value;

/// Whether the function divides by zero, or has a shift or an exponent below zero.
pub(super) fn fails(call: &Call<'_>, adapter: Adapter) -> Result<bool> {
    let (Op::Binary(op), [_, y]) = (call.op, call.inputs.as_slice()) else { return Ok(false) };
    if !y.dtype().is_int() || call.out()?.dtype.is_float() {
        return Ok(false);
    }
    match op {
        Binary::Quotient | Binary::Remainder => any(y, Two::EqualI, adapter),
        Binary::LeftShift | Binary::RightShift | Binary::Pow if y.dtype().class() == Class::Signed => {
            any(y, Two::LessS, adapter)
        }
        _ => Ok(false),
    }
}

/// Whether an element compares so with zero.
fn any(x: &Value, test: Two, adapter: Adapter) -> Result<bool> {
    let shape = x.shape();
    let Some(operand) = Operand::broadcast(x, &shape).filter(|_| !x.is_empty()) else { return Ok(false) };
    let mut formula = Formula::new(1);
    let zero = formula.literal(0);
    let answer = formula.two(test, 0, zero);
    let types = [TensorType::new(Type::U32, [])];
    let work =
        Work { adapter, shape, operands: vec![operand], steps: formula.steps, results: vec![answer], types: &types };
    let found = transfer::download(work.fold(Fold { function: Two::Or, identity: 0 }, 0)?)?;
    Ok(found.to_f64()? != 0.0)
}
