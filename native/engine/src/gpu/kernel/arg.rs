//! The kernel that finds the place of the largest key of a line.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// How places of equal keys are chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ties {
    /// The last one rather than the first.
    pub(crate) last: bool,
    /// The last one of the largest key there is, which is that of NaN.
    pub(crate) last_nan: bool,
}

/// Each thread looks through every so many'th element of a line and answers the best of them. The lines of a second pass are
/// what the first one answered, and have `places` of their own.
#[cube(launch_unchecked)]
pub(crate) fn best(
    keys: &[u32],
    places: &[u32],
    found_keys: &mut [u32],
    found: &mut [u32],
    layout: &[u32],
    #[comptime] first: bool,
    #[comptime] ties: Ties,
) {
    let number = ABSOLUTE_POS as u32;
    let (count, len, parts) = (layout[0], layout[1], layout[2]);
    if number < count {
        let start = (number / parts) * len;
        let mut k = number % parts;
        let mut key = keys[(start + k) as usize];
        let mut place = k;
        if comptime!(!first) {
            place = places[(start + k) as usize];
        }
        k += parts;
        while k < len {
            let other = keys[(start + k) as usize];
            let mut at = k;
            if comptime!(!first) {
                at = places[(start + k) as usize];
            }
            let later = if comptime!(ties.last) {
                true.runtime()
            } else if comptime!(ties.last_nan) {
                key == 0xffff_ffffu32
            } else {
                false.runtime()
            };
            if (other > key) | ((other == key) & ((at > place) == later)) {
                key = other;
                place = at;
            }
            k += parts;
        }
        found_keys[number as usize] = key;
        found[number as usize] = place;
    }
}
