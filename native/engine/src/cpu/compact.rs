//! Copies of tensors in row-major order.

use std::mem::MaybeUninit;

use burn_flex::FlexTensor;

use super::block::{build, put_all};
use super::nest::Nest;
use super::stored::{Stored, for_width, stored};

/// Rows and columns of a square that is copied at a time when rows are not in the order of the memory: few enough for the
/// lines of memory it touches to stay in the first cache.
const ROWS: usize = 16;
const COLUMNS: usize = 8;

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
    let neighbours = rows.len() == ROWS && rows.iter().enumerate().all(|(i, &(_, from))| from == rows[0].1 + i);
    for column in (0..len).step_by(COLUMNS) {
        let columns = COLUMNS.min(len - column);
        if neighbours && columns == COLUMNS {
            copy_square(source, step, rows, column, part);
            continue;
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
}

/// Copies a square whose rows start at neighbours, so that its columns are read as they lie in memory.
fn copy_square<T: Stored>(
    source: &[T],
    step: isize,
    rows: &[(usize, usize)],
    column: usize,
    part: &mut [MaybeUninit<T>],
) {
    let first = rows[0].1 as isize;
    let square: [[T; ROWS]; COLUMNS] = std::array::from_fn(|i| {
        let at = (first + step * (column + i) as isize) as usize;
        std::array::from_fn(|row| source[at..at + ROWS][row])
    });
    for (row, &(place, _)) in rows.iter().enumerate() {
        let out = &mut part[place + column..][..COLUMNS];
        (0..COLUMNS).for_each(|i| {
            out[i].write(square[i][row]);
        });
    }
}
