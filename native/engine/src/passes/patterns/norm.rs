//! What brings rows to one scale.

use super::Site;
use super::graph::Graph;
use crate::program::{Binary, Fold, Unary};

/// exp(t) / sum(exp(t))
pub(super) fn softmax(site: &Site<'_>) -> bool {
    site.body.made().any(|id| is_softmax(site.body, id))
}

pub(super) fn is_softmax(g: &Graph<'_>, id: usize) -> bool {
    let is_sum = |exp, sum| g.fold(sum, Fold::Sum) == Some(exp) && g.unary(exp, Unary::Exp).is_some();
    let share = |one| g.binary(one, Binary::Divide).filter(|&[one, _]| g.number(one) == Some(1.0));
    let by_share = |[exp, one]: [usize; 2]| share(one).is_some_and(|[_, sum]| is_sum(exp, sum));
    let divided = g.binary(id, Binary::Divide).is_some_and(|[exp, sum]| is_sum(exp, sum));
    divided || g.either(id, Binary::Multiply).any(by_share)
}

/// t - log(sum(exp(t))), or the logarithm of a softmax.
pub(super) fn log_softmax(site: &Site<'_>) -> bool {
    site.body.made().any(|id| is_log_softmax(site.body, id))
}

pub(super) fn is_log_softmax(g: &Graph<'_>, id: usize) -> bool {
    let is_less = |t, log| log_of_sum(g, log) == Some(t) || log_of_sum_and_max(g, log) == Some(t);
    let subtracted = g.binary(id, Binary::Subtract).is_some_and(|[t, log]| is_less(t, log));
    let added = |[t, negative]: [usize; 2]| g.unary(negative, Unary::Negate).is_some_and(|log| is_less(t, log));
    subtracted || g.either(id, Binary::Add).any(added) || g.unary(id, Unary::Log).is_some_and(|x| is_softmax(g, x))
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

/// (x - mean(x)) by the root of its mean square.
pub(super) fn layer_norm(site: &Site<'_>) -> bool {
    is_normalised(site.body, centred)
}

/// x by the root of its mean square.
pub(super) fn rms_norm(site: &Site<'_>) -> bool {
    is_normalised(site.body, |g, id| centred(g, id).is_none().then_some(id))
}

/// Whether a value is divided by the root of its own mean square; `part` says what is squared, by what it is made of.
fn is_normalised(g: &Graph<'_>, part: fn(&Graph<'_>, usize) -> Option<usize>) -> bool {
    let squared = |id| mean_square(g, id).and_then(|x| part(g, x));
    let divided = |id| {
        let [x, root] = g.binary(id, Binary::Divide)?;
        let of = squared(g.unary(root, Unary::Sqrt)?)?;
        g.factors(x).into_iter().find(|&x| part(g, x) == Some(of))
    };
    let multiplied = |id| {
        let factors = g.factors(id);
        let of = factors.iter().find_map(|&root| squared(g.unary(root, Unary::Rsqrt)?))?;
        factors.into_iter().find(|&x| part(g, x) == Some(of))
    };
    g.made().any(|id| divided(id).or_else(|| multiplied(id)).is_some())
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

/// What a value is the mean square of, with or without a small number added.
fn mean_square(g: &Graph<'_>, id: usize) -> Option<usize> {
    let with_number = [Binary::Add, Binary::Max].into_iter().flat_map(|op| g.either(id, op));
    let inner = with_number.filter(|&[_, number]| g.is_one(number)).map(|[inner, _]| inner);
    inner.chain([id]).find_map(|id| square(g, mean(g, id)?))
}

/// x of x * x.
pub(super) fn square(g: &Graph<'_>, id: usize) -> Option<usize> {
    let product = g.binary(id, Binary::Multiply).filter(|[a, b]| a == b);
    let power = || g.binary(id, Binary::Pow).filter(|&[_, power]| g.number(power) == Some(2.0));
    product.or_else(power).map(|[x, _]| x)
}
