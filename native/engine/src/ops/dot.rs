//! Tensor contraction, as one batched product of matrices.

use burn_backend::ops::IntTensorOps;
use burn_dispatch::Dispatch;

use crate::cpu;
use crate::error::Result;
use crate::ops::complex::bilinear;
use crate::ops::gradient::with_gradient;
use crate::ops::shape::permute;
use crate::ops::{Call, cast, check};
use crate::program::Dot;
use crate::types::Type;
use crate::value::Value;

/// Most elements of operands of a small product.
const SMALL: usize = 256;

/// Whether a product of `f32` operands of so many elements is summed in double precision and rounded once, as
/// `Nx.BinaryBackend` does: for small ones it costs next to nothing.
pub(crate) fn is_small(lhs: usize, rhs: usize) -> bool {
    lhs.max(rhs) <= SMALL
}

pub(super) fn dot(attrs: &Dot, mut call: Call<'_>) -> Result<Value> {
    let [lhs, rhs] = call.args()?;
    let out = call.out()?;
    let left = Roles::new(&call, &lhs, &attrs.lhs_batch, &attrs.lhs_contract)?;
    let right = Roles::new(&call, &rhs, &attrs.rhs_batch, &attrs.rhs_contract)?;
    let shared = |roles: &Roles| (roles.lengths(roles.batch), roles.lengths(roles.contract));
    if shared(&left) != shared(&right) {
        return Err(call.invalid(format!("{} and {} differ on the axes that {attrs:?} pairs", lhs.ty(), rhs.ty())));
    }
    let shape = [left.lengths(left.batch), left.lengths(&left.free), right.lengths(&right.free)].concat();
    check::result_shape(&call, &shape)?;
    if shape.contains(&0) || left.lengths(left.contract).contains(&0) {
        return Value::full(out, 0.0, call.device);
    }
    let product = |lhs, rhs| {
        let lhs = left.matrices(lhs, &left.free, left.contract);
        let rhs = right.matrices(rhs, right.contract, &right.free);
        Ok(matmul(lhs, rhs)?.reshape(&shape))
    };
    if out.dtype.is_complex() {
        return bilinear(lhs, rhs, out.dtype, product);
    }
    let compute = match compute_type(out.dtype) {
        Type::F32 if is_small(lhs.len(), rhs.len()) => Type::F64,
        other => other,
    };
    cast(product(cast(lhs, compute)?, cast(rhs, compute)?)?, out.dtype)
}

/// What each axis of an operand does.
pub(super) struct Roles<'a> {
    shape: Vec<usize>,
    batch: &'a [usize],
    pub(super) contract: &'a [usize],
    pub(super) free: Vec<usize>,
}

impl<'a> Roles<'a> {
    pub(super) fn new(call: &Call<'_>, value: &Value, batch: &'a [usize], contract: &'a [usize]) -> Result<Self> {
        check::axes(call, &[batch, contract].concat(), value)?;
        let free = (0..value.rank()).filter(|axis| !batch.contains(axis) && !contract.contains(axis)).collect();
        Ok(Self { shape: value.shape(), batch, contract, free })
    }

    fn lengths(&self, axes: &[usize]) -> Vec<usize> {
        axes.iter().map(|&axis| self.shape[axis]).collect()
    }

    /// The operand as `[batch, rows, columns]`, or `[rows, columns]` when it has no batch axes.
    pub(super) fn matrices(&self, value: Value, rows: &[usize], columns: &[usize]) -> Value {
        let mut groups = vec![rows, columns];
        if !self.batch.is_empty() {
            groups.insert(0, self.batch);
        }
        let sizes: Vec<usize> = groups.iter().map(|axes| self.lengths(axes).iter().product()).collect();
        if groups.iter().all(|axes| axes.windows(2).all(|pair| pair[0] + 1 == pair[1])) {
            // Neighbours are joined before they are moved: afterwards they may not lie side by side any more.
            let mut order: Vec<usize> = (0..groups.len()).collect();
            order.sort_by_key(|&group| groups[group].first().copied().unwrap_or(usize::MAX));
            let joined: Vec<usize> = order.iter().map(|&group| sizes[group]).collect();
            let mut places = vec![0; groups.len()];
            order.iter().enumerate().for_each(|(place, &group)| places[group] = place);
            return permute(reshaped(value, &joined), &places);
        }
        reshaped(permute(value, &groups.concat()), &sizes)
    }
}

fn reshaped(value: Value, shape: &[usize]) -> Value {
    if value.shape() == shape { value } else { value.reshape(shape) }
}

/// The type that a product is summed in. Integers wrap, so a wider type of either sign gives the same low bits.
pub(super) fn compute_type(out: Type) -> Type {
    match out {
        Type::BF16 | Type::F16 => Type::F32,
        _ if !out.is_int() => out,
        _ if out.bits() <= 32 => Type::S32,
        _ => Type::S64,
    }
}

/// The products of the matrices along the last two axes.
fn matmul(lhs: Value, rhs: Value) -> Result<Value> {
    if lhs.dtype().is_int() {
        let product = Dispatch::int_matmul(lhs.tensor().clone(), rhs.tensor().clone());
        return Ok(Value::new(lhs.dtype(), product));
    }
    with_gradient(
        [lhs, rhs],
        |[lhs, rhs]| plain_matmul(&lhs, &rhs),
        |[lhs, rhs], _| {
            let (lhs, rhs) = (lhs.clone(), rhs.clone());
            Box::new(move |operand, g| match operand {
                0 => plain_matmul(&g, &rhs.clone().turned()),
                _ => plain_matmul(&lhs.clone().turned(), &g),
            })
        },
    )
}

fn plain_matmul(lhs: &Value, rhs: &Value) -> Result<Value> {
    cpu::for_types!(lhs.dtype(), T => cpu::matmul::<T>(lhs, rhs), F32 f32, F64 f64)
}
