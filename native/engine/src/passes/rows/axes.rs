//! Along which axes the rows of values lie.

use crate::program::{Axes, Axis, Cumulative, Dot, Instruction, Iota, Op, Pad, Reduce};
use crate::types::TensorType;

/// Where the rows of an operand lie; `None` where the result's rows all depend on the same elements of it.
pub(super) type Place = Option<usize>;

/// Where the rows of an operation's operands lie when those of its result lie along `axis`; `None` when a row of the result
/// depends on other rows.
pub(super) fn operands(instruction: &Instruction, types: &[&TensorType], axis: usize) -> Option<Vec<Place>> {
    let [out] = &instruction.outputs[..] else { return None };
    let shape = |operand: usize| &types[instruction.inputs[operand]].shape;
    let count = instruction.inputs.len();
    let length = *out.shape.get(axis)?;
    let first = |place: usize| Some((0..count).map(|operand| (operand == 0).then_some(place)).collect());
    match &instruction.op {
        Op::Constant(_) => Some(vec![]),
        Op::Iota(Iota { axis: Some(along) }) => (*along != axis).then(Vec::new),
        Op::Unary(_) | Op::Binary(_) | Op::Cast | Op::Select | Op::Clip => {
            Some((0..count).map(|operand| aligned(shape(operand), &out.shape, axis)).collect())
        }
        Op::Broadcast(Axes { axes }) => {
            let place = axes.iter().position(|&to| to == axis).filter(|&place| shape(0)[place] != 1);
            Some(vec![place])
        }
        Op::Transpose(Axes { axes }) => first(axes[axis]),
        Op::Reshape => first(same_place(shape(0), &out.shape, axis)?),
        Op::Concatenate(Axis { axis: along }) => (*along != axis).then(|| vec![Some(axis); count]),
        Op::Stack(Axis { axis: along }) => {
            (*along != axis).then(|| vec![Some(axis - usize::from(*along < axis)); count])
        }
        Op::Reverse(Axes { axes }) => {
            if axes.contains(&axis) {
                None
            } else {
                first(axis)
            }
        }
        Op::Pad(Pad { config }) => {
            if config[axis] == [0, 0, 0] {
                first(axis)
            } else {
                None
            }
        }
        Op::Slice(attrs) => {
            if attrs.strides[axis] == 1 && shape(0)[axis] == length {
                first(axis)
            } else {
                None
            }
        }
        Op::DynamicSlice(attrs) => {
            if attrs.strides[axis] == 1 && shape(0)[axis] == length {
                first(axis)
            } else {
                None
            }
        }
        Op::PutSlice => {
            let both = |operand| if operand < 2 { Some(axis) } else { None };
            (shape(1)[axis] == length).then(|| (0..count).map(both).collect())
        }
        Op::Cumulative(Cumulative { axis: along, .. }) => {
            if *along == axis {
                None
            } else {
                first(axis)
            }
        }
        Op::Reduce(Reduce { axes: Some(axes), keep_axes, .. }) => {
            let mut kept = (0..shape(0).len()).filter(|from| *keep_axes || !axes.contains(from));
            let place = kept.nth(axis)?;
            if axes.contains(&place) { None } else { first(place) }
        }
        Op::Dot(dot) => Some(product(dot, shape(0), shape(1), axis)?.to_vec()),
        _ => None,
    }
}

/// The axis of an operand that broadcasts; none where it has one element for all rows.
fn aligned(operand: &[usize], out: &[usize], axis: usize) -> Place {
    let place = (axis + operand.len()).checked_sub(out.len())?;
    (operand[place] == out[axis]).then_some(place)
}

/// The axis of an operand that stays one axis in another shape.
fn same_place(from: &[usize], to: &[usize], axis: usize) -> Place {
    let before = |shape: &[usize], axis: usize| shape[..axis].iter().product::<usize>();
    (0..from.len()).find(|&place| from[place] == to[axis] && before(from, place) == before(to, axis))
}

/// The axes of a product's operands: first come those of both, then the left's, then the right's.
fn product(dot: &Dot, left: &[usize], right: &[usize], axis: usize) -> Option<[Place; 2]> {
    let free = |shape: &[usize], batch: &[usize], contract: &[usize]| -> Vec<usize> {
        (0..shape.len()).filter(|axis| !batch.contains(axis) && !contract.contains(axis)).collect()
    };
    let (lhs, rhs) = (free(left, &dot.lhs_batch, &dot.lhs_contract), free(right, &dot.rhs_batch, &dot.rhs_contract));
    let (batch, middle) = (dot.lhs_batch.len(), dot.lhs_batch.len() + lhs.len());
    match axis {
        _ if axis < batch => Some([Some(dot.lhs_batch[axis]), Some(dot.rhs_batch[axis])]),
        _ if axis < middle => Some([Some(lhs[axis - batch]), None]),
        _ => Some([None, Some(*rhs.get(axis - middle)?)]),
    }
}

/// Where the rows of a result lie when those of an operand lie along `place`.
pub(super) fn result(instruction: &Instruction, types: &[&TensorType], operand: usize, place: usize) -> Place {
    let [out] = &instruction.outputs[..] else { return None };
    let rows = types[instruction.inputs[operand]].shape[place];
    let comes_from = |axis: &usize| {
        let operands = operands(instruction, types, *axis);
        out.shape[*axis] == rows && operands.is_some_and(|places| places[operand] == Some(place))
    };
    (0..out.shape.len()).find(comes_from)
}
