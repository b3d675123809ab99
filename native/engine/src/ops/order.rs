//! Operations on axes in the order in which they lie in memory.
//!
//! The images that a convolution makes have their channels last in memory, whatever the order of their axes. Read row by row,
//! neighbours of such a tensor lie far apart. An elementwise operation means the same in any order of the axes, and so
//! do windows while those axes along which they extend keep theirs. So they run on the axes as they lie, and their results
//! lie as the operands do.

use crate::error::Result;
use crate::ops::Call;
use crate::program::Op;
use crate::types::TensorType;
use crate::value::Value;

/// An order of axes.
pub(super) struct Order {
    axes: Vec<usize>,
    inverse: Vec<usize>,
}

impl Order {
    /// The order of the axes of `value` in memory, where it is not their own and the elements lie side by side in it.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let axes = value.memory_order()?;
        let mut inverse = vec![0; axes.len()];
        axes.iter().enumerate().for_each(|(place, &axis)| inverse[axis] = place);
        Some(Self { axes, inverse })
    }

    /// The order in which one of these operands of one shape lies, when none of them is row-major.
    pub(super) fn of_all<'a>(mut values: impl Iterator<Item = &'a Value> + Clone) -> Option<Self> {
        let lies_otherwise = |value: &Value| value.flex().is_some_and(|tensor| !tensor.layout().is_contiguous());
        if values.clone().all(lies_otherwise) { values.find_map(Self::of) } else { None }
    }

    /// Whether those axes of which `is_kept` is true follow each other as they did.
    pub(super) fn keeps(&self, is_kept: impl Fn(usize) -> bool) -> bool {
        self.axes.iter().filter(|&&axis| is_kept(axis)).is_sorted()
    }

    /// What `each` axis has, in this order.
    pub(super) fn list<T: Copy>(&self, each: &[T]) -> Vec<T> {
        self.axes.iter().map(|&axis| each[axis]).collect()
    }

    /// `value` with its axes in this order.
    pub(super) fn apply(&self, value: Value) -> Value {
        value.permute(&self.axes)
    }

    /// A value whose axes are in this order, with each of them where it belongs.
    pub(super) fn undo(&self, value: Value) -> Value {
        value.permute(&self.inverse)
    }
}

/// The order in which an elementwise operation reads the fewest neighbours that lie apart, if it is not row-major.
pub(super) fn elementwise(call: &Call<'_>) -> Option<Order> {
    if !matches!(call.op, Op::Unary(_) | Op::Binary(_) | Op::Cast | Op::Select | Op::Clip) {
        return None;
    }
    let [out] = call.outputs else { return None };
    let is_whole = |value: &&Value| value.has_shape(&out.shape);
    let aligned = call.inputs.iter().all(|value| [0, out.shape.len()].contains(&value.rank()));
    if aligned { Order::of_all(call.inputs.iter().filter(is_whole)) } else { None }
}

/// Does what `run` does for an elementwise operation, with the axes of all operands in this order.
pub(super) fn reordered(
    order: &Order,
    call: Call<'_>,
    run: impl FnOnce(Call<'_>) -> Result<Vec<Value>>,
) -> Result<Vec<Value>> {
    let apply = |value: Value| if value.rank() == 0 { value } else { order.apply(value) };
    let inputs = call.inputs.into_iter().map(apply).collect();
    let outputs: Vec<_> =
        call.outputs.iter().map(|ty| TensorType { dtype: ty.dtype, shape: order.list(&ty.shape) }).collect();
    let results = run(Call { inputs, outputs: &outputs, ..call })?;
    Ok(results.into_iter().map(|value| order.undo(value)).collect())
}
