//! Whether two tensors of floats are close.

use super::formula::Formula;
use super::launch::{Operand, Work};
use super::step::{Fold, One, Two};
use super::{Adapter, cast};
use crate::error::Result;
use crate::ops::Call;
use crate::ops::promote::{joint_shape, merge};
use crate::program::AllClose;
use crate::types::{TensorType, Type};
use crate::value::Value;

/// 1 when `|a - b| <= atol + rtol * |b|` everywhere, else 0. Infinities are close when they are equal.
pub(super) fn all_close(attrs: &AllClose, call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([a, b], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    let dtype = merge(a.dtype(), b.dtype());
    if a.is_empty() || b.is_empty() || !dtype.is_float() || dtype.bits() > 32 {
        return Ok(None);
    }
    let shape = joint_shape(&a.shape(), &b.shape());
    let (Some(a), Some(b)) = (cast(a, Type::F32, adapter)?, cast(b, Type::F32, adapter)?) else { return Ok(None) };
    let operands: Option<Vec<Operand>> = [&a, &b].map(|value| Operand::broadcast(value, &shape)).into_iter().collect();
    let Some(operands) = operands else { return Ok(None) };
    let mut formula = Formula::new(2);
    let distance = formula.two(Two::SubtractF, 0, 1);
    let distance = formula.one(One::AbsF, distance);
    let size = formula.one(One::AbsF, 1);
    let (rtol, atol) = (formula.float(attrs.rtol), formula.float(attrs.atol));
    let bound = formula.two(Two::MultiplyF, rtol, size);
    let bound = formula.two(Two::AddF, atol, bound);
    let close = formula.two(Two::LessEqualF, distance, bound);
    let infinite = [0, 1].map(|x| formula.one(One::IsInfinity, x));
    let infinite = formula.two(Two::Or, infinite[0], infinite[1]);
    let equal = formula.two(Two::EqualF, 0, 1);
    let mut answer = formula.select(infinite, equal, close);
    if attrs.equal_nan {
        let nan = [0, 1].map(|x| formula.one(One::IsNan, x));
        let nan = formula.two(Two::And, nan[0], nan[1]);
        answer = formula.two(Two::Or, answer, nan);
    }
    let types = [TensorType::new(Type::U8, [])];
    let work = Work { adapter, shape, operands, steps: formula.steps, results: vec![answer], types: &types };
    cast(&work.fold(Fold { function: Two::And, identity: 1 }, 0)?, out.dtype, adapter)
}
