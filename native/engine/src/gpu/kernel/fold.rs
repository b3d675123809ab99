//! The kernel of a fold: a region whose values are folded along its last axes.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::apply;
use super::function::number;
use super::region::{CHUNK, CHUNKS, COUNT, FOLDED, ZERO, value};
use crate::gpu::known::Known;
use crate::gpu::step::{Fold, Region};

/// Threads that fold one result together.
pub(crate) const LANES: usize = 256;

/// A result is folded by `lanes` threads; where there are several chunks, each chunk of the folded axes makes a result of its own.
#[cube(launch_unchecked)]
pub(crate) fn fold_region(
    operands: &Sequence<Box<[u32]>>,
    result: &mut [u32],
    layout: &[u32],
    #[comptime] region: Known<Region>,
    #[comptime] fold: Fold,
    #[comptime] lanes: usize,
) {
    let lane = if comptime!(lanes == 1) { 0u32.runtime() } else { UNIT_POS };
    let at = if comptime!(lanes == 1) { ABSOLUTE_POS as u32 } else { CUBE_POS as u32 };
    if at < layout[COUNT] {
        let row = at / layout[CHUNKS];
        let first = (at % layout[CHUNKS]) * layout[CHUNK];
        let end = min(first + layout[CHUNK], layout[FOLDED]);
        let mut sum = fold.identity.runtime();
        let mut lost = 0u32.runtime();
        let mut k = first + lane;
        while k < end {
            let x = value(operands, layout, row * layout[FOLDED] + k, comptime!(region.clone()));
            if comptime!(fold.compensates()) {
                // Kahan's summation: what the last addition lost is added with the next number.
                // The zero comes from memory, so that no compiler finds that nothing is lost in theory.
                let zero = layout[ZERO];
                let next = u32::reinterpret(number(x) - number(lost)) | zero;
                let total = u32::reinterpret(number(sum) + number(next)) | zero;
                let grown = u32::reinterpret(number(total) - number(sum)) | zero;
                let rest = number(grown) - number(next);
                // Of infinite sums nothing is lost.
                lost = select(rest.abs() < 1.0e30f32, u32::reinterpret(rest), 0u32.runtime());
                sum = total;
            } else {
                sum = apply::two(sum, x, layout[ZERO], fold.function);
            }
            k += comptime!(lanes as u32);
        }
        if comptime!(lanes == 1) {
            result[at as usize] = sum;
        } else {
            let total = together(sum, lane, layout[ZERO], fold, lanes);
            if lane == 0u32 {
                result[at as usize] = total;
            }
        }
    }
}

/// The fold of the values of all lanes.
#[cube]
pub(crate) fn together(sum: u32, lane: u32, zero: u32, #[comptime] fold: Fold, #[comptime] lanes: usize) -> u32 {
    let mut shared = Shared::<[u32]>::new_slice(lanes);
    shared[lane as usize] = sum;
    let mut half = comptime!(lanes as u32 / 2).runtime();
    while half > 0u32 {
        sync_cube();
        if lane < half {
            let other = shared[(lane + half) as usize];
            shared[lane as usize] = apply::two(shared[lane as usize], other, zero, fold.function);
        }
        half /= 2u32;
    }
    sync_cube();
    shared[0]
}
