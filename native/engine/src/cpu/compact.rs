//! Copies of tensors in row-major order.

use std::array::from_fn;
use std::mem::MaybeUninit;

use burn_flex::FlexTensor;

use super::block::{build, put_all, vectorized};
use super::nest::Nest;
use super::stored::{Stored, for_width, stored};
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
    let out = build(layout.num_elements(), &|first, part| copy_part(source, &nest, first, part));
    stored(out, layout.shape().clone(), tensor.dtype())
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
                from_fn(|row| source[at..at + SIDE][row])
            });
            T::turn(
                &square,
                #[inline(always)]
                |row, i, piece| put_all(&mut part[rows[row].0 + column + i..][..piece.len()], piece),
            );
        },
    );
}
