//! One pass over parameters, gradients and moments, all at once.

use super::element::{Element, Wide};

/// Elements one thread takes at a time.
const GRAIN: usize = 128 * 1024;

/// What an optimizer does to each element in one step. `N` is the number of moments it keeps of each parameter.
pub(super) trait Step<const N: usize>: Copy + Send + Sync {
    /// The change of the parameter; the moments move on.
    fn change<W: Wide>(self, gradient: W, moments: &mut [W; N]) -> W;
}

/// Writes into `next` what `step` makes of every element of `params`. All slices have the same length.
pub(super) fn sweep<P: Element, S: Step<N>, const N: usize>(
    step: S,
    params: &[P],
    next: &mut [P],
    gradients: &[P],
    moments: [&mut [P::Wide]; N],
) {
    if params.len() <= GRAIN {
        return pulp::Arch::new().dispatch(|| block(step, params, next, gradients, moments));
    }
    let middle = params.len() / 2;
    let (params, more_params) = params.split_at(middle);
    let (next, more_next) = next.split_at_mut(middle);
    let (gradients, more_gradients) = gradients.split_at(middle);
    let mut halves = moments.map(|m| m.split_at_mut(middle)).map(|(low, high)| (Some(low), Some(high)));
    let low = halves.each_mut().map(|half| half.0.take().unwrap_or_default());
    let high = halves.map(|half| half.1.unwrap_or_default());
    rayon::join(
        || sweep(step, params, next, gradients, low),
        || sweep(step, more_params, more_next, more_gradients, high),
    );
}

#[inline(always)]
fn block<P: Element, S: Step<N>, const N: usize>(
    step: S,
    params: &[P],
    next: &mut [P],
    gradients: &[P],
    mut moments: [&mut [P::Wide]; N],
) {
    let len = params.len();
    let gradients = &gradients[..len];
    let next = &mut next[..len];
    let mut moments = moments.each_mut().map(|m| &mut m[..len]);
    for i in 0..len {
        let mut at = std::array::from_fn(|n| moments[n][i]);
        let change = P::narrow(step.change(gradients[i].widen(), &mut at));
        next[i] = P::narrow(params[i].widen() + change.widen());
        (0..N).for_each(|n| moments[n][i] = at[n]);
    }
}
