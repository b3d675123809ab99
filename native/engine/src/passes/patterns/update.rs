//! Updates of parameters by optimizers.

use super::Site;
use super::graph::{Graph, parts};
use super::norm::square;
use crate::program::{Binary, Fused, Op, Unary};

/// A part of a sum, and whether it is a multiple of the value.
type Term = (usize, bool);

/// p - k * gradient, where another result, a momentum, may come for the gradient or to it
pub(super) fn sgd(site: &Site<'_>) -> bool {
    let g = site.body;
    updates(site).any(|(parameter, terms)| {
        let (own, steps): (Vec<Term>, Vec<Term>) = terms.into_iter().partition(|(_, is_multiple)| !is_multiple);
        let is_step = steps.len() == 1 || steps.len() == 2 && steps.iter().any(|(id, _)| is_result(g, *id));
        own == [(parameter, false)] && is_step && steps.iter().all(|(id, _)| is_gradient(g, *id, parameter))
    })
}

fn is_result(g: &Graph<'_>, id: usize) -> bool {
    g.outputs().any(|output| output == id)
}

fn is_gradient(g: &Graph<'_>, id: usize, parameter: usize) -> bool {
    id != parameter && !g.is_one(id) && ratio(g, id).is_none()
}

/// p - k * m / (sqrt(v) + eps)
pub(super) fn adam(site: &Site<'_>) -> bool {
    updates(site).any(|(parameter, terms)| decay(site.body, parameter, &terms) == Some(false))
}

/// Adam with a part of the parameter taken away as well.
pub(super) fn adamw(site: &Site<'_>) -> bool {
    updates(site).any(|(parameter, terms)| decay(site.body, parameter, &terms) == Some(true))
}

/// Whether a sum that is an update of Adam takes a part of the parameter away.
fn decay(g: &Graph<'_>, parameter: usize, terms: &[Term]) -> Option<bool> {
    terms.iter().find(|(id, _)| ratio(g, *id).is_some())?;
    let own = || terms.iter().filter(|(id, _)| *id == parameter);
    Some(own().count() > 1 || own().any(|(_, is_multiple)| *is_multiple))
}

/// m of m / (sqrt(v) + eps), where v is computed from the square of what m is computed from.
fn ratio(g: &Graph<'_>, id: usize) -> Option<usize> {
    let [m, below] = g.binary(id, Binary::Divide)?;
    let number = g.either(below, Binary::Add).find(|&[_, eps]| g.is_one(eps)).map(|[root, _]| root);
    let v = g.unary(number.unwrap_or(below), Unary::Sqrt)?;
    let is_second = |id| square(g, id).is_some_and(|gradient| g.depends(m, gradient));
    g.made().any(|id| g.depends(v, id) && is_second(id)).then_some(m)
}

/// The results that are a sum with an input of the program, whole, among their terms.
fn updates<'a>(site: &'a Site<'a>) -> impl Iterator<Item = (usize, Vec<Term>)> + 'a {
    let (g, inputs) = (site.body, &site.outer.instruction(site.number).inputs);
    let is_plain = matches!(&site.outer.instruction(site.number).op, Op::Fused(Fused { row_axes: 0, .. }));
    g.outputs().filter(move |_| is_plain).filter_map(move |id| {
        let terms = terms(g, id);
        let is_parameter =
            |&id: &usize| g.is_input(id) && site.outer.is_input(site.outer.peel(inputs[id])) && !g.is_one(id);
        let parameter = terms.iter().map(|(id, _)| *id).find(is_parameter)?;
        (terms.len() > 1).then_some((parameter, terms))
    })
}

/// The values whose sum or difference a result is; other results among them stay whole.
fn terms(g: &Graph<'_>, result: usize) -> Vec<Term> {
    parts((result, false), |&(id, is_multiple)| {
        if id != result && is_result(g, id) {
            return vec![];
        }
        let sum = g.binary(id, Binary::Add).or_else(|| g.binary(id, Binary::Subtract));
        if let Some(operands) = sum.filter(|&[a, b]| !g.is_one(a) && !g.is_one(b)) {
            return operands.map(|operand| (operand, is_multiple)).to_vec();
        }
        if let Some(x) = g.unary(id, Unary::Negate) {
            return vec![(x, is_multiple)];
        }
        let multiple = g.either(id, Binary::Multiply).find(|&[factor, _]| g.is_one(factor)).map(|[_, x]| x);
        let part = || g.binary(id, Binary::Divide).filter(|&[_, by]| g.is_one(by)).map(|[x, _]| x);
        multiple.or_else(part).map_or(vec![], |x| vec![(x, true)])
    })
}
