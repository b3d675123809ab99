//! The ends of a model: what is looked up first and what is compared with targets last.

use super::{Site, norm};
use crate::program::{Binary, Fold, Op, Unary};

/// Logarithms of probabilities at the targets: by a sum of products with one-hot targets, or looked up.
pub(super) fn cross_entropy(site: &Site<'_>) -> bool {
    let g = site.body;
    let is_product = |id| {
        let factors = g.factors(without_sign(site, id));
        factors.iter().any(|&log| factors.iter().any(|&target| log != target && is_entropy(site, log, target)))
    };
    let by_sum = |id| g.fold(id, Fold::Sum).is_some_and(is_product);
    // Its sum over all rows is a region of its own.
    let by_softmax = |id| g.factors(id).iter().any(|&log| norm::is_log_softmax(g, log)) && is_product(id);
    g.made().any(|id| by_sum(id) || by_softmax(id)) || norm::log_softmax(site) && is_looked_up(site)
}

fn without_sign(site: &Site<'_>, id: usize) -> usize {
    let id = unmasked(site, id);
    site.body.unary(id, Unary::Negate).unwrap_or(id)
}

/// A value that is chosen where another is not 0.
fn unmasked(site: &Site<'_>, id: usize) -> usize {
    let is_number = |id: usize| site.body.number(id).is_some();
    match site.body.maker(id).filter(|instruction| instruction.op == Op::Select) {
        Some(select) if is_number(select.inputs[1]) => site.body.peel(select.inputs[2]),
        Some(select) if is_number(select.inputs[2]) => site.body.peel(select.inputs[1]),
        _ => id,
    }
}

fn is_entropy(site: &Site<'_>, log: usize, target: usize) -> bool {
    let g = site.body;
    let log = without_sign(site, log);
    let is_log = g.unary(log, Unary::Log).is_some() || norm::is_log_softmax(g, log);
    is_log && is_target(site, target) && !g.depends(log, target)
}

/// Whether a value comes from outside or says where indices are equal.
fn is_target(site: &Site<'_>, id: usize) -> bool {
    site.body.is_input(id) && !site.body.is_one(id) || site.body.binary(id, Binary::Equal).is_some()
}

/// Whether elements of a result are taken by indices.
fn is_looked_up(site: &Site<'_>) -> bool {
    let results = site.outer.results(site.number);
    site.outer.instructions().iter().any(|instruction| {
        let takes = matches!(instruction.op, Op::TakeAlongAxis(_) | Op::Gather(_) | Op::Take(_));
        takes && results.contains(&site.outer.peel(instruction.inputs[0]))
    })
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
