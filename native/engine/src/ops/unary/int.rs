//! Functions of integers that answer integers. Arithmetic wraps.

use crate::cpu::{self, Int, Kernel, Map, for_int};
use crate::error::Result;
use crate::ops::unsupported;
use crate::program::Unary;
use crate::types::Type;
use crate::value::Value;

pub(super) fn run(op: Unary, x: &Value) -> Result<Value> {
    for_int!(x.dtype(), T => of::<T>(op).ok_or_else(|| unsupported(op, x))?.map(x))
}

/// The loop over the function `op`, for an operand of `dtype`.
pub(super) fn kernel(op: Unary, dtype: Type) -> Option<Kernel> {
    for_int!(dtype, T => Ok(of::<T>(op)?.kernel())).ok()
}

fn of<T: Int>(op: Unary) -> Option<Map<T, T>> {
    Some(match op {
        Unary::Abs => Map::new(|x: T| if x < T::zero() { x.wrapping_neg() } else { x }),
        Unary::Negate => Map::new(|x: T| x.wrapping_neg()),
        Unary::Sign => Map::new(sign::<T>),
        Unary::BitwiseNot => Map::new(|x: T| !x),
        Unary::Ceil | Unary::Floor | Unary::Round => Map::new(|x: T| x),
        _ => return None,
    })
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
