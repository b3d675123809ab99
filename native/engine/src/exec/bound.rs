//! Loops whose condition compares two integers, as those that count do: it is known without a run of its program.

use crate::program::{Binary, Instruction, Op, Program};
use crate::scalar::to_i128;
use crate::types::{TensorType, Type};
use crate::value::Value;

/// A comparison of two integers of one type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    compare: Binary,
    sides: [Side; 2],
}

#[derive(Clone, Copy, Debug)]
enum Side {
    /// An input of the condition.
    Input(usize),
    Constant(i128),
}

impl Bound {
    /// What `condition` compares, where it does nothing else.
    pub(super) fn of(condition: &Program) -> Option<Self> {
        let (last, before) = condition.instructions.split_last()?;
        let answer = condition.inputs.len() + before.len();
        let Instruction { op: Op::Binary(compare), inputs, .. } = last else { return None };
        let is_constant = |instruction: &Instruction| matches!(instruction.op, Op::Constant(_));
        if condition.outputs != [answer] || holds(*compare, 0, 0).is_none() || !before.iter().all(is_constant) {
            return None;
        }
        let &[a, b] = inputs.as_slice() else { return None };
        let [(a, dtype), (b, other)] = [side(condition, a)?, side(condition, b)?];
        let is_plain = |dtype: Type| dtype.is_int() && dtype.bits() >= 8;
        (dtype == other && is_plain(dtype)).then_some(Self { compare: *compare, sides: [a, b] })
    }

    /// Whether the condition holds; `None` where the numbers are not in the CPU's memory.
    pub(super) fn holds(self, state: &[Value], captures: &[Value]) -> Option<bool> {
        let number = |side| match side {
            Side::Constant(number) => Some(number),
            Side::Input(id) => {
                let value = state.get(id).or_else(|| captures.get(id - state.len()))?;
                to_i128(value.dtype(), value.element()?)
            }
        };
        let [a, b] = self.sides;
        holds(self.compare, number(a)?, number(b)?)
    }
}

/// A scalar that is an input or a constant, and its type.
fn side(condition: &Program, id: usize) -> Option<(Side, Type)> {
    if let Some(TensorType { dtype, shape }) = condition.inputs.get(id) {
        return shape.is_empty().then_some((Side::Input(id), *dtype));
    }
    let Instruction { op: Op::Constant(constant), outputs, .. } = &condition.instructions[id - condition.inputs.len()]
    else {
        return None;
    };
    let dtype = outputs.first()?.dtype;
    Some((Side::Constant(to_i128(dtype, &constant.bytes)?), dtype))
}

/// `None` where `compare` does not compare.
fn holds(compare: Binary, a: i128, b: i128) -> Option<bool> {
    Some(match compare {
        Binary::Equal => a == b,
        Binary::NotEqual => a != b,
        Binary::Less => a < b,
        Binary::LessEqual => a <= b,
        Binary::Greater => a > b,
        Binary::GreaterEqual => a >= b,
        _ => return None,
    })
}
