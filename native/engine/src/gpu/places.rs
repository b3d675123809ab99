//! Places of 64 bits, which stay in the host's memory: the GPU that has the tensor is given them in 32.

use super::Adapter;
use super::transfer::upload;
use crate::cpu;
use crate::error::Result;
use crate::ops::Call;
use crate::program::Op;
use crate::types::Type;
use crate::value::Value;

/// Brings to the GPU the indices and starts of a call that the host has.
pub(super) fn bring(call: &mut Call<'_>, adapter: Adapter) -> Result<()> {
    let last = call.inputs.len();
    let places = match call.op {
        Op::Take(_) | Op::TakeAlongAxis(_) | Op::Gather(_) | Op::IndexedAdd(_) | Op::IndexedPut(_) => 1..2,
        Op::DynamicSlice(_) => 1..last,
        Op::PutSlice => 2..last,
        _ => return Ok(()),
    };
    let is_here = |value: &Value| value.cube().is_none();
    if call.inputs.first().is_none_or(is_here) {
        return Ok(());
    }
    for value in call.inputs.get_mut(places).unwrap_or_default().iter_mut().filter(|value| is_here(value)) {
        if let Some(narrow) = narrowed(value)? {
            *value = upload(narrow, adapter)?;
        }
    }
    Ok(())
}

/// Integers of 64 bits as those of 32, the nearest one where a number does not fit: no axis on a GPU is as long, so that both
/// are held at the same end of it.
fn narrowed(places: &Value) -> Result<Option<Value>> {
    match places.dtype() {
        Type::S64 => cpu::map(places, |place: i64| place.clamp(i32::MIN.into(), i32::MAX.into()) as i32).map(Some),
        Type::U64 => cpu::map(places, |place: u64| place.min(i32::MAX as u64) as i32).map(Some),
        _ => Ok(None),
    }
}
