//! Reading slices at places along an axis.

use std::mem::MaybeUninit;

use burn_flex::FlexTensor;

use super::block::{build_parts, put_all};
use super::nest::CHUNK;
use super::stored::{Stored, for_width, stored};
use super::{View, memory};
use crate::error::Result;
use crate::value::Value;

/// The slices of a plain `x` at `places` along `axis`, which are inside of it.
///
/// # Panics
///
/// When a place is outside of the axis.
pub(crate) fn take(x: &Value, axis: usize, places: &Value) -> Result<Value> {
    let (x, places) = (x.clone().contiguous(), places.clone().contiguous());
    let view = View::<i64>::new(&places)?;
    let first = view.layout().start_offset();
    let places = &view[first..first + places.len()];
    let table = memory(&x)?;
    let taken = for_width!(table.dtype().size(), T => take_stored::<T>(table, axis, places));
    Ok(Value::from_flex(x.dtype(), taken))
}

fn take_stored<T: Stored>(table: &FlexTensor, axis: usize, places: &[i64]) -> FlexTensor {
    let mut shape = table.layout().shape().clone();
    let (slice, length) = (shape[axis + 1..].iter().product::<usize>(), shape[axis]);
    let first = table.layout().start_offset();
    let source = &bytemuck::cast_slice::<u8, T>(table.bytes())[first..];
    shape[axis] = places.len();
    let group = (CHUNK / slice.max(1)).max(1);
    let out = build_parts(shape.num_elements(), group * slice.max(1), &|number, part| {
        let slices = (number * group..).zip(part.chunks_mut(slice.max(1)));
        let from = |at: usize| (at / places.len() * length + places[at % places.len()] as usize) * slice;
        take_part(source, slices.map(|(at, out)| (from(at), out)), slice);
    });
    stored(out, shape, table.dtype())
}

/// Copies slices from their first elements.
fn take_part<'a, T: Stored>(
    source: &[T],
    slices: impl Iterator<Item = (usize, &'a mut [MaybeUninit<T>])>,
    slice: usize,
) {
    match slice {
        1 => slices.for_each(|(from, out)| {
            out[0].write(source[from]);
        }),
        _ => slices.for_each(|(from, out)| put_all(out, &source[from..from + slice])),
    }
}
