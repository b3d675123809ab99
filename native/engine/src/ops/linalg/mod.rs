//! Dense linear algebra over the last two axes, for each matrix of a batch.
//!
//! The decompositions are those of the `faer` crate in double precision, brought to Nx's conventions of order and sign;
//! [`defined`] says where Nx's own definitions stand instead.

mod batch;
mod cholesky;
mod defined;
mod eigh;
mod field;
mod lu;
mod qr;
mod svd;
mod triangular;

use faer::{Mat, MatRef};
use num_complex::Complex64;

use self::batch::{Batch, Decomposition, write};
use self::field::Field;
use self::lu::Lu;
use crate::error::{Error, Result};
use crate::ops::Call;
use crate::ops::autodiff::is_tracked;
use crate::program::{Linalg, QrMode, TransformA, TriangularSolve};
use crate::types::Type;
use crate::value::Value;

/// Up to this many rows, plain loops are as fast as blocks and follow Nx's conventions by themselves.
const SMALL: usize = 32;

/// Why a matrix has no result.
#[derive(Clone, Copy, Debug)]
enum Failure {
    /// A system with a zero on the diagonal of its triangular matrix.
    Singular,
    /// Right-hand sides that have not as many rows as the matrix.
    Unfit,
}

/// A decomposition, or the solution of systems.
pub(super) fn linalg(op: &Linalg, mut call: Call<'_>) -> Result<Vec<Value>> {
    let operands = match op {
        Linalg::Solve => call.args::<2>()?.to_vec(),
        _ => call.args::<1>()?.to_vec(),
    };
    check(&call, &operands, matches!(op, Linalg::Qr(_) | Linalg::Svd(_)))?;
    // The permutation of an LU decomposition has the operand's type, all other results a type for fractions.
    match call.outputs.last().map(|out| out.dtype) {
        Some(Type::C64 | Type::C128) => each::<Complex64>(&call, &operands, &|matrices| decompose(op, matrices)),
        Some(Type::F64) => each::<f64>(&call, &operands, &|matrices| decompose(op, matrices)),
        _ => each::<f64>(&call, &operands, &|matrices| defined::decompose_f32(op, matrices)),
    }
}

/// The solution of triangular systems.
pub(super) fn triangular_solve(attrs: &TriangularSolve, mut call: Call<'_>) -> Result<Vec<Value>> {
    let operands = call.args::<2>()?.to_vec();
    check(&call, &operands, false)?;
    let is_vector = operands[1].rank() < operands[0].rank();
    if call.out()?.dtype.is_complex() {
        return each::<Complex64>(&call, &operands, &|matrices| solve_triangular(attrs, is_vector, matrices));
    }
    each::<f64>(&call, &operands, &|matrices| solve_triangular(attrs, is_vector, matrices))
}

/// Refuses what is no batch of matrices, square ones unless `oblong`.
fn check(call: &Call<'_>, operands: &[Value], oblong: bool) -> Result<()> {
    if operands.iter().any(is_tracked) {
        return Err(call.invalid("has no gradient in a training step; compute it outside of the model"));
    }
    match operands[0].shape()[..] {
        [.., m, n] if m == n || oblong => Ok(()),
        ref shape => Err(call.invalid(format!("needs a batch of square matrices, got shape {shape:?}"))),
    }
}

/// The results of `f` for each matrix of a batch, or for each pair of matrices.
fn each<F: Field>(call: &Call<'_>, operands: &[Value], f: Decomposition<'_, F>) -> Result<Vec<Value>> {
    let unfit = || {
        let types: Vec<String> = operands.iter().map(|operand| operand.ty().to_string()).collect();
        call.invalid(format!("{} make no systems", types.join(" and ")))
    };
    let mut batches = vec![Batch::<F>::of_matrices(&operands[0])?];
    for operand in &operands[1..] {
        batches.push(Batch::beside(&operands[0], operand)?.ok_or_else(unfit)?);
    }
    let results = batch::map(&batches, f).map_err(|failure| match failure {
        Failure::Singular => Error::Argument { op: call.op.name(), reason: "can't solve for singular matrix".into() },
        Failure::Unfit => unfit(),
    })?;
    if results.iter().any(|made| made.len() != call.outputs.len()) {
        return Err(call.invalid(format!("makes {} results, {} declared", results[0].len(), call.outputs.len())));
    }
    call.outputs.iter().enumerate().map(|(i, out)| write(out, results.iter().map(|made| &made[i]), call)).collect()
}

/// The results for one matrix, with the right-hand sides of a system.
fn decompose<F: Field>(op: &Linalg, operands: &[MatRef<'_, F>]) -> Result<Vec<Mat<F>>, Failure> {
    let a = operands[0];
    Ok(match op {
        Linalg::Cholesky => vec![cholesky::cholesky(a)],
        Linalg::Solve => vec![Lu::new(a).solve(operands[1], |x| x)?],
        Linalg::Determinant => vec![Mat::from_fn(1, 1, |_, _| lu::determinant(a, |x| x))],
        Linalg::Qr(attrs) => qr::qr(a, attrs.mode == QrMode::Complete, attrs.eps),
        Linalg::Lu => Lu::new(a).factors().into(),
        Linalg::Eigh(_) => eigh::eigh(a),
        Linalg::Svd(attrs) => svd::svd(a, attrs.full_matrices),
    })
}

/// The `x` with `op(a) x = b`, or with `x op(a) = b`, which is `op(a)ᵀ xᵀ = bᵀ`. A vector is its own transpose.
fn solve_triangular<F: Field>(
    attrs: &TriangularSolve,
    is_vector: bool,
    operands: &[MatRef<'_, F>],
) -> Result<Vec<Mat<F>>, Failure> {
    let (a, b) = (operands[0], operands[1]);
    let conjugated = match attrs.transform_a {
        TransformA::Conjugate if F::COMPLEX => Some(Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)].conjugate())),
        _ => None,
    };
    let a = conjugated.as_ref().map_or(a, |a| a.as_ref());
    let transposed = (attrs.transform_a == TransformA::Transpose) == attrs.left_side;
    let a = if transposed { a.transpose() } else { a };
    let lower = attrs.lower != transposed;
    if attrs.left_side || is_vector {
        return Ok(vec![triangular::solve(a, lower, b.to_owned())?]);
    }
    Ok(vec![triangular::solve(a, lower, b.transpose().to_owned())?.transpose().to_owned()])
}

/// A matrix of NaN.
fn nan<F: Field>(rows: usize, columns: usize) -> Mat<F> {
    Mat::from_fn(rows, columns, |_, _| F::of(f64::NAN))
}

/// Whether there is neither NaN nor infinity, with which iterations would not end.
fn is_finite<F: Field>(a: MatRef<'_, F>) -> bool {
    (0..a.ncols()).all(|j| (0..a.nrows()).all(|i| a[(i, j)].is_number()))
}

/// Whether all below the diagonal is zero.
fn is_triangular<F: Field>(a: MatRef<'_, F>) -> bool {
    (0..a.ncols()).all(|j| (j + 1..a.nrows()).all(|i| a[(i, j)].is_zero()))
}
