//! Products on a GPU: of `f32`, `f16` and `bf16` by tiles, of others as folds.

use burn_cubecl::tensor::CubeTensor;

use super::Adapter;
use super::launch::{Operand, Work};
use super::movement::strides;
use super::reduce::settled;
use super::step::{Fold, Step, Two};
use super::tiled::Product;
use super::transfer::word;
use crate::error::Result;
use crate::ops::Call;
use crate::program::{Dot, Op};
use crate::types::{Class, TensorType, Type};
use crate::value::Value;

/// The product, where there is a kernel for it.
pub(super) fn dot(attrs: &Dot, call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([lhs, rhs], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    // Results of 8-bit floats are rounded on the host.
    let eight = out.dtype.is_float() && out.dtype.bits() == 8;
    if lhs.is_empty() || rhs.is_empty() || out.dtype.is_complex() || eight {
        return Ok(None);
    }
    let left = Axes::new(lhs, &attrs.lhs_batch, &attrs.lhs_contract);
    let right = Axes::new(rhs, &attrs.rhs_batch, &attrs.rhs_contract);
    if left.lengths(left.batch) != right.lengths(right.batch)
        || left.lengths(left.contract) != right.lengths(right.contract)
    {
        return Err(call.invalid(format!("{} and {} differ on the axes that {attrs:?} pairs", lhs.ty(), rhs.ty())));
    }
    if [lhs.dtype(), rhs.dtype(), out.dtype].into_iter().all(single) {
        return matrices(&left, &right, lhs, rhs, out, adapter);
    }
    folded(&left, &right, lhs, rhs, out, adapter)
}

/// Whether the numbers are held as those of `f32`, and results are rounded on the GPU.
pub(super) fn single(dtype: Type) -> bool {
    matches!(dtype, Type::F32 | Type::F16 | Type::BF16)
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

/// One batched product of matrices, of which each is read as it lies where its axes allow that.
fn matrices(
    left: &Axes<'_>,
    right: &Axes<'_>,
    lhs: &Value,
    rhs: &Value,
    out: &TensorType,
    adapter: Adapter,
) -> Result<Option<Value>> {
    let Some((lhs, lhs_steps)) = matrix(left, lhs, adapter)? else { return Ok(None) };
    let Some((rhs, rhs_steps)) = matrix(right, rhs, adapter)? else { return Ok(None) };
    let sizes = [left.len(left.batch), left.len(&left.free), left.len(left.contract), right.len(&right.free)];
    let product = Product::new(adapter, [&lhs, &rhs], sizes, [lhs_steps, rhs_steps]);
    settled(product.run(&out.shape)?, out, adapter).map(Some)
}

/// The operand, and its steps between batches, free elements and contracted ones.
fn matrix(axes: &Axes<'_>, value: &Value, adapter: Adapter) -> Result<Option<(CubeTensor, [usize; 3])>> {
    let own = strides(&axes.shape);
    let step = |group: &[usize]| step(group.iter().map(|&axis| (axes.shape[axis], own[axis] as usize)));
    if let (Some(batch), Some(free), Some(contract)) = (step(axes.batch), step(&axes.free), step(axes.contract)) {
        return Ok(value.cube().map(|tensor| (tensor.clone(), [batch, free, contract])));
    }
    let straight = [axes.batch, &axes.free, axes.contract].concat();
    let moved = TensorType::new(value.dtype(), axes.lengths(&straight));
    let order = Op::Transpose(crate::program::Axes { axes: straight });
    let moved = super::movement::run(&order, value, &moved, adapter)?;
    let (free, contract) = (axes.len(&axes.free), axes.len(axes.contract));
    Ok(moved.and_then(|value| value.cube().cloned()).map(|tensor| (tensor, [free * contract, contract, 1])))
}

/// From one element to the next along all of some axes, given by lengths and strides; `None` where that is not the same everywhere.
pub(super) fn step(axes: impl DoubleEndedIterator<Item = (usize, usize)>) -> Option<usize> {
    let mut axes = axes.rev().filter(|&(length, _)| length != 1);
    let Some((length, step)) = axes.next() else { return Some(1) };
    let mut next = length * step;
    for (length, stride) in axes {
        if stride != next {
            return None;
        }
        next *= length;
    }
    Some(step)
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
