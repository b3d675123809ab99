//! Reductions on a GPU.

use super::Adapter;
use super::functions::narrowing;
use super::launch::{Operand, Work};
use super::movement::strides;
use super::step::{Fold, One, Step, Two};
use super::transfer::word;
use crate::error::Result;
use crate::ops::Call;
use crate::program::{self, Reduce};
use crate::types::{Class, TensorType, Type};
use crate::value::Value;

/// The reduction, where there is a kernel for it.
pub(super) fn run(attrs: &Reduce, call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([x], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    let Some(tensor) = x.cube().filter(|_| !x.is_empty()) else { return Ok(None) };
    let Some((fold, steps)) = folding(attrs.fold, x.dtype(), out.dtype) else { return Ok(None) };
    let (shape, own) = (x.shape(), strides(&x.shape()));
    let is_folded = |axis: &usize| attrs.axes.as_ref().is_none_or(|axes| axes.contains(axis));
    let (folded, kept): (Vec<usize>, Vec<usize>) = (0..shape.len()).partition(is_folded);
    let order = [&kept[..], &folded[..]].concat();
    let operand = Operand { tensor: tensor.clone(), start: 0, strides: order.iter().map(|&axis| own[axis]).collect() };
    let results = vec![steps.len()];
    let shape = order.iter().map(|&axis| shape[axis]).collect();
    let types = std::slice::from_ref(out);
    let sum = Work { adapter, shape, operands: vec![operand], steps, results, types }.fold(fold, kept.len())?;
    settled(sum, out, adapter).map(Some)
}

/// The fold, and what is done to each element before.
pub(super) fn folding(fold: program::Fold, from: Type, to: Type) -> Option<(Fold, Vec<Step>)> {
    use program::Fold::*;
    if from.is_complex() || to.is_complex() {
        return None;
    }
    let truth = if from.is_float() { One::TruthF } else { One::TruthI };
    match fold {
        All => return Some((Fold { function: Two::And, identity: 1 }, vec![Step::One(truth, 0)])),
        Any => return Some((Fold { function: Two::Or, identity: 0 }, vec![Step::One(truth, 0)])),
        // Elements are held as they are in the type of the result.
        _ if from != to && (from.is_float() || to.is_float() || to.bits() < 32) => return None,
        _ => {}
    }
    // Of the type itself, though it may be held in a wider one.
    let past = to.bits().min(32);
    let least = |class| if class == Class::Signed { (-1i32 << (past - 1)) as u32 } else { 0 };
    let most = |class| if class == Class::Signed { i32::MAX as u32 >> (32 - past) } else { u32::MAX >> (32 - past) };
    let (function, identity) = match (fold, word(to)?.class()) {
        (Sum, Class::Float) => (Two::AddF, 0),
        (Sum, _) => (Two::AddI, 0),
        (Product, Class::Float) => (Two::MultiplyF, 1f32.to_bits()),
        (Product, _) => (Two::MultiplyI, 1),
        (Max, Class::Float) => (Two::MaxF, f32::NEG_INFINITY.to_bits()),
        (Max, Class::Signed) => (Two::MaxS, least(Class::Signed)),
        (Max, class) => (Two::MaxU, least(class)),
        (Min, Class::Float) => (Two::MinF, f32::INFINITY.to_bits()),
        (Min, Class::Signed) => (Two::MinS, most(Class::Signed)),
        (Min, class) => (Two::MinU, most(class)),
        _ => return None,
    };
    Some((Fold { function, identity }, vec![]))
}

/// A sum in 32 bits as numbers of its type.
pub(super) fn settled(sum: Value, out: &TensorType, adapter: Adapter) -> Result<Value> {
    let (Some(function), Some(operand)) = (narrowing(out.dtype), Operand::broadcast(&sum, &out.shape)) else {
        return Ok(sum);
    };
    let types = std::slice::from_ref(out);
    let steps = vec![Step::One(function, 0)];
    let work = Work { adapter, shape: out.shape.clone(), operands: vec![operand], steps, results: vec![1], types };
    Ok(work.run()?.pop().unwrap_or(sum))
}
