//! The ends of a model: what is looked up first and what is compared with targets last.

use super::graph::Graph;
use super::{Site, norm};
use crate::program::{Binary, Fold, Instruction, Op, Unary};

/// Logarithms of probabilities at the targets: by a sum of products with one-hot targets, or looked up.
pub(super) fn cross_entropy(site: &Site<'_>) -> bool {
    let g = site.body;
    let is_product = |id| {
        let factors = g.factors(without_sign(g, id));
        factors.iter().any(|&log| factors.iter().any(|&target| log != target && is_entropy(site, log, target)))
    };
    let is_masked = |id| g.masked(id).is_some_and(|[on, log]| is_entropy(site, log, on));
    let by_sum = |id| g.fold(id, Fold::Sum).is_some_and(|id| is_product(id) || is_masked(id));
    // Its sum over all rows is a region of its own.
    let by_softmax = |id| g.factors(id).iter().any(|&log| norm::is_log_softmax(g, log)) && is_product(id);
    let by_rows = |id| by_sum(id) || by_softmax(id) || is_less_target(site, id);
    let is_known = || norm::log_softmax(site) || has_log_sum(g);
    g.made().any(by_rows) || is_known() && is_looked_up(site) || norm::softmax(site) && is_looked_up_for_log(site)
}

fn without_sign(g: &Graph<'_>, id: usize) -> usize {
    let id = g.unmasked(id);
    g.unary(id, Unary::Negate).unwrap_or(id)
}

/// Whether a value is log(sum(exp(x))) less the x at the target, or the other way round.
fn is_less_target(site: &Site<'_>, id: usize) -> bool {
    let g = site.body;
    let is_loss = |log, at| norm::log_sum_exp(g, log).is_some_and(|x| is_at_target(site, at, x));
    g.binary(id, Binary::Subtract).is_some_and(|[a, b]| is_loss(a, b) || is_loss(b, a))
}

/// Whether a value is the x at the target: a sum of products with one-hot targets, or looked up before.
fn is_at_target(site: &Site<'_>, id: usize, x: usize) -> bool {
    let g = site.body;
    let is_chosen = |product| {
        let factors = g.factors(product);
        factors.contains(&x) && factors.iter().any(|&target| target != x && is_target(site, target))
    };
    let is_masked = |sum| g.unmasked(sum) == x && sum != x;
    let summed = g.fold(id, Fold::Sum).is_some_and(|sum| is_chosen(sum) || is_masked(sum));
    let operands = &site.outer.instruction(site.number).inputs;
    let outer = |id: usize| operands.get(id).map(|&id| site.outer.peel(id));
    let taken = || site.outer.maker(outer(id)?).filter(|taken| takes(&taken.op)).map(|taken| taken.inputs[0]);
    summed || g.is_input(id) && g.is_input(x) && taken().is_some_and(|of| Some(site.outer.peel(of)) == outer(x))
}

/// Whether log(sum(exp(x))) is a result, and x another one.
fn has_log_sum(g: &Graph<'_>) -> bool {
    g.outputs().any(|id| norm::log_sum_exp(g, id).is_some_and(|x| g.is_output(x)))
}

fn is_entropy(site: &Site<'_>, log: usize, target: usize) -> bool {
    let g = site.body;
    let log = without_sign(g, log);
    let is_log = g.unary(log, Unary::Log).is_some() || norm::is_log_softmax(g, log);
    is_log && is_target(site, target) && !g.depends(log, target)
}

/// Whether a value comes from outside or says where indices are equal.
fn is_target(site: &Site<'_>, id: usize) -> bool {
    site.body.is_input(id) && !site.body.is_one(id) || site.body.binary(id, Binary::Equal).is_some()
}

/// Whether elements of a result are taken by indices.
fn is_looked_up(site: &Site<'_>) -> bool {
    let mut results = site.outer.results(site.number);
    let is_taken =
        |id: usize, instruction: &Instruction| takes(&instruction.op) && site.outer.peel(instruction.inputs[0]) == id;
    results.any(|id| site.outer.final_readers(id).into_iter().any(|instruction| is_taken(id, instruction)))
}

/// Whether elements of a result are taken by indices, and their logarithms next.
fn is_looked_up_for_log(site: &Site<'_>) -> bool {
    let is_log = |instruction: &Instruction| instruction.op == Op::Unary(Unary::Log);
    let takes_log = |instruction: &&Instruction| match &instruction.op {
        Op::Fused(fused) => fused.body.instructions.iter().any(is_log),
        _ => is_log(instruction),
    };
    let outer = site.outer;
    let read = outer.results(site.number).flat_map(|id| outer.readers(id));
    let taken = read.filter(|&&reader| takes(&outer.instruction(reader).op)).flat_map(|&reader| outer.results(reader));
    taken.flat_map(|id| outer.final_readers(id)).any(|reader| takes_log(&reader))
}

/// Whether an operation takes elements by indices.
fn takes(op: &Op) -> bool {
    matches!(op, Op::TakeAlongAxis(_) | Op::Gather(_) | Op::Take(_))
}

/// Rows of a table of floats.
pub(super) fn embedding(site: &Site<'_>) -> bool {
    let instruction = site.outer.instruction(site.number);
    let of_rows = match &instruction.op {
        Op::Take(attrs) => attrs.axis == 0,
        Op::Gather(attrs) => attrs.axes == [0],
        _ => false,
    };
    let table = instruction.inputs.first().map(|&id| site.outer.ty(id));
    of_rows && table.is_some_and(|table| table.shape.len() == 2 && table.dtype.is_float())
}
