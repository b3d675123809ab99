//! Convolutions that run together with a region, by blocks of windows.

use super::Parts;
use crate::cpu;
use crate::error::Result;
use crate::ops::Call;
use crate::ops::conv::{arrange, channels_last, geometry};
use crate::ops::shape::permute;
use crate::program::{Conv, Fused, Instruction};
use crate::types::Type;
use crate::value::Value;

/// The region of a convolution's result, in the order of memory of that: channels last.
pub(super) fn run(
    parts: &Parts<'_>,
    (conv, before): (&Conv, &Instruction),
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    let region = parts.region.0;
    let (op, outputs) = (&before.op, &before.outputs[..]);
    let own = Call::plain(op, vec![], outputs, call.device);
    let Some([input, kernel]) = parts.read(call, before) else { return Ok(None) };
    let (geometry, back) = geometry(conv, &own, &input, &kernel)?;
    if before.outputs[0].shape != region.shape {
        return Err(call.invalid("the region is not of the shape of the convolution"));
    }
    let order = channels_last(&conv.output_permutation);
    let dtype = own.out()?.dtype;
    let is_by_rows = comes_by_rows(region, &order) && !geometry.is_long();
    if !is_by_rows || !is_plain(dtype, [&input, &kernel]) {
        return Ok(None);
    }
    let operands = operands(parts, call, &order);
    let rows = parts.tape.rows(&operands, true)?;
    let [x, k] = arrange(conv, input, kernel);
    cpu::for_types!(dtype, T => cpu::convolve_rows::<T>(&geometry, &x, &k, &rows), F32 f32, F64 f64)?;
    Ok(Some(rows.finish().into_iter().map(|value| restore(value, &order, &back)).collect()))
}

/// Whether a convolution is of floats that are computed as they are.
fn is_plain(dtype: Type, operands: [&Value; 2]) -> bool {
    let is_float = [Type::F32, Type::F64].contains(&dtype);
    is_float && operands.into_iter().all(|value| value.dtype() == dtype && !value.is_empty())
}

/// Whether the rows that a region folds are the channels of a window, which lie side by side.
fn comes_by_rows(region: &Fused, order: &[usize]) -> bool {
    region.row_axes == 0 || region.row_axes == 1 && order.is_sorted()
}

/// The operands of the region with channels last.
fn operands(parts: &Parts<'_>, call: &Call<'_>, order: &[usize]) -> Vec<Option<Value>> {
    let in_order = |value: Value| if value.rank() == order.len() { permute(value, order) } else { value };
    parts.operands(call).into_iter().map(|operand| operand.map(in_order)).collect()
}

/// A result, which was computed with channels last, as it is declared.
fn restore(value: Value, order: &[usize], back: &[usize]) -> Value {
    if order.is_sorted() {
        return value;
    }
    let shape = value.shape();
    let computed: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
    permute(value.reshape(&computed), back)
}
