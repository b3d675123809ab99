//! Elementwise functions of two operands.

mod complex;
mod float;
mod int;
mod predicate;

pub(in crate::ops) use int::division;

use crate::cpu::Kernel;
use crate::error::Result;
use crate::ops::Call;
use crate::ops::promote::merge;
use crate::program::Binary;
use crate::types::{TensorType, Type};
use crate::value::Value;

pub(super) fn run(op: Binary, mut call: Call<'_>) -> Result<Value> {
    let [left, right] = call.args()?;
    let out = call.out()?;
    if op.is_predicate() {
        return predicate::run(op, left.untracked(), right.untracked(), out);
    }
    if out.dtype.is_complex() {
        return complex::run(op, left, right, out);
    }
    let integers = left.dtype().is_int() && right.dtype().is_int();
    if !out.dtype.is_float() && !integers {
        return Err(call.unsupported());
    }
    compute(op, left, right, out)
}

/// The arithmetic `op` of floats answering floats, or of integers answering integers.
pub(super) fn compute(op: Binary, left: Value, right: Value, out: &TensorType) -> Result<Value> {
    match out.dtype.is_float() {
        true => float::run(op, left, right, out),
        false => int::run(op, left, right, out),
    }
}

/// The loop over the function `op` of two real operands, where it cannot fail.
pub(super) fn kernel(op: Binary, left: Type, right: Type, out: Type) -> Option<Kernel> {
    if op.is_predicate() {
        return predicate::kernel(op, left, right);
    }
    match out.is_float() {
        true => float::kernel(op, [left, right], merge(merge(left, right), out)),
        false if left.is_int() && right.is_int() => int::kernel(op, left, right, out),
        false => None,
    }
}
