//! Activations.

use super::Site;
use super::graph::Graph;
use super::norm::{rsqrt, sqrt, without_numbers};
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

/// What a factor of a GELU is computed from: the value in 1 + erf(..), 1 + tanh(..), erfc(..) or, which is
/// half of the second, sigmoid(..).
fn gate(g: &Graph<'_>, id: usize) -> Option<usize> {
    let curve = |id| g.unary(id, Unary::Erf).or_else(|| g.unary(id, Unary::Tanh).filter(|&of| is_cubic(g, of)));
    let sum = g.either(id, Binary::Add).find_map(|[one, of]| (g.number(one) == Some(1.0)).then(|| curve(of))?);
    let logistic = || sigmoid_of(g, id).filter(|&of| is_cubic(g, of));
    sum.or_else(|| g.unary(id, Unary::Erfc)).or_else(logistic)
}

/// Whether a value is a multiple of x + k * x^3.
fn is_cubic(g: &Graph<'_>, id: usize) -> bool {
    let is_cube = |x, id| {
        let factors = g.factors(id);
        let cubed = factors.iter().any(|&f| g.binary(f, Binary::Pow).is_some_and(|[base, _]| base == x));
        cubed || factors.iter().filter(|&&f| f == x).count() == 3
    };
    let sum = |id| g.either(id, Binary::Add).any(|[x, cube]| is_cube(x, cube));
    // x * (c + k * x^2) is another way to write it.
    let product = |factors: &[usize]| factors.iter().any(|&x| factors.iter().any(|&f| has_square(g, f, x)));
    let factors = g.factors(id);
    factors.iter().any(|&id| sum(id)) || product(&factors)
}

fn has_square(g: &Graph<'_>, id: usize, x: usize) -> bool {
    let is_square = |id| g.factors(id).iter().filter(|&&f| f == x).count() == 2;
    g.either(id, Binary::Add).any(|[number, square]| g.number(number).is_some() && is_square(square))
}

/// x * sigmoid(k * x)
pub(super) fn silu(site: &Site<'_>) -> bool {
    let g = site.body;
    let is_of = |x, of| x == of || g.either(of, Binary::Multiply).any(|[k, y]| g.is_one(k) && y == x);
    let by_product = |[x, gate]: [usize; 2]| sigmoid_of(g, gate).is_some_and(|of| is_of(x, of));
    let by_quotient = |[x, below]: [usize; 2]| logistic(g, below).is_some_and(|of| is_of(x, of));
    let is_silu =
        |id| g.either(id, Binary::Multiply).any(by_product) || g.binary(id, Binary::Divide).is_some_and(by_quotient);
    g.made().any(is_silu)
}

/// sigmoid(x) where it is no part of a SiLU or GELU.
pub(super) fn sigmoid(site: &Site<'_>) -> bool {
    site.body.made().any(|id| sigmoid_of(site.body, id).is_some()) && !silu(site) && !gelu(site)
}

fn sigmoid_of(g: &Graph<'_>, id: usize) -> Option<usize> {
    let share = |[above, below]: [usize; 2]| match g.number(above) {
        Some(one) => logistic(g, below).filter(|_| one == 1.0),
        None => g.unary(above, Unary::Exp).filter(|_| more_than_one(g, below) == Some(above)),
    };
    g.unary(id, Unary::Sigmoid).or_else(|| g.binary(id, Binary::Divide).and_then(share))
}

/// x of 1 + exp(-x), or of 1 + exp(-k * x).
fn logistic(g: &Graph<'_>, id: usize) -> Option<usize> {
    let exponent = g.unary(more_than_one(g, id)?, Unary::Exp)?;
    let is_negative = |&[k, _]: &[usize; 2]| g.number(k).is_some_and(|k| k < 0.0);
    let multiple = || g.either(exponent, Binary::Multiply).find(is_negative).map(|[_, x]| x);
    g.unary(exponent, Unary::Negate).or_else(multiple)
}

/// x of 1 + x.
fn more_than_one(g: &Graph<'_>, id: usize) -> Option<usize> {
    g.either(id, Binary::Add).find(|&[one, _]| g.number(one) == Some(1.0)).map(|[_, x]| x)
}

/// tanh(x) where it is no part of a GELU.
pub(super) fn tanh(site: &Site<'_>) -> bool {
    site.body.made().any(|id| site.body.unary(id, Unary::Tanh).is_some()) && !gelu(site)
}

/// The larger of x and 0, or of 6 and this the smaller, unless it is what keeps a root from having none.
pub(super) fn relu(site: &Site<'_>) -> bool {
    let g = site.body;
    let root = |id| sqrt(g, id).or_else(|| rsqrt(g, id));
    let below: Vec<usize> = g.made().filter_map(root).flat_map(|id| without_numbers(g, id)).collect();
    let by_max = |id| g.either(id, Binary::Max).any(|[x, zero]| g.number(zero) == Some(0.0) && !g.is_one(x));
    let by_mask = |id| g.either(id, Binary::Multiply).any(|[x, mask]| is_above(g, mask, x));
    g.made().any(|id| by_max(id) && !below.contains(&id) || by_mask(id) || is_chosen(g, id) || is_clipped(g, id))
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
    let [on, on_true, on_false] = select.inputs[..] else { return false };
    let is_zero = |id| g.number(id) == Some(0.0);
    is_zero(on_false) && is_above(g, on, on_true) || is_zero(on_true) && is_below(g, on, on_false)
}

/// Whether a value says where x > 0.
fn is_above(g: &Graph<'_>, id: usize, x: usize) -> bool {
    compares(g, id, x, [Binary::Greater, Binary::GreaterEqual])
}

fn is_below(g: &Graph<'_>, id: usize, x: usize) -> bool {
    compares(g, id, x, [Binary::Less, Binary::LessEqual])
}

fn compares(g: &Graph<'_>, id: usize, x: usize, with_zero: [Binary; 2]) -> bool {
    let is_such = |op| g.binary(id, op).is_some_and(|[of, zero]| of == g.peel(x) && g.number(zero) == Some(0.0));
    with_zero.into_iter().any(is_such)
}
