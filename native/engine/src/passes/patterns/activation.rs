//! Activations.

use super::Site;
use super::graph::Graph;
use super::norm::without_numbers;
use crate::program::{Binary, Op, Unary};

/// x * (1 + erf(x / sqrt 2)) / 2, or its approximation by tanh.
pub(super) fn gelu(site: &Site<'_>) -> bool {
    let g = site.body;
    g.made().any(|id| {
        let factors = g.factors(id);
        let gates = factors.iter().filter_map(|&factor| Some((factor, gate(g, factor)?)));
        gates.into_iter().any(|(gate, of)| factors.iter().any(|&x| x != gate && !g.is_one(x) && g.depends(of, x)))
    })
}

/// What a factor of a GELU is computed from: the value in 1 + erf(..), 1 + tanh(..) or erfc(..).
fn gate(g: &Graph<'_>, id: usize) -> Option<usize> {
    let curve = |id| g.unary(id, Unary::Erf).or_else(|| g.unary(id, Unary::Tanh).filter(|&of| is_cubic(g, of)));
    let sum = g.either(id, Binary::Add).find_map(|[one, of]| (g.number(one) == Some(1.0)).then(|| curve(of))?);
    sum.or_else(|| g.unary(id, Unary::Erfc))
}

/// Whether a value is a multiple of x + k * x^3.
fn is_cubic(g: &Graph<'_>, id: usize) -> bool {
    let is_cube = |x, id| {
        let factors = g.factors(id);
        let cubed = factors.iter().any(|&f| g.binary(f, Binary::Pow).is_some_and(|[base, _]| base == x));
        cubed || factors.iter().filter(|&&f| f == x).count() == 3
    };
    let sum = |id| g.either(id, Binary::Add).any(|[x, cube]| is_cube(x, cube));
    // x * (1 + k * x^2) is another way to write it.
    let product = |factors: &[usize]| factors.iter().any(|&x| factors.iter().any(|&f| has_square(g, f, x)));
    let factors = g.factors(id);
    factors.iter().any(|&id| sum(id)) || product(&factors)
}

fn has_square(g: &Graph<'_>, id: usize, x: usize) -> bool {
    let is_square = |id| g.factors(id).iter().filter(|&&f| f == x).count() == 2;
    g.either(id, Binary::Add).any(|[one, square]| g.number(one) == Some(1.0) && is_square(square))
}

/// x * sigmoid(x)
pub(super) fn silu(site: &Site<'_>) -> bool {
    let g = site.body;
    let by_product = |id| g.either(id, Binary::Multiply).any(|[x, gate]| sigmoid_of(g, gate) == Some(x));
    let by_quotient = |id| g.binary(id, Binary::Divide).is_some_and(|[x, below]| logistic(g, below) == Some(x));
    g.made().any(|id| by_product(id) || by_quotient(id))
}

/// sigmoid(x) where it is no part of a SiLU.
pub(super) fn sigmoid(site: &Site<'_>) -> bool {
    site.body.made().any(|id| sigmoid_of(site.body, id).is_some()) && !silu(site)
}

fn sigmoid_of(g: &Graph<'_>, id: usize) -> Option<usize> {
    let quotient = || g.binary(id, Binary::Divide).filter(|&[one, _]| g.number(one) == Some(1.0));
    g.unary(id, Unary::Sigmoid).or_else(|| logistic(g, quotient()?[1]))
}

/// x of 1 + exp(-x).
fn logistic(g: &Graph<'_>, id: usize) -> Option<usize> {
    let [_, exp] = g.either(id, Binary::Add).find(|&[one, _]| g.number(one) == Some(1.0))?;
    g.unary(g.unary(exp, Unary::Exp)?, Unary::Negate)
}

/// tanh(x) where it is no part of a GELU.
pub(super) fn tanh(site: &Site<'_>) -> bool {
    site.body.made().any(|id| site.body.unary(id, Unary::Tanh).is_some()) && !gelu(site)
}

/// The larger of x and 0, or of 6 and this the smaller, unless it is what keeps a root from having none.
pub(super) fn relu(site: &Site<'_>) -> bool {
    let g = site.body;
    let root = |id| g.unary(id, Unary::Sqrt).or_else(|| g.unary(id, Unary::Rsqrt));
    let below: Vec<usize> = g.made().filter_map(root).flat_map(|id| without_numbers(g, id)).collect();
    let by_max = |id| g.either(id, Binary::Max).any(|[x, zero]| g.number(zero) == Some(0.0) && !g.is_one(x));
    g.made().any(|id| by_max(id) && !below.contains(&id) || is_chosen(g, id) || is_clipped(g, id))
}

/// Whether a value is x between 0 and 6, or between 0 and no number.
fn is_clipped(g: &Graph<'_>, id: usize) -> bool {
    let Some(clip) = g.maker(g.peel(id)).filter(|instruction| instruction.op == Op::Clip) else { return false };
    let is_top = |top: f64| top == 6.0 || top == f64::INFINITY;
    g.number(clip.inputs[1]) == Some(0.0) && g.number(clip.inputs[2]).is_some_and(is_top)
}

/// Whether a value is x where x > 0, else 0.
fn is_chosen(g: &Graph<'_>, id: usize) -> bool {
    let Some(select) = g.maker(g.peel(id)).filter(|instruction| instruction.op == Op::Select) else { return false };
    let (x, is_zero) = (g.peel(select.inputs[1]), |id| g.number(id) == Some(0.0));
    let is_above = |op| g.binary(select.inputs[0], op).is_some_and(|[of, zero]| of == x && is_zero(zero));
    is_zero(select.inputs[2]) && [Binary::Greater, Binary::GreaterEqual].into_iter().any(is_above)
}
