//! The way back through a program inside an operation.

use super::active::active;
use super::backward::Backward;
use super::builder::{Builder, wide};
use super::forward::Forward;
use crate::passes::dead;
use crate::program::Program;
use crate::types::TensorType;

/// From the gradients of some results of a program to those of some inputs.
pub(super) struct Pullback<'a> {
    /// The program.
    pub(super) program: &'a Program,
    /// Which inputs want a gradient.
    pub(super) active: &'a [bool],
    /// Numbers of the results that have one.
    pub(super) results: &'a [usize],
    /// Numbers of the inputs whose gradient is added to a sum.
    pub(super) sums: &'a [usize],
    /// Ids of values that are given, so that nothing computes them again.
    pub(super) known: &'a [usize],
}

impl Pullback<'_> {
    /// A program that takes the inputs, what is known, the gradients of the results, and the sums. It answers the gradient of
    /// each active input. `None` where an operation has no rule.
    pub(super) fn program(&self) -> Option<Program> {
        let outputs: Vec<bool> = (0..self.program.outputs.len()).map(|number| self.results.contains(&number)).collect();
        let is_active = active(self.program, self.active, &outputs)?;
        let types = self.inputs();
        let own = self.program.inputs.len();
        let mut builder = Builder::new(&types);
        let known: Vec<(usize, usize)> = self.known.iter().copied().zip(own..).collect();
        let forward = Forward::of(&mut builder, self.program, (0..own).collect(), &is_active, &known);
        let mut backward = Backward::new(builder, self.program, forward, is_active);
        let first = own + known.len();
        for (&input, sum) in self.sums.iter().zip(first + self.results.len()..) {
            backward.add_to(input, sum);
        }
        for (&result, gradient) in self.results.iter().zip(first..) {
            backward.add(self.program.outputs[result], gradient);
        }
        backward.run()?;
        let wanted = (0..own).filter(|&input| self.active[input]);
        let gradients = wanted.map(|input| backward.gradient(input)).collect();
        Some(dead::remove(&backward.builder.finish(gradients)))
    }

    fn inputs(&self) -> Vec<TensorType> {
        let types = self.program.value_types();
        let known = self.known.iter().map(|&id| types[id].clone());
        let results = self.results.iter().map(|&result| types[self.program.outputs[result]].clone());
        let sums = self.sums.iter().map(|&input| TensorType::new(wide(types[input].dtype), &types[input].shape[..]));
        self.program.inputs.iter().cloned().chain(known).chain(results).chain(sums).collect()
    }
}
