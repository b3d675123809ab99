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
use crate::ops::autodiff::is_tracked;
use crate::ops::{Call, check, memory};
use crate::program::{Linalg, Qr, QrMode, Svd, TransformA, TriangularSolve};
use crate::types::Type;
use crate::value::Value;

/// Up to this many rows, plain loops are as fast as blocks and follow Nx's conventions by themselves.
const SMALL: usize = 32;

/// The rounding of the elements of `f32` matrices.
const SINGLE: f64 = f32::EPSILON as f64;

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
    let (m, n) = matrix(&call, &operands)?;
    if m != n && !matches!(op, Linalg::Qr(_) | Linalg::Svd(_)) {
        return Err(call.invalid(format!("needs square matrices, got {}", operands[0].ty())));
    }
    if *op == Linalg::Solve {
        check::result_shape(&call, &operands[1].shape())?;
    } else {
        check_results(&call, &operands[0], &shapes(op, m, n))?;
    }
    // The permutation of an LU decomposition has the operand's type, all other results a type for fractions.
    match call.outputs.last().map(|out| out.dtype) {
        Some(Type::C64) => each::<Complex64>(&call, &operands, &|matrices| decompose(op, matrices, SINGLE)),
        Some(Type::C128) => each::<Complex64>(&call, &operands, &|matrices| decompose(op, matrices, f64::EPSILON)),
        Some(Type::F64) => each::<f64>(&call, &operands, &|matrices| decompose(op, matrices, f64::EPSILON)),
        _ => each::<f64>(&call, &operands, &|matrices| defined::decompose_f32(op, matrices)),
    }
}

/// The solution of triangular systems.
pub(super) fn triangular_solve(attrs: &TriangularSolve, mut call: Call<'_>) -> Result<Vec<Value>> {
    let operands = call.args::<2>()?.to_vec();
    let (m, n) = matrix(&call, &operands)?;
    if m != n {
        return Err(call.invalid(format!("needs square matrices, got {}", operands[0].ty())));
    }
    check::result_shape(&call, &operands[1].shape())?;
    let is_vector = operands[1].rank() < operands[0].rank();
    if call.out()?.dtype.is_complex() {
        return each::<Complex64>(&call, &operands, &|matrices| solve_triangular(attrs, is_vector, matrices));
    }
    each::<f64>(&call, &operands, &|matrices| solve_triangular(attrs, is_vector, matrices))
}

/// Rows and columns of the first operand's matrices.
fn matrix(call: &Call<'_>, operands: &[Value]) -> Result<(usize, usize)> {
    if operands.iter().any(is_tracked) {
        return Err(call.invalid("has no gradient on the tape of a training step; give gradients: :symbolic, or compute it outside of the model"));
    }
    match operands[0].shape()[..] {
        [.., m, n] => Ok((m, n)),
        _ => Err(call.invalid(format!("needs a batch of matrices, got {}", operands[0].ty()))),
    }
}

/// Shapes of what a decomposition makes of an `m` x `n` matrix.
fn shapes(op: &Linalg, m: usize, n: usize) -> Vec<Vec<usize>> {
    let k = m.min(n);
    match op {
        Linalg::Cholesky | Linalg::Solve => vec![vec![n, n]],
        Linalg::Determinant => vec![vec![]],
        Linalg::Lu => vec![vec![n, n]; 3],
        Linalg::Eigh(_) => vec![vec![n], vec![n, n]],
        Linalg::Qr(Qr { mode: QrMode::Complete, .. }) => vec![vec![m, m], vec![m, n]],
        Linalg::Qr(_) => vec![vec![m, k], vec![k, n]],
        Linalg::Svd(Svd { full_matrices: true, .. }) => vec![vec![m, m], vec![k], vec![n, n]],
        Linalg::Svd(_) => vec![vec![m, k], vec![k], vec![k, n]],
    }
}

/// Refuses declared results other than those of the given shapes, for each matrix of `a`, before memory is spent on them.
fn check_results(call: &Call<'_>, a: &Value, shapes: &[Vec<usize>]) -> Result<()> {
    let batch = &a.shape()[..a.rank() - 2];
    let made: Vec<Vec<usize>> = shapes.iter().map(|shape| [batch, shape].concat()).collect();
    let declared: Vec<&[usize]> = call.outputs.iter().map(|out| &out.shape[..]).collect();
    if made != declared {
        return Err(call.invalid(format!("makes results of shapes {made:?}, not {declared:?}")));
    }
    // In double precision, as the crate makes it and as the tensor holds it.
    let element = 2 * size_of::<Complex64>();
    memory::ensure(call, made.iter().map(|shape| memory::bytes(shape, element)).max().unwrap_or_default())
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
    // Where more are declared, the caller says so.
    let made = results.first().map_or(call.outputs.len(), Vec::len);
    call.outputs.iter().take(made).enumerate().map(|(i, out)| write(out, results.iter().map(|made| &made[i]))).collect()
}

/// The results for one matrix whose elements are rounded by `epsilon`, with the right-hand sides of a system.
fn decompose<F: Field>(op: &Linalg, operands: &[MatRef<'_, F>], epsilon: f64) -> Result<Vec<Mat<F>>, Failure> {
    let a = operands[0];
    Ok(match op {
        Linalg::Cholesky => vec![cholesky::cholesky(a)],
        Linalg::Solve => vec![Lu::new(a).solve(operands[1], |x| x)?],
        Linalg::Determinant => vec![Mat::from_fn(1, 1, |_, _| lu::determinant(a, |x| x))],
        Linalg::Qr(attrs) => qr::qr(a, attrs.mode == QrMode::Complete, attrs.eps),
        Linalg::Lu => Lu::new(a).factors().into(),
        Linalg::Eigh(_) => eigh::eigh(a),
        Linalg::Svd(attrs) => svd::svd(a, attrs.full_matrices, epsilon),
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
