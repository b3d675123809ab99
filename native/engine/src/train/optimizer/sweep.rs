//! One pass over parameters, gradients and moments, all at once.

use super::element::{Element, Wide};
use super::prepare::Prepare;
use crate::cpu::{chunks, vectorized};

/// Elements one thread takes at a time, where it has to be woken up.
pub(super) const GRAIN: usize = 128 * 1024;

/// Elements one thread takes at a time of those that an update reads.
const PART: usize = 16 * 1024;

/// Gradients that are prepared at once, so that they are still in the first cache when they are needed.
const BLOCK: usize = 1024;

/// What an optimizer does to each element in one step. `N` is the number of moments it keeps of each parameter.
pub(super) trait Step<const N: usize>: Copy + Send + Sync {
    /// Whether the change is all that is asked for, because more is done to it.
    const CHANGE_ONLY: bool = false;

    /// The change of the parameter; the moments move on.
    fn change<W: Wide>(self, param: W, gradient: W, moments: &mut [W; N]) -> W;
}

/// Writes into `next` what `step` makes of every element of `params`. All slices have the same length.
pub(super) fn sweep<P: Element, O: Element<Wide = P::Wide>, S: Step<N>, const N: usize>(
    step: S,
    prepare: Option<Prepare>,
    params: &[P],
    next: &mut [O],
    gradients: &[P],
    moments: [&mut [P::Wide]; N],
) {
    let mut parts = Vec::with_capacity(params.len().div_ceil(PART));
    let (mut next, mut moments) = (next.chunks_mut(PART), moments.map(|moment| moment.chunks_mut(PART)));
    for (params, gradients) in params.chunks(PART).zip(gradients.chunks(PART)) {
        let moments = moments.each_mut().map(|moment| moment.next().unwrap_or_default());
        parts.push((params, next.next().unwrap_or_default(), gradients, moments));
    }
    chunks(&mut parts, 1, &|_, parts| {
        for (params, next, gradients, moments) in parts {
            let moments = moments.each_mut().map(|moment| &mut **moment);
            match prepare {
                None => vectors(step, params, next, gradients, moments),
                Some(prepare) => prepared(step, prepare, params, next, gradients, moments),
            }
        }
    });
}

/// [`vectors`] by blocks, each of gradients that are prepared first: of 16 bits, they are not rounded to that again.
fn prepared<P: Element, O: Element<Wide = P::Wide>, S: Step<N>, const N: usize>(
    step: S,
    prepare: Prepare,
    params: &[P],
    next: &mut [O],
    gradients: &[P],
    mut moments: [&mut [P::Wide]; N],
) {
    let mut ready = [P::Wide::of(0.0); BLOCK];
    for start in (0..params.len()).step_by(BLOCK) {
        let part = start..params.len().min(start + BLOCK);
        let ready = &mut ready[..part.len()];
        vectorized(
            #[inline(always)]
            || prepare.block(&params[part.clone()], &gradients[part.clone()], ready, |gradient| gradient),
        );
        let moments = moments.each_mut().map(|m| &mut m[part.clone()]);
        vectors(step, &params[part.clone()], &mut next[part], ready, moments);
    }
}

/// [`block`] with the vectors of this processor. A function of its own: what it is inlined into beside other loops, the
/// compiler no longer sees that its slices don't overlap.
#[inline(never)]
fn vectors<P, G, O, S, const N: usize>(
    step: S,
    params: &[P],
    next: &mut [O],
    gradients: &[G],
    moments: [&mut [P::Wide]; N],
) where
    P: Element,
    G: Element<Wide = P::Wide>,
    O: Element<Wide = P::Wide>,
    S: Step<N>,
{
    vectorized(
        #[inline(always)]
        || block(step, params, next, gradients, moments),
    );
}

#[inline(always)]
fn block<P, G, O, S, const N: usize>(
    step: S,
    params: &[P],
    next: &mut [O],
    gradients: &[G],
    mut moments: [&mut [P::Wide]; N],
) where
    P: Element,
    G: Element<Wide = P::Wide>,
    O: Element<Wide = P::Wide>,
    S: Step<N>,
{
    let len = params.len();
    let gradients = &gradients[..len];
    let next = &mut next[..len];
    let mut moments = moments.each_mut().map(|m| &mut m[..len]);
    for i in 0..len {
        let mut at = std::array::from_fn(|n| moments[n][i]);
        let param = params[i].widen();
        let change = step.change(param, gradients[i].widen(), &mut at);
        next[i] = O::narrow(if S::CHANGE_ONLY { change } else { param + change });
        (0..N).for_each(|n| moments[n][i] = at[n]);
    }
}
