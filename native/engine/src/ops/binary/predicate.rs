//! Comparisons and logical connectives.

use crate::cpu::{Cell, Kernel, Number, Zip, for_complex, for_number};
use crate::error::Result;
use crate::ops::promote::{is_mixed, merge, operand, zip_mixed};
use crate::ops::{cast, unsupported};
use crate::program::Binary;
use crate::types::{TensorType, Type};
use crate::value::Value;

/// 0 or 1 in the type of `out`. Comparisons with NaN do not hold, except that it differs from everything.
pub(super) fn run(op: Binary, left: Value, right: Value, out: &TensorType) -> Result<Value> {
    let name = <&str>::from(op);
    let answer = if is_mixed(left.dtype(), right.dtype()) {
        zip_mixed(name, [left, right], &out.shape, |a, b| u8::from(holds(op, a, b)))
    } else if left.dtype().is_complex() || right.dtype().is_complex() {
        let place = |value| operand(name, value, Type::C128, &out.shape);
        let (left, right) = (place(left)?, place(right)?);
        for_complex!(Type::C128, T => equality::<T>(op).ok_or_else(|| unsupported(op, &left))?.zip(&left, &right))
    } else {
        let dtype = comparable(op, left.dtype(), right.dtype());
        let (left, right) = (operand(name, left, dtype, &out.shape)?, operand(name, right, dtype, &out.shape)?);
        for_number!(dtype, T => compare::<T>(op).ok_or_else(|| unsupported(op, &left))?.zip(&left, &right))
    };
    cast(answer?, out.dtype)
}

/// The loop over `op` of two real numbers, which are brought to one type.
pub(super) fn kernel(op: Binary, left: Type, right: Type) -> Option<Kernel> {
    if is_mixed(left, right) {
        return None;
    }
    for_number!(comparable(op, left, right), T => Ok(compare::<T>(op)?.kernel())).ok()
}

/// The type that both operands are brought to. A logical connective needs one that keeps the smallest numbers.
fn comparable(op: Binary, left: Type, right: Type) -> Type {
    let is_logical = matches!(op, Binary::LogicalAnd | Binary::LogicalOr | Binary::LogicalXor);
    match left != right && is_logical && (left.is_float() || right.is_float()) {
        true => Type::F64,
        false => merge(left, right),
    }
}

fn compare<T: Number>(op: Binary) -> Option<Zip<T, T, u8>> {
    Some(match op {
        Binary::Greater => Zip::new(|a: T, b: T| u8::from(a > b)),
        Binary::GreaterEqual => Zip::new(|a: T, b: T| u8::from(a >= b)),
        Binary::Less => Zip::new(|a: T, b: T| u8::from(a < b)),
        Binary::LessEqual => Zip::new(|a: T, b: T| u8::from(a <= b)),
        _ => return equality::<T>(op),
    })
}

/// What needs no order of the elements.
fn equality<T: Cell>(op: Binary) -> Option<Zip<T, T, u8>> {
    Some(match op {
        Binary::Equal => Zip::new(|a: T, b: T| u8::from(a == b)),
        Binary::NotEqual => Zip::new(|a: T, b: T| u8::from(a != b)),
        Binary::LogicalAnd => Zip::new(|a: T, b: T| u8::from((a != T::default()) & (b != T::default()))),
        Binary::LogicalOr => Zip::new(|a: T, b: T| u8::from((a != T::default()) | (b != T::default()))),
        Binary::LogicalXor => Zip::new(|a: T, b: T| u8::from((a != T::default()) ^ (b != T::default()))),
        _ => return None,
    })
}

fn holds(op: Binary, a: i128, b: i128) -> bool {
    match op {
        Binary::Equal => a == b,
        Binary::NotEqual => a != b,
        Binary::Greater => a > b,
        Binary::GreaterEqual => a >= b,
        Binary::Less => a < b,
        Binary::LessEqual => a <= b,
        Binary::LogicalAnd => a != 0 && b != 0,
        Binary::LogicalOr => a != 0 || b != 0,
        _ => (a != 0) != (b != 0),
    }
}
