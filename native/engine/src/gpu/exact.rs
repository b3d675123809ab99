//! Small products of `f32` on their way to a GPU, in twice the digits: the time is that of asking for a kernel.

use burn_cubecl::cubecl::{calculate_cube_count_elemwise, prelude::*};
use burn_cubecl::tensor::CubeTensor;

use super::Adapter;
use super::kernel::exact::exact_product;
use super::launch::{buffer, counted};
use super::layouts::words;
use super::tiled::After;
use super::transfer::{empty, from_cube};
use crate::error::Result;
use crate::types::{TensorType, Type};
use crate::value::Value;

/// The product of `f32` of a shape: how many outer and inner batches, rows, contracted elements and columns there are, and the
/// operands' steps between outer batches, inner ones, lines and contracted elements. `after` is done to each element.
pub(super) fn product(
    [lhs, rhs]: [&CubeTensor; 2],
    [_, inner_batches, rows, inner, columns]: [usize; 5],
    steps: [[usize; 4]; 2],
    (out, after): (&TensorType, &After),
    adapter: Adapter,
) -> Result<Value> {
    let result = empty(&TensorType::new(Type::F32, out.shape.clone()), adapter)?;
    let count = counted(out.shape.iter().product())?;
    let sizes = [count, inner_batches, rows, inner, columns, 0];
    let layout: Vec<u32> = sizes.iter().chain(steps.as_flattened()).map(|&word| word as u32).collect();
    let (after_layout, region) = after.described(&out.shape, adapter)?;
    let client = adapter.client()?;
    let dim = CubeDim::new(client, count);
    // SAFETY: threads read inside of the operands, whose sizes and steps these are, and write an element of the result each.
    unsafe {
        exact_product::launch_unchecked(
            client,
            calculate_cube_count_elemwise(client, count, dim),
            dim,
            buffer(lhs),
            buffer(rhs),
            buffer(&result),
            words(adapter, &layout)?,
            after.buffers(),
            words(adapter, &after_layout)?,
            out.dtype.bits() < 32,
            region,
        )
    };
    Ok(from_cube(out.dtype, result))
}
