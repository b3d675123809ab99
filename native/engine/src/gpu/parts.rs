//! Complex numbers by their parts: what moves elements or sums them does the same with real and with imaginary parts, and a product
//! is four products of parts.

use std::ops::Range;

use super::complex::{joined, part};
use super::{Adapter, native};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{Binary, Cumulative, Fold, Op, Reduce, WindowReduce};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// Whether the result is one of complex numbers and made from parts.
pub(super) fn serves(call: &Call<'_>) -> bool {
    let is_product = matches!(call.op, Op::Dot(_) | Op::Conv(_));
    call.outputs.iter().any(|out| out.dtype == Type::C64) && (is_product || numbers(call.op).is_some())
}

/// The operands that are numbers, while others say where or which.
fn numbers(op: &Op) -> Option<Range<usize>> {
    let range = match op {
        Op::Select => 1..3,
        Op::Concatenate(_) | Op::Stack(_) => 0..usize::MAX,
        Op::Pad(_) | Op::PutSlice => 0..2,
        Op::Take(_) | Op::TakeAlongAxis(_) | Op::Gather(_) | Op::DynamicSlice(_) => 0..1,
        Op::Reduce(Reduce { fold: Fold::Sum, .. })
        | Op::Cumulative(Cumulative { fold: Fold::Sum, .. })
        | Op::WindowReduce(WindowReduce { fold: Fold::Sum, .. }) => 0..1,
        _ => return None,
    };
    Some(range)
}

/// The result, where there is a kernel for the parts.
pub(super) fn run(call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let Some([re, im]) = (match numbers(call.op) {
        Some(numbers) => each(call, &numbers, adapter)?,
        None => product(call, adapter)?,
    }) else {
        return Ok(None);
    };
    joined(&re, &im, call.out()?, adapter)
}

/// The operation of each part.
fn each(call: &Call<'_>, numbers: &Range<usize>, adapter: Adapter) -> Result<Option<[Value; 2]>> {
    let of = |side: usize| {
        let mut inputs = call.inputs.clone();
        for (_, value) in inputs.iter_mut().enumerate().filter(|(number, _)| numbers.contains(number)) {
            let Some(own) = part(value, side, adapter)? else { return Ok(None) };
            *value = own;
        }
        real(call.op, call, inputs, adapter)
    };
    Ok(of(0)?.zip(of(1)?).map(|(re, im)| [re, im]))
}

/// (a + bi)(c + di) = (ac - bd) + (ad + bc)i.
fn product(call: &Call<'_>, adapter: Adapter) -> Result<Option<[Value; 2]>> {
    let [x, y] = call.inputs.as_slice() else { return Ok(None) };
    let times = |left: usize, right: usize| {
        let Some((left, right)) = part(x, left, adapter)?.zip(part(y, right, adapter)?) else { return Ok(None) };
        real(call.op, call, vec![left, right], adapter)
    };
    let both = |op: Binary, first: Option<Value>, second: Option<Value>| match first.zip(second) {
        Some((first, second)) => real(&Op::Binary(op), call, vec![first, second], adapter),
        None => Ok(None),
    };
    let re = both(Binary::Subtract, times(0, 0)?, times(1, 1)?)?;
    let im = both(Binary::Add, times(0, 1)?, times(1, 0)?)?;
    Ok(re.zip(im).map(|(re, im)| [re, im]))
}

/// An operation of real numbers with a result of the call's shape.
fn real(op: &Op, call: &Call<'_>, inputs: Vec<Value>, adapter: Adapter) -> Result<Option<Value>> {
    let outputs = [TensorType::new(Type::F32, call.out()?.shape.clone())];
    let mut own = Call::plain(op, inputs, &outputs, call.device);
    Ok(native(&mut own, adapter)?.and_then(|mut results| results.pop()))
}
