//! The kernel of a pass of a merge sort. It is stable, and takes lines of any length.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Runs of `width` elements of each line are in order; two of them become one. An element's new place is its place in its own run
/// and the number of elements of the other run that come before it: those below it, and if that run is the earlier one, those
/// equal to it.
#[cube(launch_unchecked)]
pub(crate) fn merge(
    keys: &[u32],
    places: &[u32],
    sorted_keys: &mut [u32],
    sorted: &mut [u32],
    layout: &[u32],
    #[comptime] first: bool,
) {
    let number = ABSOLUTE_POS as u32;
    let (count, len, width) = (layout[0], layout[1], layout[2]);
    if number < count {
        let line = (number / len) * len;
        let at = number - line;
        let key = keys[number as usize];
        let run = at / width;
        let is_later = (run & 1u32) == 1u32;
        let pair = (run / 2u32) * 2u32 * width;
        let middle = min(pair + width, len);
        let end = min(middle + width, len);
        let begin = select(is_later, pair, middle);
        let mut low = begin;
        let mut high = select(is_later, middle, end);
        while low < high {
            let half = (low + high) / 2u32;
            let other = keys[(line + half) as usize];
            if (other < key) | (is_later & (other == key)) {
                low = half + 1u32;
            } else {
                high = half;
            }
        }
        let own = at - run * width;
        let to = line + pair + own + (low - begin);
        sorted_keys[to as usize] = key;
        if comptime!(first) {
            sorted[to as usize] = at;
        } else {
            sorted[to as usize] = places[number as usize];
        }
    }
}
