//! The kernel that copies tensors.
#![allow(clippy::needless_range_loop, reason = "the loop is unrolled, and sequences have no iterators")]

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Copies each of `sources` into the target at the same place.
#[cube(launch_unchecked)]
pub(crate) fn copy_tensors(
    sources: &Sequence<Box<[u32]>>,
    targets: &mut Sequence<Box<[u32]>>,
    lengths: &[u32],
    #[comptime] count: usize,
) {
    let threads = (CUBE_COUNT as u32) * CUBE_DIM;
    #[unroll]
    for number in 0..count {
        let source = sources.index(number);
        let target = targets.index_mut(number);
        let length = lengths[number];
        let mut i = ABSOLUTE_POS as u32;
        while i < length {
            target[i as usize] = source[i as usize];
            i += threads;
        }
    }
}
