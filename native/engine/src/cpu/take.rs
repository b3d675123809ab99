//! Reading slices at places along an axis.

use std::mem::MaybeUninit;

use burn_flex::FlexTensor;

use super::block::{build_parts, put_all};
use super::stored::{Stored, for_width, stored};
use super::tasks::CHUNK;
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
    let out = build_parts(shape.num_elements(), group * slice.max(1), &|number, mut part| {
        let mut at = number * group;
        while !part.is_empty() {
            // Up to the end of the places, which then start again in the next part of the table.
            let (block, first) = (at / places.len(), at % places.len());
            let count = (part.len() / slice).min(places.len() - first);
            let (out, rest) = part.split_at_mut(count * slice);
            take_block(&source[block * length * slice..], slice, &places[first..first + count], out);
            (at, part) = (at + count, rest);
        }
    });
    stored(out, shape, table.dtype())
}

/// Copies the slices of a table at `places`.
fn take_block<T: Stored>(table: &[T], slice: usize, places: &[i64], out: &mut [MaybeUninit<T>]) {
    if slice == 1 {
        out.iter_mut().zip(places).for_each(|(out, &place)| {
            out.write(table[place as usize]);
        });
    } else {
        let slices = out.chunks_exact_mut(slice).zip(places);
        slices.for_each(|(out, &place)| put_all(out, &table[place as usize * slice..][..slice]));
    }
}
