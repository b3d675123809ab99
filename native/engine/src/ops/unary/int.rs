//! Functions of integers that answer integers. Arithmetic wraps.

use crate::cpu::{self, Int, for_int};
use crate::error::{Error, Result};
use crate::program::Unary;
use crate::value::Value;

pub(super) fn run(op: Unary, x: &Value) -> Result<Value> {
    for_int!(x.dtype(), T => of::<T>(op, x))
}

fn of<T: Int>(op: Unary, x: &Value) -> Result<Value> {
    match op {
        Unary::Abs => cpu::map(x, |x: T| if x < T::zero() { x.wrapping_neg() } else { x }),
        Unary::Negate => cpu::map(x, |x: T| x.wrapping_neg()),
        Unary::Sign => cpu::map(x, sign::<T>),
        Unary::BitwiseNot => cpu::map(x, |x: T| !x),
        Unary::Ceil | Unary::Floor | Unary::Round => Ok(x.clone()),
        _ => Err(Error::Unsupported { op: <&str>::from(op).into(), dtype: x.dtype(), device: x.device().to_string() }),
    }
}

/// How many bits are 1, or are 0 before the first 1, of the bits that the type has.
pub(super) fn count_bits(op: Unary, x: Value) -> Result<Value> {
    let dtype = x.dtype();
    let unused = (8 * dtype.size() - dtype.bits()) as u32;
    let x = x.relabel(dtype.widened());
    for_int!(x.dtype(), T => cpu::map(&x, |x: T| {
        let bits = x << unused as usize;
        let count = match op {
            Unary::PopulationCount => bits.count_ones(),
            _ => bits.leading_zeros().min(dtype.bits() as u32),
        };
        T::wrap(count.into())
    }))
}

fn sign<T: Int>(x: T) -> T {
    match x.cmp(&T::zero()) {
        std::cmp::Ordering::Less => T::zero().wrapping_sub(&T::one()),
        std::cmp::Ordering::Equal => T::zero(),
        std::cmp::Ordering::Greater => T::one(),
    }
}
