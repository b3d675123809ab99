//! The kernel that looks for what is not a number.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

/// Marks each tensor that has a number that is NaN or infinite with 1 in `marks`, which are 0 before.
#[cube(launch_unchecked)]
pub(crate) fn mark_not_finite(
    tensors: &Sequence<Box<[u32]>>,
    marks: &mut [u32],
    lengths: &[u32],
    #[comptime] count: usize,
) {
    let threads = (CUBE_COUNT as u32) * CUBE_DIM;
    #[unroll]
    for number in 0..count {
        let tensor = tensors.index(number);
        let length = lengths[number];
        let mut i = ABSOLUTE_POS as u32;
        while i < length {
            if (tensor[i as usize] & 0x7fff_ffffu32) >= 0x7f80_0000u32 {
                // Whoever else writes here writes the same.
                marks[number] = 1u32;
            }
            i += threads;
        }
    }
}
