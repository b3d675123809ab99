//! Products of batches of matrices.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::block::vectorized;
use super::crew::{share, threads};
use super::few_rows::FewRows;
use super::product::{GEMM_ROWS, Matrix, ORDERED_ROWS, Real, Target};
use super::tasks::{CHUNK, chunks};
use super::{View, value};
use crate::error::Result;
use crate::value::Value;

/// Products of two numbers that are worth a task of their own.
const GRAIN: usize = 1 << 20;

/// [`GRAIN`] for products of so many rows: of few rows, the time is that of reading the other matrix.
pub(super) fn grain(rows: usize) -> usize {
    GRAIN / 64 * rows.clamp(1, 64)
}

/// Fewest rows of a result that a task computes, because each task brings the whole right matrix in order.
const ROWS: usize = 64;

/// Most tasks that share the lines of a matrix.
const LINE_TASKS: usize = 8;

/// Fewest lines of such a task, where it has several rows to multiply.
const LINES: usize = 192;

/// Columns from which on a part of them is long enough to be read as fast as whole lines.
const LONG: usize = 1024;

/// Lines of a left matrix, which are its columns, from which on `gemm` takes longer to read across them than it takes to bring
/// them in order, where the matrix is not small and the product's rows are [`WIDE`].
const DEEP: usize = 128;

/// Columns of a product that are worth a copy of another operand.
const WIDE: usize = 256;

/// Elements of `f32` in the longest vectors.
const VECTOR: usize = 16;

/// Columns of a task are a multiple of this, a line of the cache or more.
const COLUMNS: usize = 64;

/// The products of `lhs` `[.., rows, inner]` and `rhs` `[.., inner, columns]`, plain values with the same batch axes.
pub(crate) fn matmul<T: Real>(lhs: &Value, rhs: &Value) -> Result<Value> {
    if is_for_turning(lhs, rhs) {
        return Ok(matmul::<T>(&rhs.clone().turned(), &lhs.clone().turned())?.turned().contiguous());
    }
    let ([rows, inner], columns) = sizes(lhs, rhs);
    let is_wide = rows >= GEMM_ROWS && columns >= WIDE;
    let lhs = if is_wide && inner >= DEEP && rows * inner > CHUNK { in_rows(lhs, columns) } else { lhs.clone() };
    let rhs = in_rows(rhs, rows);
    let (left, right) = (Batch::<T>::new(&lhs)?, Batch::<T>::new(&rhs)?);
    let count = left.count();
    let matrix = rows * columns;
    let mut out = Vec::with_capacity(count * matrix);
    let places = &mut out.spare_capacity_mut()[..count * matrix];
    let is_small = is_small(rows, inner, columns);
    let tasks = if is_small || count == 0 { 1 } else { line_tasks(&left.matrix(0), &right.matrix(0)) };
    // By lines or not: how an element is summed does not depend on the number of threads.
    if is_small || tasks == 1 && count >= 2 * threads() {
        let together = (grain(rows) / (matrix * inner).max(1)).max(1);
        chunks(places, together * matrix, &|number, part| {
            for (i, out) in part.chunks_exact_mut(matrix.max(1)).enumerate() {
                let place = number * together + i;
                fill(out, left.matrix(place), right.matrix(place));
            }
        });
    } else {
        for (place, out) in places.chunks_exact_mut(matrix).enumerate() {
            let (left, right) = (left.matrix(place), right.matrix(place));
            if tasks > 1 { by_lines(out, left, right, tasks) } else { large(out, left, right, rows, columns) }
        }
    }
    // SAFETY: each matrix of the result is written.
    unsafe { out.set_len(count * matrix) };
    let shape: Vec<usize> = lhs.shape()[..lhs.rank() - 1].iter().copied().chain([columns]).collect();
    Ok(value(&shape, out))
}

/// The product of few rows by a matrix, and matrices of its shape, added up in registers; `None` where other ways to multiply are
/// faster.
pub(crate) fn matmul_onto<T: Real>(lhs: &Value, rhs: &Value, addends: &[Value]) -> Result<Option<Value>> {
    let ([rows, inner], columns) = sizes(lhs, rhs);
    let fits = lhs.rank() == 2 && (2..GEMM_ROWS).contains(&rows) && columns > 0 && columns.is_multiple_of(VECTOR);
    if !fits {
        return Ok(None);
    }
    let (left, right) = (Batch::<T>::new(lhs)?, Batch::<T>::new(rhs)?);
    let (left, right) = (left.matrix(0), right.matrix(0));
    let addends = addends.iter().map(Batch::<T>::new).collect::<Result<Vec<_>>>()?;
    let addends: Vec<Matrix<'_, T>> = addends.iter().map(|addend| addend.matrix(0)).collect();
    let are_lines = FewRows::fits(&left, &right) && addends.iter().all(Matrix::is_in_rows);
    if !are_lines || line_tasks(&left, &right) > 1 {
        return Ok(None);
    }
    let mut out = Vec::with_capacity(rows * columns);
    let part = if is_small(rows, inner, columns) { columns } else { part_of_columns(rows, columns) };
    by_columns(&mut out.spare_capacity_mut()[..rows * columns], left, right, &addends, part);
    // SAFETY: the product is written.
    unsafe { out.set_len(rows * columns) };
    Ok(Some(value(&[rows, columns], out)))
}

/// Whether one thread is soon done with a product.
fn is_small(rows: usize, inner: usize, columns: usize) -> bool {
    rows * columns * inner < GRAIN / 8 * rows.clamp(1, 16)
}

/// Rows and columns of the left matrices, and columns of the right ones.
fn sizes(lhs: &Value, rhs: &Value) -> ([usize; 2], usize) {
    let (left, right) = (lhs.shape(), rhs.shape());
    ([left[left.len() - 2], left[left.len() - 1]], right[right.len() - 1])
}

/// An operand with its rows as lines of memory, when it meets enough rows or columns of the other one to be worth a copy: each
/// task reads across the lines if they are its columns.
pub(super) fn in_rows(value: &Value, meets: usize) -> Value {
    let is_transposed = value.flex().is_some_and(|tensor| {
        let strides = tensor.layout().strides();
        strides[strides.len() - 1] != 1 && !strides.contains(&0)
    });
    if is_transposed && meets >= ORDERED_ROWS { value.clone().contiguous() } else { value.clone() }
}

/// Whether the columns of the right operand are lines of memory, and the left one and the product are so small that it is
/// better to transpose these.
fn is_for_turning(lhs: &Value, rhs: &Value) -> bool {
    let ([rows, inner], columns) = sizes(lhs, rhs);
    let are_lines = rhs.flex().is_some_and(|tensor| {
        let strides = tensor.layout().strides();
        strides[strides.len() - 2] == 1 && strides[strides.len() - 1] >= inner as isize
    });
    // The rows become columns, which are computed by whole vectors.
    let are_few = rows < GEMM_ROWS && rows.is_multiple_of(VECTOR);
    are_lines && are_few && columns >= WIDE && 2 * rows * (inner + columns) < inner * columns
}

/// One product in memory that is as large as it.
fn fill<T: Real>(out: &mut [MaybeUninit<T>], lhs: Matrix<'_, T>, rhs: Matrix<'_, T>) {
    let target = Target::fresh(out, lhs.rows(), rhs.columns());
    // SAFETY: the target is all there is.
    unsafe { target.write(0, lhs, rhs, false) };
}

/// The fewest rows that a part of a product may have when there are `columns`, or the other way round. `gemm` sums in another
/// order where there is one row, where rows times columns are at most 256, and where neither are more than 64.
fn fewest(columns: usize) -> usize {
    if columns > 64 { 16 } else { 65.max(256 / columns + 1) }
}

/// The length of parts of `whole` rows or columns: at least `least`, a multiple of `unit`, and none of less than `fewest`, so
/// that all are summed as the whole is.
fn length(whole: usize, least: usize, unit: usize, fewest: usize) -> usize {
    let is_right = |part: &usize| matches!(whole % part, rest if rest == 0 || rest >= fewest);
    let first = least.max(fewest).next_multiple_of(unit);
    (first..whole).step_by(unit).find(is_right).unwrap_or(whole)
}

/// One product on all cores. Each element is summed alike however the rows or columns are shared out.
fn large<T: Real>(out: &mut [MaybeUninit<T>], lhs: Matrix<'_, T>, rhs: Matrix<'_, T>, rows: usize, columns: usize) {
    if rows < 2 * ROWS {
        return by_columns(out, lhs, rhs, &[], part_of_columns(rows, columns));
    }
    // Two shares for each thread, so that none waits long for the last; but a small product is soon done.
    let shares = if rows * columns * lhs.columns() < 64 * GRAIN { threads() } else { 2 * threads() };
    let share = length(rows, rows.div_ceil(shares).max(ROWS), 16, fewest(columns).max(GEMM_ROWS));
    chunks(out, share * columns, &|number, part| {
        let count = part.len() / columns;
        fill(part, lhs.part(number * share, count), rhs);
    });
}

/// The tasks of [`by_lines`]; 1 where that is no way to go: adding up what they make is to take a fraction of the time.
fn line_tasks<T: Real>(lhs: &Matrix<'_, T>, rhs: &Matrix<'_, T>) -> usize {
    match lhs.columns() / LINES.max(6 * lhs.rows()) {
        _ if !rhs.is_in_rows() => 1,
        _ if lhs.rows() == 1 => LINE_TASKS,
        0 => 1,
        _ if !lhs.is_in_rows() || lhs.rows() >= GEMM_ROWS || rhs.columns() >= LONG => 1,
        most => LINE_TASKS.min(1 << most.ilog2()),
    }
}

/// Few rows by a matrix that is read in the order of the memory: each task multiplies some of its lines, for all columns.
/// So a core reads of parameters what it wrote when they were trained. The number of tasks depends on the sizes alone, and
/// so does the sum.
fn by_lines<T: Real>(out: &mut [MaybeUninit<T>], lhs: Matrix<'_, T>, rhs: Matrix<'_, T>, tasks: usize) {
    let inner = lhs.columns();
    let part = inner.div_ceil(tasks).next_multiple_of(8);
    let len = inner.div_ceil(part) * out.len();
    let mut sums = Vec::with_capacity(len);
    chunks(&mut sums.spare_capacity_mut()[..len], out.len(), &|number, sums| {
        let (first, count) = (number * part, part.min(inner - number * part));
        fill(sums, lhs.across(first, count), rhs.part(first, count));
    });
    // SAFETY: each task has written its product.
    unsafe { sums.set_len(len) };
    let (first, others) = sums.split_at_mut(out.len());
    for sums in others.chunks_exact(out.len()) {
        vectorized(
            #[inline(always)]
            || first.iter_mut().zip(sums).for_each(|(sum, &part)| *sum = *sum + part),
        );
    }
    out.write_copy_of_slice(first);
}

/// How many columns of few rows a task computes.
fn part_of_columns(rows: usize, columns: usize) -> usize {
    let least = columns.div_ceil(threads());
    // A single row is not multiplied by `gemm`.
    if rows == 1 { least.next_multiple_of(COLUMNS) } else { length(columns, least, COLUMNS, fewest(rows)) }
}

/// Few rows: each task computes `part` columns of all, and adds to them what is added.
fn by_columns<T: Real>(
    out: &mut [MaybeUninit<T>],
    lhs: Matrix<'_, T>,
    rhs: Matrix<'_, T>,
    addends: &[Matrix<'_, T>],
    part: usize,
) {
    let columns = rhs.columns();
    let target = Target::fresh(out, lhs.rows(), columns);
    let next = AtomicUsize::new(0);
    share(threads().min(columns.div_ceil(part)) - 1, &|| {
        loop {
            let first = next.fetch_add(part, Ordering::Relaxed);
            if first >= columns {
                return;
            }
            let count = part.min(columns - first);
            let rhs = rhs.across(first, count);
            // SAFETY: each number is taken once, so each column is written by one thread.
            unsafe {
                match addends {
                    [] => target.write(first, lhs, rhs, false),
                    _ => {
                        let addends: Vec<_> = addends.iter().map(|addend| addend.across(first, count)).collect();
                        target.write_onto(first, lhs, rhs, &addends);
                    }
                }
            };
        }
    });
}

/// Matrices along the axes before the last two.
pub(super) struct Batch<'a, T> {
    view: View<'a, T>,
    batch: Vec<(usize, isize)>,
    pub(super) shape: [usize; 2],
    steps: [isize; 2],
}

impl<'a, T: Real> Batch<'a, T> {
    pub(super) fn new(value: &'a Value) -> Result<Self> {
        let view = View::new(value)?;
        let axis = |axis: usize| (view.layout().shape()[axis], view.layout().strides()[axis]);
        let rank = value.rank();
        let [rows, columns] = [axis(rank - 2), axis(rank - 1)];
        let batch = (0..rank - 2).map(axis).collect();
        Ok(Self { batch, shape: [rows.0, columns.0], steps: [rows.1, columns.1], view })
    }

    /// How many matrices there are.
    pub(super) fn count(&self) -> usize {
        self.batch.iter().map(|&(length, _)| length).product()
    }

    /// The matrix of this number.
    pub(super) fn matrix(&self, mut number: usize) -> Matrix<'_, T> {
        let mut start = self.view.layout().start_offset();
        for &(length, step) in self.batch.iter().rev() {
            start = start.wrapping_add_signed((number % length) as isize * step);
            number /= length;
        }
        Matrix::strided(&self.view, start, self.shape, self.steps)
    }
}
