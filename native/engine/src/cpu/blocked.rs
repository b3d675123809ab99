//! Products of matrices that run together with what is done to their rows, while these are in the cache.

use std::ops::Range;

use super::block::{vectorized, zeros};
use super::dot::{Batch, grain, in_rows};
use super::product::{Matrix, Real, multiply};
use super::tape::Rows;
use super::tasks::chunks;
use super::{Float, value};
use crate::error::Result;
use crate::value::Value;

/// Elements of a block of rows: with what they are computed to, they stay in the second cache.
const BLOCK: usize = 32 * 1024;

/// Elements of a block of a single product, which packs the right matrix again for each.
const LARGE_BLOCK: usize = 256 * 1024;

/// The region `rows` of the products of `lhs` `[.., rows, inner]` and `rhs` `[.., inner, columns]`, row by row; it makes its
/// results itself.
pub(crate) fn linear<T: Real>(lhs: &Value, rhs: &Value, rows: &Rows<'_>) -> Result<()> {
    let rhs = in_rows(rhs, lhs.shape()[lhs.rank() - 2]);
    let blocks = Blocks::<T>::new(lhs, &rhs, LARGE_BLOCK)?;
    let mut tasks = vec![(); blocks.count()];
    chunks(&mut tasks, 1, &|number, _| {
        let mut product = blocks.scratch();
        let (first, count) = blocks.product(number, &mut product);
        rows.run(first, count, bytemuck::cast_slice(&product), None);
    });
    Ok(())
}

/// The products with `values` `[.., columns, size]` of the region `rows` of the products of `lhs` `[.., rows, inner]` and `rhs`
/// `[.., inner, columns]`. The products are sums of `T`, of which the region reads and writes rows of `S`.
pub(crate) fn attend<T: Real, S: Float<Math = T>>(
    lhs: &Value,
    rhs: &Value,
    rows: &Rows<'_>,
    values: &Value,
) -> Result<Value> {
    let rhs = in_rows(rhs, lhs.shape()[lhs.rank() - 2]);
    let (blocks, values) = (Blocks::<T>::new(lhs, &rhs, BLOCK)?, Batch::<T>::new(values)?);
    let (height, columns, size) = (blocks.lhs.shape[0], blocks.columns(), values.shape[1]);
    let mut out = zeros::<T>(blocks.lhs.count() * height * size);
    let [matrices, block] = [height, blocks.rows].map(|rows| blocks.together * rows * size);
    let mut parts: Vec<&mut [T]> = out.chunks_mut(matrices).flat_map(|part| part.chunks_mut(block)).collect();
    chunks(&mut parts, 1, &|number, parts| {
        let (mut scores, mut weights) = (blocks.scratch(), blocks.scratch());
        let (first, count) = blocks.product(number, &mut scores);
        weigh::<T, S>(rows, first, &scores[..count], &mut weights[..count]);
        let (places, _, rows) = blocks.task(number);
        let weights = weights.chunks_exact(rows * columns).map(|weights| Matrix::new(weights, rows, columns, columns));
        for ((place, weights), out) in places.zip(weights).zip(parts[0].chunks_exact_mut(rows * size)) {
            multiply(out, size, weights, values.matrix(place), false);
        }
    });
    let shape: Vec<usize> = lhs.shape()[..lhs.rank() - 1].iter().copied().chain([size]).collect();
    Ok(value(&shape, out))
}

/// What the region makes of the elements from number `first` on.
fn weigh<T: Real, S: Float<Math = T>>(rows: &Rows<'_>, first: usize, scores: &[T], weights: &mut [T]) {
    let count = scores.len();
    if S::TYPE == T::TYPE {
        return rows.run(first, count, bytemuck::cast_slice(scores), Some(bytemuck::cast_slice_mut(weights)));
    }
    let (mut read, mut made) = (zeros::<S>(count), zeros::<S>(count));
    vectorized(
        #[inline(always)]
        || read.iter_mut().zip(scores).for_each(|(read, &score)| *read = S::round_from(score)),
    );
    rows.run(first, count, bytemuck::cast_slice(&read), Some(bytemuck::cast_slice_mut(&mut made)));
    vectorized(
        #[inline(always)]
        || weights.iter_mut().zip(&made).for_each(|(weight, made)| *weight = made.math()),
    );
}

/// Products of matrices, cut in blocks of rows.
struct Blocks<'a, T> {
    lhs: Batch<'a, T>,
    rhs: Batch<'a, T>,
    /// Rows of a block.
    rows: usize,
    /// Matrices of a block: several where they are small, so that they share its buffers.
    together: usize,
}

impl<'a, T: Real> Blocks<'a, T> {
    fn new(lhs: &'a Value, rhs: &'a Value, block: usize) -> Result<Self> {
        let (lhs, rhs) = (Batch::<T>::new(lhs)?, Batch::<T>::new(rhs)?);
        let ([height, inner], columns) = (lhs.shape, rhs.shape[1]);
        let rows = (block / columns).clamp(16, 512) / 16 * 16;
        let matrix = height * columns;
        let together =
            if rows < height { 1 } else { (block / matrix).min(grain(height) / (matrix * inner.max(1))).max(1) };
        Ok(Self { rows: rows.min(height), together, lhs, rhs })
    }

    fn columns(&self) -> usize {
        self.rhs.shape[1]
    }

    /// Blocks of a matrix.
    fn each(&self) -> usize {
        self.lhs.shape[0].div_ceil(self.rows)
    }

    fn count(&self) -> usize {
        self.lhs.count().div_ceil(self.together) * self.each()
    }

    fn scratch(&self) -> Vec<T> {
        zeros(self.together * self.rows * self.columns())
    }

    /// The matrices of a block, its first row in each, and how many rows there are in each.
    fn task(&self, number: usize) -> (Range<usize>, usize, usize) {
        let (place, first) = (number / self.each() * self.together, number % self.each() * self.rows);
        let last = self.lhs.count().min(place + self.together);
        (place..last, first, self.rows.min(self.lhs.shape[0] - first))
    }

    /// Computes a block; answers the number of its first element among those of all matrices, and how many there are.
    fn product(&self, number: usize, out: &mut [T]) -> (usize, usize) {
        let ((places, first, rows), columns) = (self.task(number), self.columns());
        let (start, count) = ((places.start * self.lhs.shape[0] + first) * columns, places.len() * rows * columns);
        for (place, out) in places.zip(out.chunks_exact_mut(rows * columns)) {
            multiply(out, columns, self.lhs.matrix(place).part(first, rows), self.rhs.matrix(place), false);
        }
        (start, count)
    }
}
