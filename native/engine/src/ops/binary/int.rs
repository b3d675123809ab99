//! Functions of two integers that answer integers. Arithmetic wraps.

use std::cmp::{max, min};

use num_traits::ToPrimitive;

use crate::cpu::{self, Int, Kernel, Zip, for_int};
use crate::error::{Error, Result};
use crate::ops::promote::{is_mixed, merge, operand, zip_mixed};
use crate::ops::{cast, unsupported};
use crate::program::Binary;
use crate::scalar;
use crate::types::{Class, TensorType, Type};
use crate::value::Value;

pub(super) fn run(op: Binary, left: Value, right: Value, out: &TensorType) -> Result<Value> {
    match op {
        Binary::LeftShift | Binary::RightShift => shift(op, left, right, out),
        Binary::Pow => pow(left, right, out),
        Binary::Quotient | Binary::Remainder | Binary::Max | Binary::Min => exact(op, left, right, out),
        _ => wrapping(op, left, right, out),
    }
}

/// Functions whose low bits depend on low bits only: computed in the result's type.
fn wrapping(op: Binary, left: Value, right: Value, out: &TensorType) -> Result<Value> {
    let place = |value| operand(op.into(), value, out.dtype, &out.shape);
    let (left, right) = (place(left)?, place(right)?);
    for_int!(out.dtype, T => low_bits::<T>(op).ok_or_else(|| unsupported(op, &left))?.zip(&left, &right))
}

fn low_bits<T: Int>(op: Binary) -> Option<Zip<T, T, T>> {
    Some(match op {
        Binary::Add => Zip::new(|a: T, b: T| a.wrapping_add(&b)),
        Binary::Subtract => Zip::new(|a: T, b: T| a.wrapping_sub(&b)),
        Binary::Multiply => Zip::new(|a: T, b: T| a.wrapping_mul(&b)),
        Binary::BitwiseAnd => Zip::new(|a: T, b: T| a & b),
        Binary::BitwiseOr => Zip::new(|a: T, b: T| a | b),
        Binary::BitwiseXor => Zip::new(|a: T, b: T| a ^ b),
        _ => return None,
    })
}

/// No divisor is zero.
fn all_bits<T: Int>(op: Binary) -> Option<Zip<T, T, T>> {
    Some(match op {
        Binary::Quotient => Zip::new(|a: T, b: T| a.checked_div(&b).unwrap_or(a)),
        Binary::Remainder => Zip::new(|a: T, b: T| a.checked_rem(&b).unwrap_or(T::zero())),
        Binary::Max => Zip::new(|a: T, b: T| max(a, b)),
        Binary::Min => Zip::new(|a: T, b: T| min(a, b)),
        _ => return None,
    })
}

/// The loop over the function `op` of two integers, where it cannot fail; both are brought to the loop's type.
pub(super) fn kernel(op: Binary, left: Type, right: Type, out: Type) -> Option<Kernel> {
    match op {
        Binary::Max | Binary::Min => exact_kernel(op, left, right, out),
        Binary::LeftShift | Binary::RightShift => shift_kernel(op, left, right, out),
        _ => for_int!(out, T => Ok(low_bits::<T>(op)?.kernel())).ok(),
    }
}

/// The loop over the quotients or remainders of integers by such as are above zero.
pub(in crate::ops) fn division(op: Binary, left: Type, right: Type, out: Type) -> Option<Kernel> {
    let is_division =
        matches!(op, Binary::Quotient | Binary::Remainder) && [left, right, out].into_iter().all(Type::is_int);
    is_division.then(|| exact_kernel(op, left, right, out)).flatten()
}

fn exact_kernel(op: Binary, left: Type, right: Type, out: Type) -> Option<Kernel> {
    let is_unsigned = out.class() == Class::Unsigned;
    if !is_unsigned && is_mixed(left, right) {
        return None;
    }
    for_int!(if is_unsigned { out } else { merge(left, right) }, T => Ok(all_bits::<T>(op)?.kernel())).ok()
}

/// Functions that need the operands' exact values.
fn exact(op: Binary, left: Value, right: Value, out: &TensorType) -> Result<Value> {
    let name = <&str>::from(op);
    if matches!(op, Binary::Quotient | Binary::Remainder) && any(&right, |n| n == 0)? {
        return Err(Error::arithmetic(name, "division by zero"));
    }
    // A signed operand of an unsigned result is a constant that fits: anything else would have made the result signed.
    let unsigned = out.dtype.class() == Class::Unsigned;
    if !unsigned && is_mixed(left.dtype(), right.dtype()) {
        let wide = zip_mixed(name, [left, right], &out.shape, |a, b| i64::wrap(divide_or_choose(op, a, b)))?;
        return cast(wide, out.dtype);
    }
    let dtype = if unsigned { out.dtype } else { merge(left.dtype(), right.dtype()) };
    let (left, right) = (operand(name, left, dtype, &out.shape)?, operand(name, right, dtype, &out.shape)?);
    let result = for_int!(dtype, T => all_bits::<T>(op).ok_or_else(|| unsupported(op, &left))?.zip(&left, &right))?;
    cast(result, out.dtype)
}

fn divide_or_choose(op: Binary, a: i128, b: i128) -> i128 {
    match op {
        Binary::Quotient => a / b,
        Binary::Remainder => a % b,
        Binary::Max => max(a, b),
        _ => min(a, b),
    }
}

/// Shifts past the width leave no bit, or the sign alone. The shifted operand keeps its own type to the right, where
/// its sign and width matter.
fn shift(op: Binary, left: Value, right: Value, out: &TensorType) -> Result<Value> {
    let name = <&str>::from(op);
    if any(&right, |n| n < 0)? {
        let least = smallest(&right)?;
        return Err(Error::Argument {
            op: name.into(),
            reason: format!("cannot {} by {least}", name.replace('_', " ")),
        });
    }
    let dtype = shifted(op, left.dtype(), out.dtype);
    let left = operand(name, left, dtype, &out.shape)?;
    let counts = if counts_fit(right.dtype(), dtype) {
        right
    } else {
        for_int!(right.dtype(), T => cpu::map(&right, |n: T| n.widen().min(64) as u8))?
    };
    let counts = operand(name, counts, dtype, &out.shape)?;
    cast(for_int!(dtype, T => shifts::<T>(op).zip(&left, &counts))?, out.dtype)
}

/// The type that an integer is shifted in.
fn shifted(op: Binary, left: Type, out: Type) -> Type {
    if op == Binary::LeftShift { out } else { left }
}

/// Whether a type holds all numbers of another one that has no negative ones.
fn counts_fit(counts: Type, dtype: Type) -> bool {
    let bits = if dtype.class() == Class::Unsigned { dtype.bits() } else { dtype.bits() - 1 };
    counts.class() == Class::Unsigned && counts.bits() <= bits
}

/// The loop over shifts by counts of a type without negative numbers.
fn shift_kernel(op: Binary, left: Type, right: Type, out: Type) -> Option<Kernel> {
    let dtype = shifted(op, left, out);
    if !counts_fit(right, dtype) {
        return None;
    }
    for_int!(dtype, T => Ok(shifts::<T>(op).kernel())).ok()
}

/// No count is below zero.
fn shifts<T: Int>(op: Binary) -> Zip<T, T, T> {
    let count = |n: T| ToPrimitive::to_usize(&n).filter(|&n| n < 8 * size_of::<T>());
    match op {
        Binary::LeftShift => Zip::swift(move |x: T, n: T| count(n).map_or(T::zero(), |n| x << n)),
        _ => Zip::swift(move |x: T, n: T| count(n).map_or(sign_bits(x), |n| x >> n)),
    }
}

/// All ones below zero, else zero.
fn sign_bits<T: Int>(x: T) -> T {
    if x < T::zero() { !T::zero() } else { T::zero() }
}

/// Powers. Of one with a negative exponent the whole part stays: nothing but for 1 and -1.
fn pow(left: Value, right: Value, out: &TensorType) -> Result<Value> {
    let inverts = any(&right, |n| n < 0)?;
    let left = operand("pow", left, out.dtype, &out.shape)?;
    if !inverts {
        let right = operand("pow", right, Type::U64, &out.shape)?;
        return for_int!(out.dtype, T => cpu::zip(&left, &right, wrapping_pow::<T>));
    }
    let right = operand("pow", right, Type::S64, &out.shape)?;
    let undefined = for_int!(out.dtype, T => cpu::zip(&left, &right, divides_by_zero::<T>))?;
    if any(&undefined, |n| n > 0)? {
        return Err(Error::arithmetic("pow", "0 to a negative power"));
    }
    for_int!(out.dtype, T => cpu::zip(&left, &right, whole_pow::<T>))
}

fn divides_by_zero<T: Int>(base: T, exponent: i64) -> u8 {
    u8::from(base == T::zero() && exponent < 0)
}

fn whole_pow<T: Int>(base: T, exponent: i64) -> T {
    let whole = exponent >= 0 || base == T::one() || base.wrapping_neg() == T::one();
    if whole { wrapping_pow(base, exponent.unsigned_abs()) } else { T::zero() }
}

fn wrapping_pow<T: Int>(mut base: T, mut exponent: u64) -> T {
    let mut result = T::one();
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(&base);
        }
        base = base.wrapping_mul(&base);
        exponent >>= 1;
    }
    result
}

/// Whether `test` holds for any element.
fn any(x: &Value, test: impl Fn(i128) -> bool + Sync) -> Result<bool> {
    for_int!(x.dtype(), T => cpu::any(x, |x: T| test(x.widen())))
}

/// The smallest element.
fn smallest(x: &Value) -> Result<i128> {
    let least = for_int!(x.dtype(), T => cpu::fold::<T, cpu::Min>(x, &vec![true; x.rank()]))?;
    Ok(scalar::to_i128(x.dtype(), &least.into_bytes()?).unwrap_or_default())
}
