//! Steps written one by one, for places in tensors.

use super::step::{One, Step, Two};

/// Steps after `operands` operands.
#[derive(Clone, Debug)]
pub(crate) struct Formula {
    operands: usize,
    pub(crate) steps: Vec<Step>,
}

impl Formula {
    pub(crate) fn new(operands: usize) -> Self {
        Self { operands, steps: Vec::new() }
    }

    fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.operands + self.steps.len() - 1
    }

    /// A number, which wraps where it is negative.
    pub(crate) fn literal(&mut self, number: i64) -> usize {
        self.push(Step::Literal(number as u32))
    }

    /// A number of single precision.
    pub(crate) fn float(&mut self, number: f64) -> usize {
        self.push(Step::Literal((number as f32).to_bits()))
    }

    pub(crate) fn place(&mut self, axis: usize) -> usize {
        self.push(Step::Place(axis))
    }

    pub(crate) fn one(&mut self, function: One, x: usize) -> usize {
        self.push(Step::One(function, x))
    }

    pub(crate) fn two(&mut self, function: Two, x: usize, y: usize) -> usize {
        self.push(Step::Two(function, x, y))
    }

    pub(crate) fn select(&mut self, condition: usize, x: usize, y: usize) -> usize {
        self.push(Step::Select(condition, x, y))
    }

    pub(crate) fn load(&mut self, operand: usize, at: usize) -> usize {
        self.push(Step::Load(operand, at))
    }

    /// `x` times a number.
    pub(crate) fn scaled(&mut self, x: usize, by: i64) -> usize {
        if by == 1 {
            return x;
        }
        let by = self.literal(by);
        self.two(Two::MultiplyI, x, by)
    }

    /// `x` plus a number.
    pub(crate) fn moved(&mut self, x: usize, by: i64) -> usize {
        if by == 0 {
            return x;
        }
        let by = self.literal(by);
        self.two(Two::AddI, x, by)
    }

    /// `x` divided by a number that is not zero, and what remains.
    pub(crate) fn divided(&mut self, x: usize, by: usize) -> (usize, usize) {
        let by = self.literal(by as i64);
        (self.two(Two::DivideU, x, by), self.two(Two::RemainderU, x, by))
    }

    /// The sum, `None` being nothing yet.
    pub(crate) fn plus(&mut self, sum: Option<usize>, x: usize) -> usize {
        sum.map_or(x, |sum| self.two(Two::AddI, sum, x))
    }

    /// `x`, a signed integer or not, held in `0..=most`.
    pub(crate) fn held(&mut self, x: usize, most: usize, signed: bool) -> usize {
        let most = self.literal(most as i64);
        if !signed {
            return self.two(Two::MinU, x, most);
        }
        let zero = self.literal(0);
        let above = self.two(Two::MaxS, x, zero);
        self.two(Two::MinS, above, most)
    }

    /// Whether both hold.
    pub(crate) fn both(&mut self, first: Option<usize>, x: usize) -> usize {
        first.map_or(x, |first| self.two(Two::And, first, x))
    }

    /// The element at a place if it is inside, else a number.
    pub(crate) fn load_inside(
        &mut self,
        operand: usize,
        at: Option<usize>,
        inside: Option<usize>,
        other: u32,
    ) -> usize {
        let at = at.unwrap_or_else(|| self.literal(0));
        let Some(inside) = inside else { return self.load(operand, at) };
        let first = self.literal(0);
        let safe = self.select(inside, at, first);
        let element = self.load(operand, safe);
        let other = self.literal(other.into());
        self.select(inside, element, other)
    }

    /// Whether `x`, below zero a large number, is below `length`.
    pub(crate) fn below(&mut self, x: usize, length: usize) -> usize {
        let length = self.literal(length as i64);
        self.two(Two::LessU, x, length)
    }
}
