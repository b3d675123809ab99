//! Copies of tensors in row-major order.

use std::array::from_fn;
use std::mem::MaybeUninit;

use burn_flex::FlexTensor;

use super::block::{build_parts, put_all, vectorized};
use super::nest::Nest;
use super::stored::{Stored, for_width, stored};
use super::tasks::CHUNK;
use super::turn::SIDE;

/// Rows that are copied together, so that neighbouring lines of memory are read one after the other.
const ROWS: usize = 4 * SIDE;

/// The same elements side by side in row-major order, in new memory.
pub(crate) fn compact(tensor: &FlexTensor) -> FlexTensor {
    for_width!(tensor.dtype().size(), T => copy::<T>(tensor))
}

fn copy<T: Stored>(tensor: &FlexTensor) -> FlexTensor {
    let (source, layout) = (bytemuck::cast_slice::<u8, T>(tensor.bytes()), tensor.layout());
    let nest = Nest::new([layout]);
    let (len, size) = (layout.num_elements(), part(&nest, layout.num_elements()));
    let out = build_parts(len, size, &|number, part| copy_part(source, &nest, number * size, part));
    stored(out, layout.shape().clone(), tensor.dtype())
}

/// Elements of a task, of `len`: fewer where each is read from another line, and then whole squares if these are no larger.
fn part(nest: &Nest<1>, len: usize) -> usize {
    if nest.step() == [1] {
        return CHUNK.max(len / 8);
    }
    let square = (nest.row() * SIDE).max(1);
    if square <= CHUNK { (CHUNK / 4).max(len / 8).next_multiple_of(square) } else { CHUNK.max(len / 8) }
}

/// The elements from number `first` on.
fn copy_part<T: Stored>(source: &[T], nest: &Nest<1>, first: usize, part: &mut [MaybeUninit<T>]) {
    let ([step], len) = (nest.step(), nest.row());
    let mut rows: Vec<(usize, usize)> = Vec::with_capacity(ROWS);
    nest.visit(first..first + part.len(), &mut |at, count, [from]| {
        let place = at - first;
        if step == 1 {
            return put_all(&mut part[place..place + count], &source[from..from + count]);
        }
        if step == 0 {
            return part[place..place + count].fill(MaybeUninit::new(source[from]));
        }
        if count < len {
            return copy_rows(source, step, &[(place, from)], count, part);
        }
        rows.push((place, from));
        if rows.len() == ROWS {
            copy_rows(source, step, &rows, len, part);
            rows.clear();
        }
    });
    copy_rows(source, step, &rows, len, part);
}

/// Copies rows of `len` elements that lie `step` apart, each to a place from another.
fn copy_rows<T: Stored>(source: &[T], step: isize, rows: &[(usize, usize)], len: usize, part: &mut [MaybeUninit<T>]) {
    for column in (0..len).step_by(SIDE) {
        let columns = SIDE.min(len - column);
        for rows in rows.chunks(SIDE) {
            copy_columns(source, step, rows, column, columns, part);
        }
    }
}

/// Copies some columns of at most [`SIDE`] rows.
fn copy_columns<T: Stored>(
    source: &[T],
    step: isize,
    rows: &[(usize, usize)],
    column: usize,
    columns: usize,
    part: &mut [MaybeUninit<T>],
) {
    if columns == SIDE
        && let Some(rows) = neighbours(rows)
    {
        return copy_square(source, step, rows, column, part);
    }
    for &(place, from) in rows {
        let out = &mut part[place + column..][..columns];
        let mut at = from as isize + step * column as isize;
        for out in out {
            out.write(source[at as usize]);
            at += step;
        }
    }
}

/// The rows, when there are as many as in a square and they start at neighbours.
fn neighbours(rows: &[(usize, usize)]) -> Option<&[(usize, usize); SIDE]> {
    let rows: &[_; SIDE] = rows.try_into().ok()?;
    rows.iter().enumerate().all(|(i, &(_, from))| from == rows[0].1 + i).then_some(rows)
}

/// Copies a square, whose columns are read as they lie in memory.
fn copy_square<T: Stored>(
    source: &[T],
    step: isize,
    rows: &[(usize, usize); SIDE],
    column: usize,
    part: &mut [MaybeUninit<T>],
) {
    let first = rows[0].1 as isize;
    vectorized(
        #[inline(always)]
        || {
            let square: [[T; SIDE]; SIDE] = from_fn(|i| {
                let at = (first + step * (column + i) as isize) as usize;
                source[at..at + SIDE].try_into().unwrap_or_default()
            });
            T::turn(
                &square,
                #[inline(always)]
                |row, i, piece| put_all(&mut part[rows[row].0 + column + i..][..piece.len()], piece),
            );
        },
    );
}
