//! The loops behind elementwise operations.

use crate::cpu::{Kernel, Link};
use crate::ops::{binary, cast, unary};
use crate::program::Op;
use crate::types::Type;

/// The loop of an operation on real operands of these types, where it is elementwise and cannot fail. The loop has types of
/// its own, which the operands are cast to and its result is cast from.
pub(crate) fn kernel(op: &Op, operands: &[Type], out: Type) -> Option<Kernel> {
    let is_plain = |dtype: &Type| !dtype.is_packed() && !dtype.is_complex();
    if !operands.iter().chain([&out]).all(is_plain) {
        return None;
    }
    let kernel = match (op, operands) {
        (Op::Unary(op), &[x]) => unary::kernel(*op, x, out),
        (Op::Binary(op), &[left, right]) => binary::kernel(*op, left, right, out),
        (Op::Cast, &[x]) => cast::kernel(x, out),
        (Op::Bitcast, &[x]) if x.bits() == out.bits() => Some(Kernel::reread(x, out)),
        (Op::Select, &[_, _, _]) => Some(Kernel::select(out)),
        _ => None,
    }?;
    let is_single = kernel.operands.iter().chain([&kernel.result]).all(|dtype| *dtype == Type::F32);
    Some(kernel.with_link(Link::of(op).filter(|_| is_single)))
}

/// The loop of a division of integers, which cannot fail where the divisor is above zero.
pub(super) fn division(op: &Op, operands: &[Type], out: Type) -> Option<Kernel> {
    match (op, operands) {
        (Op::Binary(op), &[left, right]) => binary::division(*op, left, right, out),
        _ => None,
    }
}
