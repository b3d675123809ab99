//! Tensors as batches of matrices.

use faer::{Mat, MatRef};
use rayon::prelude::*;

use super::Failure;
use super::field::Field;
use crate::cpu::{self, View};
use crate::error::Result;
use crate::ops::cast;
use crate::types::TensorType;
use crate::value::Value;

/// The results for one matrix, with the right-hand sides of a system.
pub(super) type Decomposition<'a, F> = &'a (dyn Fn(&[MatRef<'_, F>]) -> Result<Vec<Mat<F>>, Failure> + Sync);

/// Matrices of one size, one after the other in row-major order.
pub(super) struct Batch<F> {
    elements: Vec<F>,
    count: usize,
    rows: usize,
    columns: usize,
}

impl<F: Field> Batch<F> {
    /// The last two axes of `value` as matrices.
    pub(super) fn of_matrices(value: &Value) -> Result<Self> {
        let shape = value.shape();
        let (batch, matrix) = shape.split_at(shape.len() - 2);
        Ok(Self { elements: elements(value)?, count: batch.iter().product(), rows: matrix[0], columns: matrix[1] })
    }

    /// The right-hand sides `value` of systems of the matrices `a`: a matrix for each, or a vector, which is taken as a
    /// column. `None` when there is not one for each.
    pub(super) fn beside(a: &Value, value: &Value) -> Result<Option<Self>> {
        let (of, shape) = (a.shape(), value.shape());
        let batch = &of[..of.len() - 2];
        let matrix = match shape.strip_prefix(batch) {
            Some(&[rows]) => [rows, 1],
            Some(&[rows, columns]) => [rows, columns],
            _ => return Ok(None),
        };
        let [rows, columns] = matrix;
        Ok(Some(Self { elements: elements(value)?, count: batch.iter().product(), rows, columns }))
    }

    fn matrix(&self, number: usize) -> MatRef<'_, F> {
        let size = self.rows * self.columns;
        MatRef::from_row_major_slice(&self.elements[number * size..][..size], self.rows, self.columns)
    }
}

/// The elements of a value in row-major order.
fn elements<F: Field>(value: &Value) -> Result<Vec<F>> {
    let value = cast(value.clone(), F::TYPE)?.contiguous();
    Ok(View::<F>::new(&value)?[..value.len()].to_vec())
}

/// `f` of the first matrices of all batches, of the second ones and so on.
pub(super) fn map<F: Field>(batches: &[Batch<F>], f: Decomposition<'_, F>) -> Result<Vec<Vec<Mat<F>>>, Failure> {
    // Matrices that one thread takes at once, so that it has something to do.
    const ELEMENTS: usize = 4096;
    let one = |number: usize| {
        let matrices: Vec<MatRef<'_, F>> = batches.iter().map(|batch| batch.matrix(number)).collect();
        f(&matrices)
    };
    let Batch { count, rows, columns, .. } = batches[0];
    let together = ELEMENTS / (rows * columns).max(1) + 1;
    if count <= together {
        return (0..count).map(one).collect();
    }
    (0..count).into_par_iter().with_min_len(together).map(one).collect()
}

/// A tensor of the declared type from the matrices of a batch.
pub(super) fn write<'a, F: Field>(out: &TensorType, matrices: impl Iterator<Item = &'a Mat<F>>) -> Result<Value> {
    let mut elements = Vec::new();
    for matrix in matrices {
        for i in 0..matrix.nrows() {
            elements.extend((0..matrix.ncols()).map(|j| matrix[(i, j)]));
        }
    }
    cast(cpu::value(&out.shape, elements), out.dtype)
}
