//! Regions next to products and convolutions.

use super::{Site, norm};
use crate::program::{Binary, Dot, Instruction, Op};

/// A product of matrices with a bias.
pub(super) fn linear(site: &Site<'_>) -> bool {
    let products = operands(site, |op| matches!(op, Op::Dot(dot) if dot.lhs_batch.is_empty()));
    products.into_iter().any(|input| is_biased(site, input))
}

/// A convolution with what follows: a bias, a normalisation, an activation.
pub(super) fn conv(site: &Site<'_>) -> bool {
    !operands(site, |op| matches!(op, Op::Conv(_))).is_empty()
}

/// The operands of a region that are results of such operations, by number.
fn operands(site: &Site<'_>, is_such: fn(&Op) -> bool) -> Vec<usize> {
    let is_result =
        |&id: &usize| site.outer.maker(site.outer.source(id)).is_some_and(|instruction| is_such(&instruction.op));
    let instruction = site.outer.instruction(site.number);
    if !matches!(instruction.op, Op::Fused(_)) {
        return vec![];
    }
    instruction.inputs.iter().enumerate().filter(|(_, id)| is_result(id)).map(|(number, _)| number).collect()
}

/// Whether fewer elements, from outside or constant, are added to an operand: at most one for each column.
fn is_biased(site: &Site<'_>, input: usize) -> bool {
    let g = site.body;
    let columns = g.ty(input).shape.last().copied().unwrap_or(1);
    let is_less = |id: usize| g.len(id) < g.len(input) || g.len(id) == columns;
    let is_bias = |id: usize| (g.is_input(id) || g.number(id).is_some()) && id != input && is_less(id);
    g.made().any(|id| g.either(id, Binary::Add).any(|[x, bias]| x == input && is_bias(bias)))
}

/// A softmax over a product that another product reads.
pub(super) fn attention(site: &Site<'_>) -> bool {
    let scores = operands(site, |op| matches!(op, Op::Dot(_)));
    !scores.is_empty() && norm::softmax(site) && is_weighing(site)
}

/// Whether a product sums over the last axis of a result.
fn is_weighing(site: &Site<'_>) -> bool {
    let mut results = site.outer.results(site.number);
    let reads = |result: usize, id: usize, contract: &[usize]| {
        let last = site.outer.ty(id).shape.len().checked_sub(1);
        site.outer.peel(id) == result && contract.iter().copied().eq(last)
    };
    let weighs = |result: usize, instruction: &Instruction| match &instruction.op {
        Op::Dot(Dot { lhs_contract, rhs_contract, .. }) => {
            reads(result, instruction.inputs[0], lhs_contract) || reads(result, instruction.inputs[1], rhs_contract)
        }
        _ => false,
    };
    results.any(|id| site.outer.final_readers(id).into_iter().any(|instruction| weighs(id, instruction)))
}
