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

/// What is to be looked up: whether an element compares so with zero.
pub(super) struct Check<'a> {
    value: &'a Value,
    test: Two,
}

/// Where the function fails: divided by zero, or with a shift or an exponent below zero.
pub(super) fn check<'a>(call: &'a Call<'_>) -> Result<Option<Check<'a>>> {
    let (Op::Binary(op), [_, value]) = (call.op, call.inputs.as_slice()) else { return Ok(None) };
    if !value.dtype().is_int() || call.out()?.dtype.is_float() {
        return Ok(None);
    }
    let test = match op {
        Binary::Quotient | Binary::Remainder => Two::EqualI,
        Binary::LeftShift | Binary::RightShift | Binary::Pow if value.dtype().class() == Class::Signed => Two::LessS,
        _ => return Ok(None),
    };
    Ok(Some(Check { value, test }))
}

impl Check<'_> {
    /// Whether there is such an element.
    pub(super) fn fails(&self, adapter: Adapter) -> Result<bool> {
        any(self.value, self.test, adapter)
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
