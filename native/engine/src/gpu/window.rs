//! Folds over windows on a GPU: a region with an axis for each of the result and one for each of the window, of which the latter
//! are folded.

use super::Adapter;
use super::formula::Formula;
use super::launch::{Operand, Work};
use super::movement::strides;
use super::reduce::{folding, settled};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{WindowReduce, Windows};
use crate::value::Value;

/// The fold, where there is a kernel for it.
pub(super) fn reduce(attrs: &WindowReduce, call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([x], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    if x.is_empty() || x.dtype() != out.dtype {
        return Ok(None);
    }
    let Some((fold, _)) = folding(attrs.fold, x.dtype(), out.dtype) else { return Ok(None) };
    let rank = out.shape.len();
    let shape = [&out.shape[..], &attrs.windows.dimensions].concat();
    let Some(operand) = Operand::loaded(x, shape.len()) else { return Ok(None) };
    let mut formula = Formula::new(1);
    let element = element(&mut formula, &attrs.windows, &x.shape(), fold.identity);
    let types = std::slice::from_ref(out);
    let work = Work { adapter, shape, operands: vec![operand], steps: formula.steps, results: vec![element], types };
    settled(work.fold(fold, rank)?, out, adapter).map(Some)
}

/// The element of a window, or `identity` in the padding.
fn element(formula: &mut Formula, windows: &Windows, shape: &[usize], identity: u32) -> usize {
    let steps: Vec<usize> = (0..shape.len()).map(|axis| formula.place(shape.len() + axis)).collect();
    let (at, inside) = place(formula, windows, shape, &steps);
    formula.load_inside(0, at, inside, identity)
}

/// The place in a tensor of `shape` of the element at `steps` from the beginning of a window, and whether it is no padding, where
/// there is any.
pub(super) fn place(
    formula: &mut Formula,
    windows: &Windows,
    shape: &[usize],
    steps: &[usize],
) -> (Option<usize>, Option<usize>) {
    let own = strides(shape);
    let (mut at, mut inside) = (None, None);
    for (axis, &length) in shape.iter().enumerate() {
        let window = formula.place(axis);
        let window = formula.scaled(window, windows.strides[axis] as i64);
        let step = formula.scaled(steps[axis], windows.dilations[axis] as i64);
        let place = formula.plus(Some(window), step);
        let place = formula.moved(place, -windows.padding[axis][0]);
        if windows.padding[axis] != [0, 0] {
            let below = formula.below(place, length);
            inside = Some(formula.both(inside, below));
        }
        let step = formula.scaled(place, own[axis] as i64);
        at = Some(formula.plus(at, step));
    }
    (at, inside)
}
