//! Reading slices at places along an axis.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use burn_flex::FlexTensor;

use super::block::{build_parts, put_all};
use super::stored::{Stored, for_width, stored};
use super::tasks::CHUNK;
use super::{View, memory};
use crate::error::Result;
use crate::value::Value;

/// Elements that one task takes: what lies anywhere in memory comes slower than what lies in a row.
const PART: usize = CHUNK / 4;

/// The slices of a plain `x` at `places` along `axis`; `None` when a place is outside of it.
pub(crate) fn take(x: &Value, axis: usize, places: &Value) -> Result<Option<Value>> {
    let (x, places) = (x.clone().contiguous(), places.clone().contiguous());
    let view = View::<i64>::new(&places)?;
    let first = view.layout().start_offset();
    let places = &view[first..first + places.len()];
    let table = memory(&x)?;
    let taken = for_width!(table.dtype().size(), T => take_stored::<T>(table, axis, places));
    Ok(taken.map(|taken| Value::from_flex(x.dtype(), taken)))
}

fn take_stored<T: Stored>(table: &FlexTensor, axis: usize, places: &[i64]) -> Option<FlexTensor> {
    let mut shape = table.layout().shape().clone();
    let (slice, length) = (shape[axis + 1..].iter().product::<usize>(), shape[axis]);
    let first = table.layout().start_offset();
    let source = &bytemuck::cast_slice::<u8, T>(table.bytes())[first..];
    shape[axis] = places.len();
    let group = (PART / slice.max(1)).max(1);
    let outside = AtomicBool::new(false);
    let out = build_parts(shape.num_elements(), group * slice.max(1), &|number, mut part| {
        let mut at = number * group;
        while !part.is_empty() {
            // Up to the end of the places, which then start again in the next part of the table.
            let (block, first) = (at / places.len(), at % places.len());
            let count = (part.len() / slice).min(places.len() - first);
            let (out, rest) = part.split_at_mut(count * slice);
            let block = &source[block * length * slice..][..length * slice];
            if !take_block(block, slice, &places[first..first + count], out) {
                outside.store(true, Ordering::Relaxed);
            }
            (at, part) = (at + count, rest);
        }
    });
    (!outside.into_inner()).then(|| stored(out, shape, table.dtype()))
}

/// Copies the slices of a table at `places`; false when one is outside of it, and zeros stand for it.
pub(super) fn take_block<T: Stored>(table: &[T], slice: usize, places: &[i64], out: &mut [MaybeUninit<T>]) -> bool {
    let mut inside = true;
    if slice == 1 {
        for (out, &place) in out.iter_mut().zip(places) {
            let element = table.get(place as usize);
            inside &= element.is_some();
            out.write(element.copied().unwrap_or(T::zeroed()));
        }
        return inside;
    }
    for (out, &place) in out.chunks_exact_mut(slice).zip(places) {
        let start = (place as usize).saturating_mul(slice);
        match table.get(start..start.saturating_add(slice)) {
            Some(found) => put_all(out, found),
            None => {
                inside = false;
                out.fill(MaybeUninit::new(T::zeroed()));
            }
        }
    }
    inside
}
