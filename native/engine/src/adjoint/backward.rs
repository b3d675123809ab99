//! From the gradients of a program's results to those of its inputs.

use super::builder::Builder;
use super::forward::Forward;
use super::{Gradients, Site, branches, loops, places, rule};
use crate::program::{Instruction, Op, Program};

/// A program that a builder has taken up, and the gradients of its values as they are known so far.
pub(super) struct Backward<'a> {
    pub(super) builder: Builder,
    program: &'a Program,
    forward: Forward,
    is_active: Vec<bool>,
    gradients: Vec<Option<usize>>,
}

impl<'a> Backward<'a> {
    pub(super) fn new(builder: Builder, program: &'a Program, forward: Forward, is_active: Vec<bool>) -> Self {
        let gradients = vec![None; is_active.len()];
        Self { builder, program, forward, is_active, gradients }
    }

    /// Adds to the gradient of a value, which is of its own type where it has no sum yet.
    pub(super) fn add(&mut self, id: usize, gradient: usize) {
        if !self.is_active[id] {
            return;
        }
        let ty = self.builder.ty(self.forward.ids[id]).clone();
        let sum = self.gradients[id];
        let dtype = sum.map_or(ty.dtype, |sum| self.builder.ty(sum).dtype);
        let gradient = self.builder.cast(gradient, dtype);
        let gradient = self.builder.sum_to(gradient, &ty.shape);
        self.gradients[id] = Some(match sum {
            Some(sum) => self.builder.sum_of(sum, gradient),
            None => gradient,
        });
    }

    /// Adds to `sum`, which may be of a wider type, whatever is added to the gradient of a value.
    pub(super) fn add_to(&mut self, id: usize, sum: usize) {
        self.gradients[id] = Some(sum);
    }

    /// The gradient of a value as far as it is known, which is then forgotten.
    pub(super) fn take(&mut self, id: usize) -> Option<usize> {
        self.gradients[id].take()
    }

    /// The gradient of a value.
    pub(super) fn gradient(&mut self, id: usize) -> usize {
        match self.gradients[id] {
            Some(gradient) => gradient,
            None => {
                let ty = self.builder.ty(self.forward.ids[id]).clone();
                self.builder.zeros(&ty)
            }
        }
    }

    /// Goes back through all operations; `None` where one has no rule.
    pub(super) fn run(&mut self) -> Option<()> {
        let program = self.program;
        let mut first = self.is_active.len();
        for instruction in program.instructions.iter().rev() {
            first -= instruction.outputs.len();
            self.pass(instruction, first)?;
        }
        Some(())
    }

    /// From the gradients of an instruction's results, the first of which is `y`, to those of its operands.
    fn pass(&mut self, instruction: &Instruction, y: usize) -> Option<()> {
        let results = y..y + instruction.outputs.len();
        let Some(g) = self.gradients[results.clone()].iter().flatten().next().copied() else { return Some(()) };
        match &instruction.op {
            Op::While(_) => {
                let trace = self.forward.traces.remove(&y)?;
                loops::back(self, &trace, &instruction.inputs, results);
                Some(())
            }
            Op::Cond(attrs) => branches::back(self, attrs, &instruction.inputs, results),
            _ if results.len() == 1 => self.by_rule(instruction, y, g),
            _ => None,
        }
    }

    fn by_rule(&mut self, instruction: &Instruction, y: usize, g: usize) -> Option<()> {
        let wanted: Vec<bool> = instruction.inputs.iter().map(|&id| self.is_active[id]).collect();
        let inputs = instruction.inputs.iter().map(|&id| self.forward.ids[id]).collect();
        let site =
            Site { instruction: Instruction { inputs, ..instruction.clone() }, y: self.forward.ids[y], g, wanted };
        if let Some((id, sum)) = instruction.inputs.first().and_then(|&id| Some((id, self.gradients[id]?)))
            && let Some(sum) = places::add_to(&mut self.builder, sum, &site)
        {
            self.gradients[id] = Some(sum);
            return Some(());
        }
        let gradients: Gradients = rule(&mut self.builder, &site)?;
        for (operand, gradient) in gradients {
            if site.wanted[operand] {
                self.add(instruction.inputs[operand], gradient);
            }
        }
        Some(())
    }

    /// Whether a value has a gradient, and its id in the builder.
    pub(super) fn is_active(&self, id: usize) -> bool {
        self.is_active[id]
    }

    pub(super) fn built(&self, id: usize) -> usize {
        self.forward.ids[id]
    }
}
