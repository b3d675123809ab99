//! Operations on packed types, computed in the types that hold the same values.

use super::{Call, cast, native};
use crate::cpu;
use crate::error::Result;
use crate::program::{Fold, Op, Unary};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// Whether an operand or a result has a packed type that the operation itself knows nothing of.
pub(super) fn is_needed(call: &Call<'_>) -> bool {
    let mut dtypes = call.inputs.iter().map(Value::dtype).chain(call.outputs.iter().map(|out| out.dtype));
    dtypes.any(Type::is_packed) && !takes_packed(call.op)
}

/// Runs the operation in wider types. Rounding and wrapping come once, at the end.
pub(super) fn run(mut call: Call<'_>) -> Result<Vec<Value>> {
    let outputs = call.outputs;
    let wide: Vec<TensorType> =
        outputs.iter().map(|out| TensorType::new(out.dtype.widened(), out.shape.clone())).collect();
    let widen = |value: Value| {
        let wide = value.dtype().widened();
        cast(value, wide)
    };
    call.inputs = call.inputs.into_iter().map(widen).collect::<Result<_>>()?;
    let op = call.op;
    let results = native(Call { outputs: &wide, ..call })?;
    results.into_iter().zip(outputs).map(|(value, out)| cast(within(op, value, out.dtype)?, out.dtype)).collect()
}

/// An extremum over a window of padding alone is the end of the wider type, where that of the type itself is meant.
fn within(op: &Op, value: Value, dtype: Type) -> Result<Value> {
    match op {
        Op::WindowReduce(attrs) if matches!(attrs.fold, Fold::Max | Fold::Min) && dtype.is_int() => {
            let span = 1u8 << (dtype.bits() - 1);
            match value.dtype() {
                Type::U8 => cpu::map(&value, |x: u8| x.min(2 * (span - 1) + 1)),
                _ => cpu::map(&value, |x: i8| x.clamp(-(span as i8), (span - 1) as i8)),
            }
        }
        _ => Ok(value),
    }
}

/// Operations that move elements, choose between them, change their type or count their bits, or that run programs on them.
fn takes_packed(op: &Op) -> bool {
    matches!(
        op,
        Op::Constant(_)
            | Op::Iota(_)
            | Op::Eye
            | Op::Unary(Unary::CountLeadingZeros | Unary::PopulationCount)
            | Op::Cast
            | Op::Bitcast
            | Op::Select
            | Op::Reshape
            | Op::Broadcast(_)
            | Op::Transpose(_)
            | Op::Reverse(_)
            | Op::Pad(_)
            | Op::Concatenate(_)
            | Op::Stack(_)
            | Op::Slice(_)
            | Op::DynamicSlice(_)
            | Op::PutSlice
            | Op::Gather(_)
            | Op::IndexedPut(_)
            | Op::Take(_)
            | Op::TakeAlongAxis(_)
            | Op::CustomReduce(_)
            | Op::CustomWindowReduce(_)
            | Op::StopGrad
            | Op::CustomGrad(_)
            | Op::Fused(_)
            | Op::Blocked(_)
            | Op::Rows(_)
    )
}
