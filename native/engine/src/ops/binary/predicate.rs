//! Comparisons and logical connectives.

use crate::cpu::{self, Cell, Number, for_cell, for_complex, for_number};
use crate::error::{Error, Result};
use crate::ops::cast;
use crate::ops::promote::{is_mixed, merge, operand, zip_mixed};
use crate::program::Binary;
use crate::types::{TensorType, Type};
use crate::value::Value;

/// 0 or 1 in the type of `out`. Comparisons with NaN do not hold, except that it differs from everything.
pub(super) fn run(op: Binary, left: Value, right: Value, out: &TensorType) -> Result<Value> {
    let name = <&str>::from(op);
    let answer = if matches!(op, Binary::LogicalAnd | Binary::LogicalOr | Binary::LogicalXor) {
        let [left, right] = [truth(&left)?, truth(&right)?];
        connect(op, &operand(name, left, Type::U8, &out.shape)?, &operand(name, right, Type::U8, &out.shape)?)
    } else if is_mixed(left.dtype(), right.dtype()) {
        zip_mixed(name, [left, right], &out.shape, |a, b| u8::from(holds(op, a, b)))
    } else if left.dtype().is_complex() || right.dtype().is_complex() {
        let place = |value| operand(name, value, Type::C128, &out.shape);
        for_complex!(Type::C128, T => equality::<T>(op, &place(left)?, &place(right)?))
    } else {
        let dtype = merge(left.dtype(), right.dtype());
        let (left, right) = (operand(name, left, dtype, &out.shape)?, operand(name, right, dtype, &out.shape)?);
        for_number!(dtype, T => compare::<T>(op, &left, &right))
    };
    cast(answer?, out.dtype)
}

fn compare<T: Number>(op: Binary, left: &Value, right: &Value) -> Result<Value> {
    match op {
        Binary::Greater => cpu::zip(left, right, |a: T, b: T| u8::from(a > b)),
        Binary::GreaterEqual => cpu::zip(left, right, |a: T, b: T| u8::from(a >= b)),
        Binary::Less => cpu::zip(left, right, |a: T, b: T| u8::from(a < b)),
        Binary::LessEqual => cpu::zip(left, right, |a: T, b: T| u8::from(a <= b)),
        _ => equality::<T>(op, left, right),
    }
}

fn equality<T: Cell>(op: Binary, left: &Value, right: &Value) -> Result<Value> {
    match op {
        Binary::Equal => cpu::zip(left, right, |a: T, b: T| u8::from(a == b)),
        Binary::NotEqual => cpu::zip(left, right, |a: T, b: T| u8::from(a != b)),
        _ => {
            let (op, device) = (<&str>::from(op).into(), left.device().to_string());
            Err(Error::Unsupported { op, dtype: T::TYPE, device })
        }
    }
}

fn holds(op: Binary, a: i128, b: i128) -> bool {
    match op {
        Binary::Equal => a == b,
        Binary::NotEqual => a != b,
        Binary::Greater => a > b,
        Binary::GreaterEqual => a >= b,
        Binary::Less => a < b,
        _ => a <= b,
    }
}

/// 1 for each element that is not zero, as u8.
fn truth(x: &Value) -> Result<Value> {
    for_cell!(x.dtype(), T => cpu::map(x, |x: T| u8::from(x != T::default())))
}

fn connect(op: Binary, left: &Value, right: &Value) -> Result<Value> {
    match op {
        Binary::LogicalAnd => cpu::zip(left, right, |a: u8, b: u8| a & b),
        Binary::LogicalOr => cpu::zip(left, right, |a: u8, b: u8| a | b),
        _ => cpu::zip(left, right, |a: u8, b: u8| a ^ b),
    }
}
