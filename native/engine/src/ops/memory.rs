//! Refuses operations that need more memory than there is: an allocation that fails ends the process.

use std::cell::Cell;

use crate::device::available_memory;
use crate::error::Result;
use crate::ops::Call;
use crate::program::Op;
use crate::value::Value;

/// Up to this many bytes nobody asks how much memory there is.
const SMALL: usize = 256 << 20;

/// Bytes of a number of type c128, and of an index as it is read.
const LARGEST_ELEMENT: usize = 16;

thread_local! {
    /// Bytes of results that this thread may make before it asks again how much memory there is.
    static LEFT: Cell<usize> = const { Cell::new(SMALL) };
}

/// An error when the operation may need more memory than is available.
pub(super) fn check(call: &Call<'_>) -> Result<()> {
    let operands = call.inputs.iter().filter_map(Value::flex).map(|tensor| tensor.layout().num_elements());
    let results = call.outputs.iter().map(|out| bytes(&out.shape, 1));
    let elements = operands.chain(results).fold(0, usize::saturating_add);
    if elements > SMALL / LARGEST_ELEMENT {
        return ensure(call, need(call));
    }
    let made = call.outputs.iter().map(|out| bytes(&out.shape, out.dtype.size())).fold(0, usize::saturating_add);
    if is_asked(made) { expect_available(call, need(call)) } else { Ok(()) }
}

/// Whether to ask how much memory there is before `made` bytes more: many small tensors that are kept, such as those of a
/// backward pass, fill the memory too.
fn is_asked(made: usize) -> bool {
    let left = LEFT.get().checked_sub(made);
    LEFT.set(left.unwrap_or(0));
    left.is_none()
}

/// An error when `need` bytes are not available to the operation.
pub(super) fn ensure(call: &Call<'_>, need: usize) -> Result<()> {
    if need > SMALL || is_asked(need) { expect_available(call, need) } else { Ok(()) }
}

/// How much of what is available may be made before that is asked again.
fn share(available: usize) -> usize {
    (available / 4).clamp(SMALL / 16, 4 * SMALL)
}

fn expect_available(call: &Call<'_>, need: usize) -> Result<()> {
    let available = available_memory();
    LEFT.set(share(available));
    if need <= available {
        return Ok(());
    }
    Err(call.invalid(format!("may need {} MB of memory, {} MB are available", need >> 20, available >> 20)))
}

/// The bytes of the results and of operands that may be copied: those that are narrower than the type they are computed in,
/// and those of which one element in memory stands for many.
fn need(call: &Call<'_>) -> usize {
    if is_view(call) {
        return 0;
    }
    let widest = widest(call);
    // A region reads its operands a block at a time.
    let copies = !matches!(call.op, Op::Fused(_));
    let copied = |value: &&Value| copies && (value.dtype().size() < widest || value.is_spread());
    let operands = call.inputs.iter().filter(copied).map(|value| bytes(&value.shape(), widest));
    let results = call.outputs.iter().map(|out| bytes(&out.shape, out.dtype.size()));
    operands.chain(results).fold(0, usize::saturating_add)
}

/// Bytes of a tensor of `shape`, whose elements take `size` bytes.
pub(super) fn bytes(shape: &[usize], size: usize) -> usize {
    shape.iter().fold(size, |n, &length| n.saturating_mul(length))
}

/// Whether the results share the memory of the operands, or the programs inside look after themselves.
fn is_view(call: &Call<'_>) -> bool {
    let spread = |value: &Value| value.is_spread();
    match call.op {
        Op::Constant(_) | Op::Broadcast(_) | Op::Transpose(_) | Op::Slice(_) | Op::DynamicSlice(_) => true,
        Op::StopGrad | Op::CustomGrad(_) => true,
        Op::Reshape => !call.inputs.iter().any(spread),
        // One element that stands for many is cast once.
        Op::Cast => call.inputs.iter().all(spread),
        _ => false,
    }
}

/// Bytes of the widest element that the operation computes with. Indices and places in an order are counted in 64 bits and
/// read as 128.
fn widest(call: &Call<'_>) -> usize {
    let operands = call.inputs.iter().map(|value| value.dtype().size());
    let types = operands.chain(call.outputs.iter().map(|out| out.dtype.size()));
    let places = match call.op {
        Op::Gather(_) | Op::IndexedAdd(_) | Op::IndexedPut(_) | Op::Take(_) | Op::TakeAlongAxis(_) => LARGEST_ELEMENT,
        Op::Sort(_) | Op::Argsort(_) | Op::TopK(_) | Op::AllClose(_) => 8,
        _ => 0,
    };
    types.chain([places]).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_bit_by_bit_is_asked_for_too() {
        LEFT.set(1000);
        assert_eq!([400, 600, 1, 1].map(is_asked), [false, false, true, true]);
        LEFT.set(share(64 << 20));
        assert_eq!([16 << 20, 1].map(is_asked), [false, true]);
        assert_eq!([share(0), share(1 << 40)], [16 << 20, 1 << 30]);
    }
}
