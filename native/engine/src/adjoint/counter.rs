//! How many iterations a loop has at most.

use super::builder::Builder;
use crate::program::{Binary, Op, While};
use crate::scalar;
use crate::types::Type;

/// Most iterations of a loop that is followed.
const MOST: i64 = 1 << 24;

/// A part of a loop's state that counts its iterations.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counter {
    /// Number of the part.
    pub(super) state: usize,
    /// Its type.
    pub(super) dtype: Type,
    /// What it is before the first iteration, and what each adds.
    start: i64,
    step: i64,
    /// How many iterations there are at most.
    pub(super) most: usize,
    /// Whether there are never fewer.
    pub(super) is_exact: bool,
}

impl Counter {
    /// The counter of a loop that ends, at the latest, where a part of its state reaches a number: it starts from a number, and
    /// a number is added to it in each iteration. `start` answers the number that a part starts from.
    pub(super) fn of(attrs: &While, start: impl Fn(usize) -> Option<i64>) -> Option<Self> {
        let [condition, body] = [&attrs.condition, &attrs.body].map(Builder::of);
        let tests = tests(&condition, *attrs.condition.outputs.first()?);
        let is_exact = tests.len() == 1;
        tests.into_iter().find_map(|test| {
            let (state, op, bound) = bounded(&condition, test)?;
            let dtype = body.ty(state).dtype;
            let step = added(&body, state, *attrs.body.outputs.get(state)?)?;
            let start = start(state)?;
            let most = rounds(op, start, step, bound)?;
            let counter = Self { state, dtype, start, step, most: most as usize, is_exact };
            let holds =
                |number: i64| scalar::to_i128(dtype, &scalar::from_f64(dtype, number as f64)) == Some(number.into());
            (most <= MOST && holds(start) && holds(start + step * most)).then_some(counter)
        })
    }

    /// The number of the iteration, from 0 on, in which, or the number of those after which, the part of the state is this.
    pub(super) fn number(&self, b: &mut Builder, value: usize) -> usize {
        let value = b.cast(value, Type::S32);
        let past = b.int_with(Binary::Subtract, value, self.start);
        b.int_with(Binary::Quotient, past, self.step)
    }

    /// The part of the state in the iteration with this number.
    pub(super) fn value(&self, b: &mut Builder, number: usize) -> usize {
        let past = b.int_with(Binary::Multiply, number, self.step);
        let value = b.int_with(Binary::Add, past, self.start);
        b.cast(value, self.dtype)
    }
}

/// The predicates that must all hold for one to hold.
fn tests(b: &Builder, id: usize) -> Vec<usize> {
    match b.maker(id) {
        Some(maker) if maker.op == Op::Binary(Binary::LogicalAnd) => {
            maker.inputs.iter().flat_map(|&id| tests(b, id)).collect()
        }
        Some(maker) if matches!(maker.op, Op::Cast | Op::Reshape) && b.ty(maker.inputs[0]).dtype == Type::U8 => {
            tests(b, maker.inputs[0])
        }
        _ => vec![id],
    }
}

/// The part of the state that a predicate compares with a number, which is on the right.
fn bounded(b: &Builder, id: usize) -> Option<(usize, Binary, i64)> {
    let maker = b.maker(id)?;
    let Op::Binary(op) = maker.op else { return None };
    let [left, right] = maker.inputs[..] else { return None };
    let mirrored = match op {
        Binary::Less => Binary::Greater,
        Binary::LessEqual => Binary::GreaterEqual,
        Binary::Greater => Binary::Less,
        Binary::GreaterEqual => Binary::LessEqual,
        Binary::NotEqual => Binary::NotEqual,
        _ => return None,
    };
    match (b.integer(left), b.integer(right)) {
        (None, Some(bound)) => Some((input(b, left)?, op, bound)),
        (Some(bound), None) => Some((input(b, right)?, mirrored, bound)),
        _ => None,
    }
}

/// The integer input that a value is, in a type as wide.
fn input(b: &Builder, id: usize) -> Option<usize> {
    let dtype = b.ty(id).dtype;
    match b.maker(id) {
        None if dtype.is_int() && b.ty(id).shape.is_empty() => Some(id),
        Some(maker) if maker.op == Op::Cast && dtype.bits() >= b.ty(maker.inputs[0]).dtype.bits() => {
            input(b, maker.inputs[0])
        }
        _ => None,
    }
}

/// The number that is added to a part of the state.
fn added(b: &Builder, state: usize, result: usize) -> Option<i64> {
    let maker = b.maker(result)?;
    let [left, right] = maker.inputs[..] else { return None };
    match maker.op {
        Op::Binary(Binary::Add) if input(b, left) == Some(state) => b.integer(right),
        Op::Binary(Binary::Add) if input(b, right) == Some(state) => b.integer(left),
        Op::Binary(Binary::Subtract) if input(b, left) == Some(state) => b.integer(right)?.checked_neg(),
        _ => None,
    }
}

/// How often `step` is added to `start` until the comparison with `bound` fails. `None` where it never does.
fn rounds(op: Binary, start: i64, step: i64, bound: i64) -> Option<i64> {
    let upwards = step > 0;
    let far = match op {
        Binary::Less if upwards => bound.checked_sub(start)?,
        Binary::LessEqual if upwards => bound.checked_sub(start)?.checked_add(1)?,
        Binary::Greater if !upwards => start.checked_sub(bound)?,
        Binary::GreaterEqual if !upwards => start.checked_sub(bound)?.checked_add(1)?,
        Binary::NotEqual if step != 0 => {
            let far = bound.checked_sub(start)?.checked_mul(step.signum())?;
            if far < 0 || far % step != 0 {
                return None;
            }
            far
        }
        _ => return None,
    };
    let step = step.checked_abs().filter(|&step| step != 0)?;
    Some(if far <= 0 { 0 } else { (far - 1) / step + 1 })
}

#[cfg(test)]
mod tests_of_rounds {
    use super::*;

    #[test]
    fn are_those_that_counting_takes() {
        type Holds = fn(i64, i64) -> bool;
        let tests: [(Binary, Holds); 5] = [
            (Binary::Less, |a, b| a < b),
            (Binary::LessEqual, |a, b| a <= b),
            (Binary::Greater, |a, b| a > b),
            (Binary::GreaterEqual, |a, b| a >= b),
            (Binary::NotEqual, |a, b| a != b),
        ];
        for (op, holds) in tests {
            for (start, step, bound) in (-4..5).flat_map(|a| (-3..4).flat_map(move |b| (-4..5).map(move |c| (a, b, c))))
            {
                let states = (0..100).map(|round| start + step * round);
                let counted = states.take_while(|&state| holds(state, bound)).count() as i64;
                let want = (counted < 100).then_some(counted);
                let got = rounds(op, start, step, bound);
                // What ends at once may go on for ever from elsewhere.
                assert!(
                    got == want || (want == Some(0) && got.is_none()),
                    "{op:?} {start} {step} {bound}: {got:?} {want:?}"
                );
            }
        }
    }
}
