//! Regions that read a table, or of which elements are taken, while they are in the cache.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use super::block::{build_parts, zeros};
use super::stored::{Stored, for_width, stored};
use super::take::take_block;
use super::tape::Rows;
use super::tasks::chunks;
use super::{View, memory};
use crate::error::Result;
use crate::types::Type;
use crate::value::Value;

/// Elements of a block: with what they are computed to, they stay in the second cache.
const BLOCK: usize = 16 * 1024;

/// The region `rows` of the slices of a plain table at `places` along its first axis; it makes its results itself. False when
/// a place is outside of the table.
pub(crate) fn take_rows(table: &Value, places: &Value, rows: &Rows<'_>) -> Result<bool> {
    let table = table.clone().contiguous();
    let slice = table.shape()[1..].iter().product();
    let tensor = memory(&table)?;
    with_places(places, |places| {
        for_width!(table.dtype().size(), T => {
            let source = bytemuck::cast_slice::<u8, T>(tensor.bytes());
            take_stored(&source[tensor.layout().start_offset()..], slice, places, rows)
        })
    })
}

fn take_stored<T: Stored>(table: &[T], slice: usize, places: &[i64], rows: &Rows<'_>) -> bool {
    let each = (BLOCK / slice).max(1);
    let outside = AtomicBool::new(false);
    let mut tasks = vec![(); places.len().div_ceil(each)];
    chunks(&mut tasks, 1, &|number, _| {
        let places = &places[number * each..places.len().min((number + 1) * each)];
        let mut slices: Vec<T> = Vec::with_capacity(places.len() * slice);
        let len = places.len() * slice;
        if !take_block(table, slice, places, &mut slices.spare_capacity_mut()[..len]) {
            outside.store(true, Ordering::Relaxed);
        }
        // SAFETY: a slice, or zeros, is written for each place.
        unsafe { slices.set_len(len) };
        rows.run(number * each * slice, len, bytemuck::cast_slice(&slices), None);
    });
    !outside.into_inner()
}

/// The elements of the region `rows`, whose result is of this type and has `count` rows of `length` elements, at `places`: as
/// many of each row. `None` when a place is outside of its row.
pub(crate) fn pick(rows: &Rows<'_>, dtype: Type, size: [usize; 2], places: &Value) -> Result<Option<Value>> {
    with_places(places, |places| {
        let shape = vec![places.len()].into();
        let picked = for_width!(dtype.size(), T => {
            pick_stored::<T>(rows, size, places).map(|out| stored(out, shape, dtype.storage()))
        });
        picked.map(|picked| Value::from_flex(dtype, picked))
    })
}

fn pick_stored<T: Stored>(rows: &Rows<'_>, [count, length]: [usize; 2], places: &[i64]) -> Option<Vec<T>> {
    let (picks, block) = (places.len() / count, (BLOCK / length).max(1));
    let outside = AtomicBool::new(false);
    let out = build_parts(places.len(), block * picks, &|number, out: &mut [MaybeUninit<T>]| {
        let len = out.len() / picks * length;
        let mut elements = zeros::<T>(len);
        rows.run(number * block * length, len, &[], Some(bytemuck::cast_slice_mut(&mut elements)));
        let places = &places[number * block * picks..][..out.len()];
        let lines = elements.chunks_exact(length).zip(places.chunks_exact(picks));
        for ((row, places), out) in lines.zip(out.chunks_exact_mut(picks)) {
            if !take_block(row, 1, places, out) {
                outside.store(true, Ordering::Relaxed);
            }
        }
    });
    (!outside.into_inner()).then_some(out)
}

/// Calls a function with a line of places.
fn with_places<R>(places: &Value, run: impl FnOnce(&[i64]) -> R) -> Result<R> {
    let places = places.clone().contiguous();
    let view = View::<i64>::new(&places)?;
    let first = view.layout().start_offset();
    Ok(run(&view[first..first + places.len()]))
}
