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

/// The elements that a thread folds: from one to before another, both within a line that begins at `line`.
#[derive(CubeType, Clone, Copy)]
struct Part {
    line: u32,
    first: u32,
    end: u32,
}

/// The part with this number, of lines in so many parts.
#[cube]
fn part_of(layout: &[u32], number: u32, #[comptime] part: u32) -> Part {
    let (len, parts) = (layout[1], layout[2]);
    let first = (number % parts) * part;
    Part { line: number / parts * len, first, end: min(first + part, len) }
}

/// The fold with one more element.
#[cube]
fn with(
    state: &State,
    values: &[u32],
    lost: &[u32],
    at: u32,
    zero: u32,
    #[comptime] exact: bool,
    #[comptime] fold: Fold,
) -> State {
    let mut less = 0u32.runtime();
    if comptime!(!exact) {
        less = lost[at as usize];
    }
    join(state, &State { value: values[at as usize], lost: less }, zero, fold)
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
    let number = ABSOLUTE_POS as u32;
    if number < layout[0] {
        let own = part_of(layout, number, part);
        let mut sum = fold.identity.runtime();
        let mut sum_lost = 0u32.runtime();
        let mut k = own.first;
        while k < own.end {
            let next = with(&State { value: sum, lost: sum_lost }, values, lost, own.line + k, layout[3], exact, fold);
            sum = next.value;
            sum_lost = next.lost;
            k += 1u32;
        }
        total[number as usize] = sum;
        total_lost[number as usize] = sum_lost;
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
    let number = ABSOLUTE_POS as u32;
    if number < layout[0] {
        let own = part_of(layout, number, part);
        let mut sum = fold.identity.runtime();
        let mut sum_lost = 0u32.runtime();
        if own.first > 0u32 {
            sum = starts[(number - 1u32) as usize];
            sum_lost = starts_lost[(number - 1u32) as usize];
        }
        let mut k = own.first;
        while k < own.end {
            let at = own.line + k;
            let next = with(&State { value: sum, lost: sum_lost }, values, lost, at, layout[3], exact, fold);
            sum = next.value;
            sum_lost = next.lost;
            if comptime!(exact) {
                running[at as usize] = finished(&next, fold);
            } else {
                running[at as usize] = next.value;
                running_lost[at as usize] = next.lost;
            }
            k += 1u32;
        }
    }
}
