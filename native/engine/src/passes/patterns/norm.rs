//! What brings rows to one scale.

use super::Site;
use super::graph::Graph;
use crate::program::{Binary, Fold, Instruction, Op, Unary};

/// exp(t) / sum(exp(t)), or exp(t - log(sum(exp(t))))
pub(super) fn softmax(site: &Site<'_>) -> bool {
    site.body.made().any(|id| is_softmax(site.body, id))
}

pub(super) fn is_softmax(g: &Graph<'_>, id: usize) -> bool {
    let is_sum = |exp, sum| g.fold(sum, Fold::Sum) == Some(exp) && g.unary(exp, Unary::Exp).is_some();
    let share = |one| g.binary(one, Binary::Divide).filter(|&[one, _]| g.number(one) == Some(1.0));
    let by_share = |[exp, one]: [usize; 2]| share(one).is_some_and(|[_, sum]| is_sum(exp, sum));
    let divided = g.binary(id, Binary::Divide).is_some_and(|[exp, sum]| is_sum(exp, sum));
    let by_log = || g.unary(id, Unary::Exp).is_some_and(|log| is_less_log(g, log));
    divided || g.either(id, Binary::Multiply).any(by_share) || by_log()
}

/// t - log(sum(exp(t))), or the logarithm of a softmax, where it is more than a step to a softmax.
pub(super) fn log_softmax(site: &Site<'_>) -> bool {
    let g = site.body;
    let is_exp = |instruction: &Instruction| instruction.op == Op::Unary(Unary::Exp);
    let is_asked = |id| g.is_output(id) || !g.final_readers(id).into_iter().all(is_exp);
    g.made().any(|id| is_log_softmax(g, id) && is_asked(id))
}

pub(super) fn is_log_softmax(g: &Graph<'_>, id: usize) -> bool {
    is_less_log(g, id) || g.unary(id, Unary::Log).is_some_and(|x| is_softmax(g, x))
}

fn is_less_log(g: &Graph<'_>, id: usize) -> bool {
    let is_less = |t, log| log_of_sum(g, log) == Some(t) || log_of_sum_and_max(g, log) == Some(t);
    let subtracted = g.binary(id, Binary::Subtract).is_some_and(|[t, log]| is_less(t, log));
    let added = |[t, negative]: [usize; 2]| g.unary(negative, Unary::Negate).is_some_and(|log| is_less(t, log));
    subtracted || g.either(id, Binary::Add).any(added)
}

/// x of log(sum(exp(x))), however it is kept from overflowing.
pub(super) fn log_sum_exp(g: &Graph<'_>, id: usize) -> Option<usize> {
    log_of_sum_and_max(g, id).or_else(|| log_of_sum(g, id))
}

/// t of log(sum(exp(t))).
fn log_of_sum(g: &Graph<'_>, id: usize) -> Option<usize> {
    g.unary(g.fold(g.unary(id, Unary::Log)?, Fold::Sum)?, Unary::Exp)
}

/// x of m + log(sum(exp(x - m))).
fn log_of_sum_and_max(g: &Graph<'_>, id: usize) -> Option<usize> {
    g.either(id, Binary::Add).find_map(|[max, log]| {
        let [x, from] = g.binary(log_of_sum(g, log)?, Binary::Subtract)?;
        (from == max).then_some(x)
    })
}

/// x - mean(x) by the standard deviation of x.
pub(super) fn layer_norm(site: &Site<'_>) -> bool {
    is_scaled(site.body, variance, centred)
}

/// x by the root of its mean square.
pub(super) fn rms_norm(site: &Site<'_>) -> bool {
    is_scaled(site.body, |g, id| uncentred(g, mean_square(g, id)?), uncentred)
}

fn uncentred(g: &Graph<'_>, id: usize) -> Option<usize> {
    centred(g, id).is_none().then_some(id)
}

/// What a value is made of.
type Origin = fn(&Graph<'_>, usize) -> Option<usize>;

/// Whether a value is divided by a root: `square` says of what value there is the square in the root, `part` of what value
/// what is divided is. Small numbers may be added to square and root.
fn is_scaled(g: &Graph<'_>, square: Origin, part: Origin) -> bool {
    let squared = |id| without_numbers(g, id).into_iter().find_map(|id| square(g, id));
    let root = |id| without_numbers(g, id).into_iter().find_map(|id| squared(sqrt(g, id)?));
    let is_of = |x, of| g.factors(x).into_iter().any(|x| part(g, x) == Some(of));
    let divided = |id| g.binary(id, Binary::Divide).is_some_and(|[x, by]| root(by).is_some_and(|of| is_of(x, of)));
    let share = |id| g.binary(id, Binary::Divide).filter(|&[one, _]| g.number(one) == Some(1.0));
    let by_share = |[x, one]: [usize; 2]| share(one).and_then(|[_, by]| root(by)).is_some_and(|of| is_of(x, of));
    let multiplied = |id| {
        let of = g.factors(id).into_iter().find_map(|root| squared(rsqrt(g, root)?));
        of.is_some_and(|of| is_of(id, of))
    };
    g.made().any(|id| divided(id) || multiplied(id) || g.either(id, Binary::Multiply).any(by_share))
}

/// x of mean((x - mean(x))^2) or mean(x^2) - mean(x)^2.
fn variance(g: &Graph<'_>, id: usize) -> Option<usize> {
    let by_means = || {
        let [squares, middle] = g.binary(id, Binary::Subtract)?;
        let x = mean_square(g, squares)?;
        (mean(g, square(g, middle)?) == Some(x)).then_some(x)
    };
    mean_square(g, id).and_then(|x| centred(g, x)).or_else(by_means)
}

/// x of x - mean(x).
fn centred(g: &Graph<'_>, id: usize) -> Option<usize> {
    let [x, middle] = g.binary(id, Binary::Subtract)?;
    (mean(g, middle) == Some(x)).then_some(x)
}

/// What a value is the mean of: a sum by a number.
fn mean(g: &Graph<'_>, id: usize) -> Option<usize> {
    let divided = g.binary(id, Binary::Divide).filter(|&[_, count]| g.is_one(count)).map(|[sum, _]| sum);
    let multiplied = || g.either(id, Binary::Multiply).find(|&[_, share]| g.is_one(share)).map(|[sum, _]| sum);
    g.fold(divided.or_else(multiplied)?, Fold::Sum)
}

/// x of mean(x^2).
fn mean_square(g: &Graph<'_>, id: usize) -> Option<usize> {
    square(g, mean(g, id)?)
}

/// A value, and what it may have been before a number was added to it, or before it was kept above one, or both.
pub(super) fn without_numbers(g: &Graph<'_>, id: usize) -> Vec<usize> {
    let before = |id: usize| {
        let sums = [Binary::Add, Binary::Max].into_iter().flat_map(move |op| g.either(id, op));
        sums.filter(|&[_, number]| g.is_one(number)).map(|[inner, _]| inner)
    };
    let once: Vec<usize> = before(id).collect();
    let twice: Vec<usize> = once.iter().flat_map(|&id| before(id)).collect();
    [vec![id], once, twice].concat()
}

/// x of the root of x.
pub(super) fn sqrt(g: &Graph<'_>, id: usize) -> Option<usize> {
    g.unary(id, Unary::Sqrt).or_else(|| power(g, id, 0.5))
}

/// x of one by the root of x.
pub(super) fn rsqrt(g: &Graph<'_>, id: usize) -> Option<usize> {
    g.unary(id, Unary::Rsqrt).or_else(|| power(g, id, -0.5))
}

fn power(g: &Graph<'_>, id: usize, exponent: f64) -> Option<usize> {
    g.binary(id, Binary::Pow).filter(|&[_, power]| g.number(power) == Some(exponent)).map(|[x, _]| x)
}

/// x of x * x.
pub(super) fn square(g: &Graph<'_>, id: usize) -> Option<usize> {
    let product = g.binary(id, Binary::Multiply).filter(|[a, b]| a == b).map(|[x, _]| x);
    product.or_else(|| power(g, id, 2.0))
}
