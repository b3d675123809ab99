//! Products on a GPU: of `f32`, `f16` and `bf16` by tiles, small ones in twice the digits, of others as folds.

use burn_cubecl::tensor::CubeTensor;

use super::launch::{Operand, Work};
use super::movement::strides;
use super::reduce::settled;
use super::step::{Fold, Step, Two};
use super::tiled::{After, Product};
use super::transfer::word;
use super::{Adapter, cast, exact};
use crate::error::Result;
use crate::ops::{Call, is_small};
use crate::program::{Dot, Op};
use crate::types::{Class, TensorType, Type};
use crate::value::Value;

/// The product, where there is a kernel for it.
pub(super) fn dot(attrs: &Dot, call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([lhs, rhs], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    if lhs.is_empty() || rhs.is_empty() || out.dtype.is_complex() {
        return Ok(None);
    }
    let (Some(lhs), Some(rhs)) = (numbers(lhs, out, adapter)?, numbers(rhs, out, adapter)?) else { return Ok(None) };
    let (lhs, rhs) = (&lhs, &rhs);
    let left = Axes::new(lhs, &attrs.lhs_batch, &attrs.lhs_contract);
    let right = Axes::new(rhs, &attrs.rhs_batch, &attrs.rhs_contract);
    if left.lengths(left.batch) != right.lengths(right.batch)
        || left.lengths(left.contract) != right.lengths(right.contract)
    {
        return Err(call.invalid(format!("{} and {} differ on the axes that {attrs:?} pairs", lhs.ty(), rhs.ty())));
    }
    let types = [lhs.dtype(), rhs.dtype(), out.dtype];
    let exact = is_small(lhs.len(), rhs.len()) && types.iter().all(|dtype| word(*dtype) == Some(Type::F32));
    if exact || types.into_iter().all(single) {
        return matrices([&left, &right], [lhs, rhs], out, After::default(), adapter);
    }
    folded(&left, &right, lhs, rhs, out, adapter)
}

/// The operand, as floats where it is of integers and the product of floats.
fn numbers(value: &Value, out: &TensorType, adapter: Adapter) -> Result<Option<Value>> {
    let as_floats = word(out.dtype) == Some(Type::F32) && value.dtype().is_int();
    if as_floats { cast(value, Type::F32, adapter) } else { Ok(Some(value.clone())) }
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

    /// The steps between outer batches, of which there are so many axes, inner ones, free elements and contracted ones; `None`
    /// where these are not the same everywhere.
    fn lie(&self, split: usize) -> Option<[usize; 4]> {
        let own = strides(&self.shape);
        let step = |group: &[usize]| step(group.iter().map(|&axis| (self.shape[axis], own[axis] as usize)));
        let (outer, inner) = self.batch.split_at(split);
        Some([step(outer)?, step(inner)?, step(&self.free)?, step(self.contract)?])
    }

    /// The strides of these axes, and 0 for so many others, in a region of both operands.
    fn strides(&self, axes: &[usize]) -> Vec<isize> {
        let own = strides(&self.shape);
        axes.iter().map(|&axis| own[axis]).collect()
    }
}

/// What is made of each element of a product of `f32`; `None` where the product is none of tiles.
pub(super) fn then(attrs: &Dot, call: &Call<'_>, after: After, adapter: Adapter) -> Result<Option<Value>> {
    let ([lhs, rhs], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    let there = |value: &Value| value.cube().is_some() && !value.is_empty() && single(value.dtype());
    if !there(lhs) || !there(rhs) || out.dtype != Type::F32 {
        return Ok(None);
    }
    let left = Axes::new(lhs, &attrs.lhs_batch, &attrs.lhs_contract);
    let right = Axes::new(rhs, &attrs.rhs_batch, &attrs.rhs_contract);
    if left.lengths(left.batch) != right.lengths(right.batch)
        || left.lengths(left.contract) != right.lengths(right.contract)
    {
        return Ok(None);
    }
    matrices([&left, &right], [lhs, rhs], out, after, adapter)
}

/// One batched product of matrices, of which each is read as it lies where its axes allow that, and what is done to its elements.
fn matrices(
    [left, right]: [&Axes<'_>; 2],
    [lhs, rhs]: [&Value; 2],
    out: &TensorType,
    after: After,
    adapter: Adapter,
) -> Result<Option<Value>> {
    let is_small = is_small(lhs.len(), rhs.len());
    // The first outer batches of which most operands lie well.
    let lie = |split: usize| [left, right].into_iter().filter(|axes| axes.lie(split).is_some()).count();
    let split = (0..=left.batch.len()).rev().max_by_key(|&split| lie(split)).unwrap_or(0);
    let Some((lhs, lhs_steps)) = matrix(left, split, lhs, adapter)? else { return Ok(None) };
    let Some((rhs, rhs_steps)) = matrix(right, split, rhs, adapter)? else { return Ok(None) };
    let (outer, inner) = left.batch.split_at(split);
    let sizes =
        [left.len(outer), left.len(inner), left.len(&left.free), left.len(left.contract), right.len(&right.free)];
    if is_small {
        let product = exact::product([&lhs, &rhs], sizes, [lhs_steps, rhs_steps], (out, &after), adapter)?;
        return settled(product, out, adapter).map(Some);
    }
    let product = Product::new(adapter, [&lhs, &rhs], sizes, [lhs_steps, rhs_steps]);
    settled(product.then(after, &out.shape)?, out, adapter).map(Some)
}

/// The operand, and its steps between outer batches, inner ones, free elements and contracted ones.
fn matrix(axes: &Axes<'_>, split: usize, value: &Value, adapter: Adapter) -> Result<Option<(CubeTensor, [usize; 4])>> {
    if let Some(steps) = axes.lie(split) {
        return Ok(value.cube().map(|tensor| (tensor.clone(), steps)));
    }
    let straight = [axes.batch, &axes.free, axes.contract].concat();
    let moved = TensorType::new(value.dtype(), axes.lengths(&straight));
    let order = Op::Transpose(crate::program::Axes { axes: straight });
    let moved = super::movement::run(&order, value, &moved, adapter)?;
    let (free, contract) = (axes.len(&axes.free), axes.len(axes.contract));
    let steps = [axes.len(&axes.batch[split..]) * free * contract, free * contract, contract, 1];
    Ok(moved.and_then(|value| value.cube().cloned()).map(|tensor| (tensor, steps)))
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
