//! The type and shape that operands of different types and shapes are computed in.

use crate::cpu::{self, Number};
use crate::error::{Error, Result};
use crate::ops::{broadcast_to, cast};
use crate::types::{Class, Type};
use crate::value::Value;

/// The type Nx merges two real types into (`Nx.Type.merge/2`): the wider of one class, a float over any integer, a
/// signed integer that holds both where there is one.
pub(crate) fn merge(a: Type, b: Type) -> Type {
    let (low, high) = if rank(a) <= rank(b) { (a, b) } else { (b, a) };
    match (low.class(), high.class()) {
        _ if rank(low) == rank(high) => {
            if low.bits() >= high.bits() {
                low
            } else {
                high
            }
        }
        (Class::Unsigned, Class::Signed) => signed((low.bits() * 2).min(64).max(high.bits())),
        _ => high,
    }
}

/// Order of the classes; `bf16` is below the other floats.
fn rank(dtype: Type) -> usize {
    match dtype.class() {
        Class::Unsigned => 0,
        Class::Signed => 1,
        Class::Float if dtype == Type::BF16 => 2,
        Class::Float => 3,
        Class::Complex => 4,
    }
}

fn signed(bits: usize) -> Type {
    match bits {
        ..=4 => Type::S4,
        8 => Type::S8,
        16 => Type::S16,
        32 => Type::S32,
        _ => Type::S64,
    }
}

/// The shape that two shapes broadcast to; where they cannot, the left one's axis.
pub(crate) fn joint_shape(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let line = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |i| shape[i]);
    (0..rank).map(|axis| if line(a, axis) == 1 { line(b, axis) } else { line(a, axis) }).collect()
}

/// `value` cast to `dtype` and broadcast to `shape`.
///
/// # Errors
///
/// [`Error::Invalid`] when the shapes do not fit.
pub(super) fn operand(op: &str, value: Value, dtype: Type, shape: &[usize]) -> Result<Value> {
    if value.has_shape(shape) {
        return cast(value, dtype);
    }
    let from = value.shape();
    let fits = from.len() <= shape.len()
        && from.iter().rev().zip(shape.iter().rev()).all(|(&have, &want)| have == want || have == 1);
    if !fits {
        return Err(Error::invalid(op, format!("shape {from:?} does not broadcast to {shape:?}")));
    }
    Ok(broadcast_to(cast(value, dtype)?, shape))
}

/// True for u64 with a signed type, which no type of Nx holds both.
pub(super) fn is_mixed(a: Type, b: Type) -> bool {
    let unsigned_first = |a: Type, b: Type| a == Type::U64 && b.class() == Class::Signed;
    unsigned_first(a, b) || unsigned_first(b, a)
}

/// A type that holds the integers of `dtype` and that [`zip_mixed`] takes.
fn widest(dtype: Type) -> Type {
    if dtype == Type::U64 { dtype } else { Type::S64 }
}

/// `f` of each pair of a u64 and a signed integer, or the reverse, exactly.
pub(super) fn zip_mixed<R: Number>(
    op: &str,
    [left, right]: [Value; 2],
    shape: &[usize],
    f: impl Fn(i128, i128) -> R + Sync,
) -> Result<Value> {
    let left_type = widest(left.dtype());
    let left = operand(op, left, left_type, shape)?;
    let right_type = widest(right.dtype());
    let right = operand(op, right, right_type, shape)?;
    match left_type {
        Type::U64 => cpu::zip(&left, &right, |a: u64, b: i64| f(a.into(), b.into())),
        _ => cpu::zip(&left, &right, |a: i64, b: u64| f(a.into(), b.into())),
    }
}
