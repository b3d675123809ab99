//! The kernels of running folds along lines. Sums keep what rounding loses.
#![allow(clippy::too_many_arguments, reason = "a kernel has as many as it has buffers")]

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::apply;
use super::function::{bits, kept, number};
use crate::gpu::step::Fold;

/// What is folded: a value, and what rounding took from it.
#[derive(CubeType, Clone, Copy)]
struct State {
    value: u32,
    lost: u32,
}

#[cube]
fn join(state: &State, more: &State, zero: u32, #[comptime] fold: Fold) -> State {
    if comptime!(fold.compensates()) {
        let (a, b) = (number(state.value), number(more.value));
        let total = kept(a + b, zero);
        let grown = kept(total - a, zero);
        let rest = kept(kept(a - kept(total - grown, zero), zero) + kept(b - grown, zero), zero);
        // Of infinite sums nothing is lost.
        let rest = select(rest.abs() < 1.0e30f32, rest, 0.0f32.runtime());
        let lost = kept(number(state.lost) + kept(number(more.lost) + rest, zero), zero);
        State { value: bits(total), lost: bits(lost) }
    } else {
        State { value: apply::two(state.value, more.value, zero, fold.function), lost: state.lost }
    }
}

#[cube]
fn finished(state: &State, #[comptime] fold: Fold) -> u32 {
    if comptime!(fold.compensates()) { bits(number(state.value) + number(state.lost)) } else { state.value }
}

/// The fold of each part of each line.
#[cube(launch_unchecked)]
pub(crate) fn totals(
    values: &[u32],
    lost: &[u32],
    total: &mut [u32],
    total_lost: &mut [u32],
    layout: &[u32],
    #[comptime] part: u32,
    #[comptime] exact: bool,
    #[comptime] fold: Fold,
) {
    let at = ABSOLUTE_POS as u32;
    let (count, len, parts, zero) = (layout[0], layout[1], layout[2], layout[3]);
    if at < count {
        let line = (at / parts) * len;
        let first = (at % parts) * part;
        let end = min(first + part, len);
        let mut sum = fold.identity.runtime();
        let mut sum_lost = 0u32.runtime();
        let mut k = first;
        while k < end {
            let mut less = 0u32.runtime();
            if comptime!(!exact) {
                less = lost[(line + k) as usize];
            }
            let more = State { value: values[(line + k) as usize], lost: less };
            let next = join(&State { value: sum, lost: sum_lost }, &more, zero, fold);
            sum = next.value;
            sum_lost = next.lost;
            k += 1u32;
        }
        total[at as usize] = sum;
        total_lost[at as usize] = sum_lost;
    }
}

/// The running fold of each part of each line, from the fold of all parts before it. What a caller of `totals` folded stays in
/// two parts; the elements of results are finished.
#[cube(launch_unchecked)]
pub(crate) fn scan(
    values: &[u32],
    lost: &[u32],
    starts: &[u32],
    starts_lost: &[u32],
    running: &mut [u32],
    running_lost: &mut [u32],
    layout: &[u32],
    #[comptime] part: u32,
    #[comptime] exact: bool,
    #[comptime] fold: Fold,
) {
    let at = ABSOLUTE_POS as u32;
    let (count, len, parts, zero) = (layout[0], layout[1], layout[2], layout[3]);
    if at < count {
        let line = (at / parts) * len;
        let number = at % parts;
        let end = min((number + 1u32) * part, len);
        let mut sum = fold.identity.runtime();
        let mut sum_lost = 0u32.runtime();
        if number > 0u32 {
            sum = starts[(at - 1u32) as usize];
            sum_lost = starts_lost[(at - 1u32) as usize];
        }
        let mut k = number * part;
        while k < end {
            let mut less = 0u32.runtime();
            if comptime!(!exact) {
                less = lost[(line + k) as usize];
            }
            let more = State { value: values[(line + k) as usize], lost: less };
            let next = join(&State { value: sum, lost: sum_lost }, &more, zero, fold);
            sum = next.value;
            sum_lost = next.lost;
            if comptime!(exact) {
                running[(line + k) as usize] = finished(&next, fold);
            } else {
                running[(line + k) as usize] = next.value;
                running_lost[(line + k) as usize] = next.lost;
            }
            k += 1u32;
        }
    }
}
