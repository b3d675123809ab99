//! Branches: the way back takes the one that was taken, and computes in it again what it reads.

use std::ops::Range;

use super::backward::Backward;
use super::builder::Builder;
use super::pullback::Pullback;
use crate::program::{Cond, Op, Program};
use crate::types::TensorType;

/// Hands the gradients of the `results` on to the operands. `None` where an operation in a branch has no rule, or calls into
/// the host.
pub(super) fn back(backward: &mut Backward<'_>, attrs: &Cond, operands: &[usize], results: Range<usize>) -> Option<()> {
    let op = Op::Cond(attrs.clone());
    if op.has_effect() {
        return None;
    }
    let active: Vec<bool> = operands.iter().map(|&id| backward.is_active(id)).collect();
    let sums: Vec<usize> = (0..operands.len()).filter(|&operand| active[operand]).collect();
    let gradients: Vec<Option<usize>> = results.map(|id| backward.take(id)).collect();
    let seeded: Vec<usize> = (0..gradients.len()).filter(|&result| gradients[result].is_some()).collect();
    let pull =
        |program: &Program| Pullback { program, active: &active, results: &seeded, sums: &sums, known: &[] }.program();
    let branches = attrs.branches.iter().map(pull).collect::<Option<Vec<_>>>()?;
    let mut inputs: Vec<usize> = operands.iter().map(|&id| backward.built(id)).collect();
    inputs.extend(gradients.iter().flatten());
    for &operand in &sums {
        let sum = backward.take(operands[operand]);
        inputs.push(backward.builder.sum_so_far(sum, inputs[operand]));
    }
    let types: Vec<TensorType> = inputs.iter().map(|&id| backward.builder.ty(id).clone()).collect();
    let predicates = attrs.predicates.iter().map(|predicate| among(predicate, &types)).collect();
    let outputs = types[types.len() - sums.len()..].to_vec();
    let first = backward.builder.emit_all(Op::Cond(Cond { predicates, branches }), inputs, outputs);
    sums.into_iter().zip(first..).for_each(|(operand, gradient)| backward.add(operands[operand], gradient));
    Some(())
}

/// The program that takes more inputs, of which it reads the first.
fn among(program: &Program, inputs: &[TensorType]) -> Program {
    let mut b = Builder::new(inputs);
    let ids = b.append(program, (0..program.inputs.len()).collect());
    b.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}
