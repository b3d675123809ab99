//! Copies of tensors on a GPU, many by one kernel.

use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::tensor::CubeTensor;

use super::Adapter;
use super::kernel::copy::copy_tensors;
use super::launch::{buffer, counted};
use super::layouts::words;
use crate::error::Result;

/// Threads of a block, and the most blocks: each copies many elements.
const THREADS: u32 = 256;
const MOST_BLOCKS: usize = 1024;
/// A kernel has code of its own for each number of tensors.
const MOST_TENSORS: usize = 16;

/// Copies the first tensor of each pair into the second, which has as many elements and which nobody else reads or writes.
pub(super) fn copy(pairs: &[(&CubeTensor, &CubeTensor)], adapter: Adapter) -> Result<()> {
    let bindings = adapter.client()?.properties().hardware.max_bindings as usize;
    let most = (bindings.saturating_sub(1) / 2).clamp(1, MOST_TENSORS);
    let filled: Vec<_> = pairs.iter().copied().filter(|(source, _)| len(source) > 0).collect();
    filled.chunks(most).try_for_each(|pairs| launch(pairs, adapter))
}

fn launch(pairs: &[(&CubeTensor, &CubeTensor)], adapter: Adapter) -> Result<()> {
    let lengths: Vec<usize> = pairs.iter().map(|(source, _)| counted(len(source))).collect::<Result<_>>()?;
    let blocks = lengths.iter().max().map_or(1, |longest| longest.div_ceil(THREADS as usize)).clamp(1, MOST_BLOCKS);
    let layout: Vec<u32> = lengths.iter().map(|&length| length as u32).collect();
    // SAFETY: the kernel reads and writes as many elements of each tensor as the source has.
    unsafe {
        copy_tensors::launch_unchecked(
            adapter.client()?,
            CubeCount::new_1d(blocks as u32),
            CubeDim::new_1d(THREADS),
            pairs.iter().map(|(source, _)| buffer(source)).collect(),
            pairs.iter().map(|(_, target)| buffer(target)).collect(),
            words(adapter, &layout)?,
            pairs.len(),
        )
    };
    Ok(())
}

/// The words of a tensor.
fn len(tensor: &CubeTensor) -> usize {
    tensor.meta.shape().iter().product()
}
