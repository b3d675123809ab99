//! Choices between elements.

use crate::cpu::tape::Tape;
use crate::cpu::{self, Int, Kernel, Number as _, for_int};
use crate::error::{Error, Result};
use crate::ops::gradient::with_gradient;
use crate::ops::promote::operand;
use crate::ops::real::{Real, Test};
use crate::ops::{Call, binary, unary};
use crate::program::Binary;
use crate::scalar;
use crate::types::Type;
use crate::value::Value;

/// The second operand where the first is not zero, the third elsewhere.
pub(super) fn select(mut call: Call<'_>) -> Result<Value> {
    let [condition, on_true, on_false] = call.args()?;
    let out = call.out()?;
    let condition = condition.untracked();
    let condition = operand("select", condition.clone(), condition.dtype(), &out.shape)?;
    let place = |value| operand("select", value, out.dtype, &out.shape);
    with_gradient(
        [on_true, on_false],
        |[on_true, on_false]| choose(condition.clone(), place(on_true)?, place(on_false)?),
        |_, _| {
            let mask = condition.clone().truth();
            Box::new(move |i, g| {
                let g = Real::new(&g)?;
                Ok(if i == 0 { g.keep(mask.clone(), 0.0) } else { g.replace(mask.clone(), 0.0) }.value())
            })
        },
    )
}

/// The second of three plain values of one shape where the first is not zero, the third elsewhere.
fn choose(condition: Value, on_true: Value, on_false: Value) -> Result<Value> {
    let dtype = on_true.dtype();
    let packed = condition.dtype().is_packed() || condition.dtype().is_complex();
    if packed || dtype.is_complex() || on_true.is_empty() {
        return Ok(on_false.mask_where(condition.truth(), on_true));
    }
    let condition = unary::truth(condition)?;
    let stored = if dtype.is_packed() && dtype.is_float() { Type::U8 } else { dtype.widened() };
    let shape = on_true.shape();
    let inputs = vec![condition, on_true.relabel(stored), on_false.relabel(stored)];
    let results = Tape::single(Kernel::select(stored), shape).run(inputs)?;
    let chosen = results.and_then(|mut results| results.pop());
    chosen.map(|value| value.relabel(dtype)).ok_or_else(|| Error::invalid("select", "has no result"))
}

/// The first operand held between two scalars, the lower one giving way to the upper one. NaN stays NaN, and a zero takes
/// the sign of a bound that is one.
pub(super) fn clip(mut call: Call<'_>) -> Result<Value> {
    let [x, low, high] = call.args()?;
    let out = call.out()?;
    if out.dtype.is_complex() {
        return Err(call.unsupported());
    }
    if [&x, &low, &high].iter().all(|operand| operand.dtype().is_int()) {
        return clip_integers(&x, &low, &high, out.dtype);
    }
    let forward = |[x, low, high]: [Value; 3]| {
        let raised = binary::compute(Binary::Max, low, x, out)?;
        binary::compute(Binary::Min, high, raised, out)
    };
    with_gradient([x, low, high], forward, |[x, low, high], _| {
        let operands = [x.clone(), low.clone(), high.clone()];
        Box::new(move |i, g| clip_gradient(i, &operands, &g))
    })
}

/// Compares exact numbers: no type holds both u64 and s64.
fn clip_integers(x: &Value, low: &Value, high: &Value, out: Type) -> Result<Value> {
    let number = |bound: &Value| {
        let bytes = bound.clone().into_bytes()?;
        scalar::to_i128(bound.dtype(), &bytes).ok_or_else(|| Error::invalid("clip", "bounds are scalars"))
    };
    let (low, high) = (number(low)?, number(high)?);
    for_int!(x.dtype(), T => match (fit::<T>(low), fit::<T>(high)) {
        (Some(low), Some(high)) => for_int!(out, O => cpu::map(x, |x: T| x.max(low).min(high).convert::<O>())),
        _ => for_int!(out, O => cpu::map(x, |x: T| O::wrap(x.widen().max(low).min(high)))),
    })
}

/// The bound as a number of the type.
fn fit<T: Int>(bound: i128) -> Option<T> {
    let number = T::wrap(bound);
    (number.widen() == bound).then_some(number)
}

/// An element at a bound counts as inside; a bound gets the gradient of the elements strictly beyond it.
fn clip_gradient(operand: usize, [x, low, high]: &[Value; 3], g: &Value) -> Result<Value> {
    let (x, g) = (Real::new(x)?, Real::new(g)?);
    let (low, high) = (Real::new(low)?.spread(&x), Real::new(high)?.spread(&x));
    let kept = match operand {
        0 => g.keep(x.compare(Test::GreaterEqual, &low), 0.0).keep(high.compare(Test::GreaterEqual, &x), 0.0),
        1 => g.keep(low.compare(Test::Greater, &x), 0.0).keep(high.compare(Test::Greater, &low), 0.0),
        _ => g.keep(x.compare(Test::Greater, &high), 0.0),
    };
    Ok(kept.value())
}
