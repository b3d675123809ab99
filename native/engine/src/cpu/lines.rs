//! Kernels that see one whole line of elements along an axis.

use super::block::{build_parts, zeroed};
use super::tasks::CHUNK;
use super::{Cell, View, value};
use crate::error::Result;
use crate::value::Value;

/// Fills one line from the operands' lines; called through a pointer, so that the moving of axes is compiled once.
type LineFn<'a, T, R, const N: usize> = &'a (dyn Fn([&[T]; N], &mut [R]) + Sync);

/// `f` of each line along `axis` of operands of one type and shape; it fills a line of length `len`.
pub(crate) fn lines<T: Cell, R: Cell, const N: usize>(
    operands: [&Value; N],
    axis: usize,
    len: usize,
    f: LineFn<'_, T, R, N>,
) -> Result<Value> {
    let rank = operands[0].rank();
    let to_last: Vec<usize> = (0..rank).filter(|&i| i != axis).chain([axis]).collect();
    let moved = operands.map(|operand| operand.clone().permute(&to_last).contiguous());
    let mut shape = moved[0].shape();
    let width = std::mem::replace(&mut shape[rank - 1], len);
    let sources = moved.iter().map(View::<T>::new).collect::<Result<Vec<_>>>()?;
    let group = (CHUNK / width.max(1)).max(1);
    let out = build_parts(shape.iter().product(), len.max(1) * group, &|i, part| {
        for (j, line) in part.chunks_mut(len.max(1)).enumerate() {
            let first = (i * group + j) * width;
            f(std::array::from_fn(|k| &sources[k][first..first + width]), zeroed(line));
        }
    });
    let back: Vec<usize> = (0..rank)
        .map(|i| {
            if i < axis {
                i
            } else if i == axis {
                rank - 1
            } else {
                i - 1
            }
        })
        .collect();
    Ok(value(&shape, out).permute(&back))
}
