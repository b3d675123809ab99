//! Products on a GPU: of `f32` by Burn's kernels, of others as folds.

use burn_backend::Shape;
use burn_cubecl::tensor::CubeTensor;

use super::Adapter;
use super::exact::matmul;
use super::launch::{Operand, Work};
use super::movement::strides;
use super::reduce::settled;
use super::step::{Fold, Step, Two};
use super::transfer::{from_cube, reshaped, word};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{Dot, Op};
use crate::types::{Class, TensorType, Type};
use crate::value::Value;

/// The product, where there is a kernel for it.
pub(super) fn dot(attrs: &Dot, call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([lhs, rhs], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    if lhs.is_empty() || rhs.is_empty() || out.dtype.is_complex() {
        return Ok(None);
    }
    let left = Axes::new(lhs, &attrs.lhs_batch, &attrs.lhs_contract);
    let right = Axes::new(rhs, &attrs.rhs_batch, &attrs.rhs_contract);
    if left.lengths(left.batch) != right.lengths(right.batch)
        || left.lengths(left.contract) != right.lengths(right.contract)
    {
        return Err(call.invalid(format!("{} and {} differ on the axes that {attrs:?} pairs", lhs.ty(), rhs.ty())));
    }
    let single = |dtype: Type| dtype == Type::F32;
    if single(lhs.dtype()) && single(rhs.dtype()) && single(out.dtype) {
        return matrices(&left, &right, lhs, rhs, out, adapter);
    }
    folded(&left, &right, lhs, rhs, out, adapter)
}

/// What each axis of an operand does.
struct Axes<'a> {
    shape: Vec<usize>,
    batch: &'a [usize],
    contract: &'a [usize],
    free: Vec<usize>,
}

impl<'a> Axes<'a> {
    fn new(value: &Value, batch: &'a [usize], contract: &'a [usize]) -> Self {
        let free = (0..value.rank()).filter(|axis| !batch.contains(axis) && !contract.contains(axis)).collect();
        Self { shape: value.shape(), batch, contract, free }
    }

    fn lengths(&self, axes: &[usize]) -> Vec<usize> {
        axes.iter().map(|&axis| self.shape[axis]).collect()
    }

    fn len(&self, axes: &[usize]) -> usize {
        self.lengths(axes).iter().product()
    }

    /// The strides of these axes, and 0 for so many others, in a region of both operands.
    fn strides(&self, axes: &[usize]) -> Vec<isize> {
        let own = strides(&self.shape);
        axes.iter().map(|&axis| own[axis]).collect()
    }
}

/// One batched product of matrices; where both axes of an operand only change places, it is read as it lies.
fn matrices(
    left: &Axes<'_>,
    right: &Axes<'_>,
    lhs: &Value,
    rhs: &Value,
    out: &TensorType,
    adapter: Adapter,
) -> Result<Option<Value>> {
    let a = matrix(left, lhs, [&left.free, left.contract], adapter)?;
    let b = matrix(right, rhs, [right.contract, &right.free], adapter)?;
    let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
    match matmul(a, b, adapter)? {
        Some(product) => {
            let product = from_cube(Type::F32, product);
            Ok(reshaped(&product, Type::F32, &out.shape))
        }
        None => folded(left, right, lhs, rhs, out, adapter),
    }
}

/// Products of matrices, `[1, rows, inner]` by each of `[batch, inner, columns]`; `None` where there is no kernel.
pub(super) fn batches(lhs: &Value, rhs: &Value, adapter: Adapter) -> Result<Option<Value>> {
    let (Some(lhs), Some(rhs)) = (lhs.cube(), rhs.cube()) else { return Ok(None) };
    let product = matmul(lhs.clone(), rhs.clone(), adapter)?;
    Ok(product.map(|product| from_cube(Type::F32, product)))
}

/// The operand as `[batch, rows, columns]`.
fn matrix(
    axes: &Axes<'_>,
    value: &Value,
    [rows, columns]: [&[usize]; 2],
    adapter: Adapter,
) -> Result<Option<CubeTensor>> {
    let sizes = [axes.len(axes.batch), axes.len(rows), axes.len(columns)];
    let in_order = |order: &[usize]| order.iter().copied().eq(0..value.rank());
    let straight = [axes.batch, rows, columns].concat();
    if in_order(&straight) {
        return Ok(reshaped(value, value.dtype(), &sizes).and_then(|value| value.cube().cloned()));
    }
    if in_order(&[axes.batch, columns, rows].concat()) {
        let turned = reshaped(value, value.dtype(), &[sizes[0], sizes[2], sizes[1]]);
        return Ok(turned.and_then(|value| value.cube().cloned()).map(|tensor| transposed(tensor, sizes)));
    }
    let moved = TensorType::new(value.dtype(), axes.lengths(&straight));
    let order = Op::Transpose(crate::program::Axes { axes: straight });
    let moved = super::movement::run(&order, value, &moved, adapter)?;
    Ok(moved.and_then(|value| reshaped(&value, value.dtype(), &sizes)).and_then(|value| value.cube().cloned()))
}

fn transposed(mut tensor: CubeTensor, [batch, rows, columns]: [usize; 3]) -> CubeTensor {
    let strides: [usize; 3] = [rows * columns, 1, rows];
    *tensor.meta = burn_std::Metadata::new(Shape::from([batch, rows, columns]), burn_std::Strides::new(&strides));
    tensor
}

/// A fold of the products over the contracted axes.
fn folded(
    left: &Axes<'_>,
    right: &Axes<'_>,
    lhs: &Value,
    rhs: &Value,
    out: &TensorType,
    adapter: Adapter,
) -> Result<Option<Value>> {
    let (Some(a), Some(b), Some(word)) = (lhs.cube(), rhs.cube(), word(out.dtype)) else { return Ok(None) };
    let floats = [lhs.dtype(), rhs.dtype(), out.dtype].map(Type::is_float);
    if floats.iter().any(|&float| float != floats[0]) || lhs.dtype().is_complex() || rhs.dtype().is_complex() {
        return Ok(None);
    }
    let (times, plus) = match word.class() {
        Class::Float => (Two::MultiplyF, Two::AddF),
        _ => (Two::MultiplyI, Two::AddI),
    };
    let zeros = |count: usize| vec![0isize; count];
    let (m, n) = (left.free.len(), right.free.len());
    let a_strides =
        [left.strides(left.batch), left.strides(&left.free), zeros(n), left.strides(left.contract)].concat();
    let b_strides =
        [right.strides(right.batch), zeros(m), right.strides(&right.free), right.strides(right.contract)].concat();
    let operands = vec![
        Operand { tensor: a.clone(), start: 0, strides: a_strides },
        Operand { tensor: b.clone(), start: 0, strides: b_strides },
    ];
    let kept = left.batch.len() + m + n;
    let shape =
        [left.lengths(left.batch), left.lengths(&left.free), right.lengths(&right.free), left.lengths(left.contract)];
    let steps = vec![Step::Two(times, 0, 1)];
    let types = std::slice::from_ref(out);
    let work = Work { adapter, shape: shape.concat(), operands, steps, results: vec![2], types };
    settled(work.fold(Fold { function: plus, identity: 0 }, kept)?, out, adapter).map(Some)
}
