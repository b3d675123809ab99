//! Which tensors of a GPU hold something that is not a number.

use burn_cubecl::cubecl::prelude::*;

use super::kernel::finite::mark_not_finite;
use super::launch::buffer;
use super::layouts::words;
use super::transfer::from_cube;
use super::{Adapter, transfer};
use crate::error::Result;
use crate::types::{TensorType, Type};
use crate::value::Value;

/// Threads of a block, and the most blocks: each looks at many elements.
const THREADS: u32 = 256;
const MOST_BLOCKS: usize = 1024;

/// For each value of floats, 1 where an element is NaN or infinite; values elsewhere have 0. In tensors of as many values as
/// a kernel takes.
pub(crate) fn marks(values: &[Value], adapter: Adapter) -> Result<Vec<Value>> {
    let client = adapter.client()?;
    let most = (client.properties().hardware.max_bindings as usize).saturating_sub(2).clamp(1, MOST_TENSORS);
    values.chunks(most).map(|values| marked(values, adapter)).collect()
}

/// A kernel has code of its own for each number of tensors.
const MOST_TENSORS: usize = 32;

fn marked(values: &[Value], adapter: Adapter) -> Result<Value> {
    let client = adapter.client()?;
    let ty = TensorType::new(Type::U32, [values.len()]);
    let marks = transfer::upload(Value::full(&ty, 0.0, &crate::Device::Cpu)?, adapter)?;
    let here: Vec<&Value> = values.iter().filter(|value| value.cube().is_some() && !value.is_empty()).collect();
    let Some(target) = marks.cube().filter(|_| !here.is_empty()) else { return Ok(marks) };
    let longest = here.iter().map(|value| value.len()).max().unwrap_or(0);
    let blocks = longest.div_ceil(THREADS as usize).clamp(1, MOST_BLOCKS) as u32;
    let lengths: Vec<u32> = here.iter().map(|value| value.len() as u32).collect();
    let tensors = here.iter().filter_map(|value| value.cube()).map(buffer).collect();
    // SAFETY: the kernel reads as many elements of each tensor as it has, and writes a mark for each.
    unsafe {
        mark_not_finite::launch_unchecked(
            client,
            CubeCount::new_1d(blocks),
            CubeDim::new_1d(THREADS),
            tensors,
            buffer(target),
            words(adapter, &lengths)?,
            here.len(),
        )
    };
    Ok(from_cube(Type::U32, target.clone()))
}
