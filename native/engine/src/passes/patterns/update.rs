//! Updates of parameters by optimizers.

use super::Site;
use super::graph::{Graph, parts};
use super::norm::{rsqrt, sqrt, square, without_numbers};
use crate::program::{Binary, Fused, Op, Unary};

/// A part of a sum, and whether it is a multiple of the value.
type Term = (usize, bool);

/// p - k * gradient, where another result, a momentum, may come for the gradient or to it, and some of the parameter, a decay
pub(super) fn sgd(site: &Site<'_>) -> bool {
    let g = site.body;
    updates(site).any(|(parameter, terms)| {
        let (own, steps): (Vec<Term>, Vec<Term>) = terms.into_iter().partition(|(id, _)| *id == parameter);
        let is_step = steps.len() == 1 || steps.len() == 2 && steps.iter().any(|(id, _)| is_result(g, *id));
        let is_part = |(id, is_multiple): &Term| *is_multiple || is_momentum(g, *id);
        let is_all_steps = steps.iter().all(|step| is_part(step) && is_gradient(g, step.0, parameter));
        own.contains(&(parameter, false)) && is_step && is_all_steps
    })
}

/// Whether a value is another result, k * momentum - l * gradient.
fn is_momentum(g: &Graph<'_>, id: usize) -> bool {
    let parts = terms(g, id);
    is_result(g, id) && parts.len() > 1 && parts.iter().all(|(_, is_multiple)| *is_multiple)
}

fn is_result(g: &Graph<'_>, id: usize) -> bool {
    g.outputs().any(|output| output == id)
}

fn is_gradient(g: &Graph<'_>, id: usize, parameter: usize) -> bool {
    let is_sign = g.unary(id, Unary::Sign).is_some();
    id != parameter && !g.is_one(id) && !is_sign && step(g, id).is_none()
}

/// p - k * m / (sqrt(v) + eps)
pub(super) fn adam(site: &Site<'_>) -> bool {
    updates(site).any(|(parameter, terms)| decay(site.body, parameter, &terms) == Some(false))
}

/// Adam with a part of the parameter taken away as well.
pub(super) fn adamw(site: &Site<'_>) -> bool {
    updates(site).any(|(parameter, terms)| decay(site.body, parameter, &terms) == Some(true))
}

/// p - k * gradient / (sqrt(v) + eps), where v is a moving mean of the gradient's squares
pub(super) fn rmsprop(site: &Site<'_>) -> bool {
    has_step(site, |step| step.is_own && !step.is_total)
}

/// p - k * gradient / (sqrt(v) + eps), where v is the sum of the gradient's squares
pub(super) fn adagrad(site: &Site<'_>) -> bool {
    has_step(site, |step| step.is_own && step.is_total)
}

fn has_step(site: &Site<'_>, is_such: fn(Step) -> bool) -> bool {
    updates(site).any(|(_, terms)| terms.into_iter().any(|(id, _)| step(site.body, id).is_some_and(is_such)))
}

/// Whether a sum that is an update of Adam takes a part of the parameter away.
fn decay(g: &Graph<'_>, parameter: usize, terms: &[Term]) -> Option<bool> {
    terms.iter().find(|(id, _)| step(g, *id).is_some_and(|step| !step.is_own))?;
    let own = || terms.iter().filter(|(id, _)| *id == parameter);
    Some(own().count() > 1 || own().any(|(_, is_multiple)| *is_multiple))
}

/// A step by the root of squares.
#[derive(Clone, Copy)]
struct Step {
    /// Whether it is the gradient itself that is divided, and no moment.
    is_own: bool,
    /// Whether all squares are added up.
    is_total: bool,
}

/// The step that a value is, or a part of.
fn step(g: &Graph<'_>, id: usize) -> Option<Step> {
    terms(g, id).into_iter().find_map(|(id, _)| ratio(g, id))
}

/// m / (sqrt(v) + eps), where v is computed from the square of what m is computed from.
fn ratio(g: &Graph<'_>, id: usize) -> Option<Step> {
    let (m, v) = by_root(g, id)?;
    let (first, second) = (g.origins(m), g.origins(v));
    let squares = g.made().filter(|&id| second[id]).filter_map(|id| square(g, id));
    let squared: Vec<usize> = squares.filter(|&gradient| first[gradient]).collect();
    // What was kept of the squares before.
    let old = |&(id, _): &Term| g.is_input(id) && !g.is_one(id) && !squared.contains(&id);
    let kept: Vec<Term> = without_numbers(g, v).into_iter().flat_map(|v| terms(g, v)).filter(old).collect();
    let is_total = kept.iter().any(|(_, is_multiple)| !is_multiple);
    // A moment that began with zero is a multiple of the gradient too, but then nothing is kept.
    let is_bare = |&gradient: &usize| gradient == m || !kept.is_empty() && bare(g, gradient) == bare(g, m);
    let is_own = squared.iter().any(is_bare);
    (!squared.is_empty()).then_some(Step { is_own, is_total })
}

/// m and v of m / (sqrt(v) + eps).
fn by_root(g: &Graph<'_>, id: usize) -> Option<(usize, usize)> {
    // The correction of the second moment may stand under the root or beside it.
    let root_of = |id| sqrt(g, id).or_else(|| sqrt(g, multiple(g, id)?));
    let root = |below| without_numbers(g, below).into_iter().find_map(root_of);
    let divided = g.binary(id, Binary::Divide).and_then(|[m, below]| Some((m, root(below)?)));
    let inverse = |[m, root]: [usize; 2]| Some((m, rsqrt(g, g.unmasked(root))?));
    divided.or_else(|| g.either(id, Binary::Multiply).find_map(inverse))
}

/// What a value is a multiple of.
fn bare(g: &Graph<'_>, id: usize) -> usize {
    std::iter::successors(Some(g.peel(id)), |&id| multiple(g, id).or_else(|| g.unary(id, Unary::Negate)))
        .last()
        .unwrap_or(id)
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
        multiple(g, id).map_or(vec![], |x| vec![(x, true)])
    })
}

/// x of a product or quotient with a number.
fn multiple(g: &Graph<'_>, id: usize) -> Option<usize> {
    let product = g.either(id, Binary::Multiply).find(|&[factor, _]| g.is_one(factor)).map(|[_, x]| x);
    product.or_else(|| g.binary(id, Binary::Divide).filter(|&[_, by]| g.is_one(by)).map(|[x, _]| x))
}
