//! Convolutions on a GPU: a region with an axis for each of the result, one for the channels of a group and one for each of the
//! kernel's, of which the latter are folded.

use super::formula::Formula;
use super::launch::{Operand, Work};
use super::movement::strides;
use super::reduce::settled;
use super::step::{Fold, Two};
use super::transfer::reshaped;
use super::{Adapter, movement, product};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{Axes, Conv, Op};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// The convolution, where there is a kernel for it: of real numbers held alike, without groups of the batch.
pub(super) fn conv(attrs: &Conv, call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([x, kernel], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    let floats = [x.dtype(), kernel.dtype(), out.dtype].map(|dtype| dtype.is_float());
    let ints = [x.dtype(), kernel.dtype(), out.dtype].map(|dtype| dtype.is_int());
    let alike = floats.iter().all(|&float| float) || ints.iter().all(|&int| int);
    if !alike || attrs.batch_group_size != 1 || x.is_empty() || kernel.is_empty() {
        return Ok(None);
    }
    if let Some(result) = by_columns(attrs, call, adapter)? {
        return Ok(Some(result));
    }
    let rank = out.shape.len();
    let lengths: Vec<usize> = attrs.kernel_permutation[1..].iter().map(|&axis| kernel.shape()[axis]).collect();
    let shape = [&out.shape[..], &lengths].concat();
    let operands: Vec<Operand> = [x, kernel].iter().filter_map(|value| Operand::loaded(value, shape.len())).collect();
    let mut formula = Formula::new(2);
    let axes = Places {
        batch: attrs.output_permutation[0],
        channel: rank,
        windows: attrs.output_permutation[2..].to_vec(),
        steps: (rank + 1..2 * rank - 1).collect(),
    };
    let a = input(&mut formula, attrs, x, kernel, out.shape[attrs.output_permutation[1]], &axes);
    let b = weight(&mut formula, attrs, kernel, rank);
    let (times, plus) = if floats[0] { (Two::MultiplyF, Two::AddF) } else { (Two::MultiplyI, Two::AddI) };
    let product = formula.two(times, a, b);
    let types = std::slice::from_ref(out);
    let work = Work { adapter, shape, operands, steps: formula.steps, results: vec![product], types };
    settled(work.fold(Fold { function: plus, identity: 0 }, rank)?, out, adapter).map(Some)
}

/// From so many products on, the columns of a convolution are written down for a product of matrices.
const MANY_PRODUCTS: usize = 1 << 20;
/// The most bytes that columns may take.
const MOST_COLUMNS: usize = 1 << 30;

/// A convolution of many products as one of matrices: for each example, the kernels by the columns of the input that each
/// element of the result sees.
fn by_columns(attrs: &Conv, call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([x, kernel], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    let single = [x.dtype(), kernel.dtype(), out.dtype].iter().all(|&dtype| dtype == Type::F32);
    let length = |role: usize| out.shape[attrs.output_permutation[role]];
    let (batch, features) = (length(0), length(1));
    let windows: Vec<usize> = (2..out.shape.len()).map(length).collect();
    let steps: Vec<usize> = attrs.kernel_permutation[1..].iter().map(|&axis| kernel.shape()[axis]).collect();
    let (rows, columns) = (steps.iter().product::<usize>(), windows.iter().product::<usize>());
    let elements = batch * rows * columns;
    let most = MOST_COLUMNS.min(adapter.largest()?);
    if !single || attrs.feature_group_size != 1 || elements * features < MANY_PRODUCTS || elements * 4 > most {
        return Ok(None);
    }
    let shape = [&[batch], &steps[..], &windows].concat();
    let Some(operand) = Operand::loaded(x, shape.len()) else { return Ok(None) };
    let mut formula = Formula::new(1);
    let spatial = windows.len();
    let axes = Places {
        batch: 0,
        channel: 1,
        windows: (2 + spatial..2 + 2 * spatial).collect(),
        steps: (2..2 + spatial).collect(),
    };
    let element = input(&mut formula, attrs, x, kernel, features, &axes);
    let types = [TensorType::new(Type::F32, shape.clone())];
    let work =
        Work { adapter, shape, operands: vec![operand], steps: formula.steps, results: vec![element], types: &types };
    let Some(seen) = work.run()?.pop() else { return Ok(None) };
    let Some(seen) = reshaped(&seen, Type::F32, &[batch, rows, columns]) else { return Ok(None) };
    let Some(weights) = moved(kernel, attrs.kernel_permutation.clone(), adapter)? else { return Ok(None) };
    let Some(weights) = reshaped(&weights, Type::F32, &[1, features, rows]) else { return Ok(None) };
    let Some(product) = product::batches(&weights, &seen, adapter)? else { return Ok(None) };
    let shape = [&[batch, features], &windows[..]].concat();
    let Some(product) = reshaped(&product, Type::F32, &shape) else { return Ok(None) };
    let mut order = vec![0; shape.len()];
    attrs.output_permutation.iter().enumerate().for_each(|(role, &axis)| order[axis] = role);
    moved(&product, order, adapter)
}

/// The value with its axes in another order.
fn moved(value: &Value, order: Vec<usize>, adapter: Adapter) -> Result<Option<Value>> {
    if order.is_sorted() {
        return Ok(Some(value.clone()));
    }
    let shape: Vec<usize> = order.iter().map(|&axis| value.shape()[axis]).collect();
    let ty = TensorType::new(value.dtype(), shape);
    movement::run(&Op::Transpose(Axes { axes: order }), value, &ty, adapter)
}

/// The axes of a region that count examples, channels, windows and steps in a window.
struct Places {
    batch: usize,
    channel: usize,
    windows: Vec<usize>,
    steps: Vec<usize>,
}

/// The element of the input, or zero in the padding and between dilated elements.
fn input(formula: &mut Formula, attrs: &Conv, x: &Value, kernel: &Value, channels: usize, axes: &Places) -> usize {
    let (own, lengths, rank) = (strides(&x.shape()), x.shape(), x.rank());
    let axis = |role: usize| attrs.input_permutation[role];
    let batch = formula.place(axes.batch);
    let mut at = formula.scaled(batch, own[axis(0)] as i64);
    let mut channel = formula.place(axes.channel);
    if attrs.feature_group_size > 1 {
        let result = formula.place(attrs.output_permutation[1]);
        let (group, _) = formula.divided(result, (channels / attrs.feature_group_size).max(1));
        let first = formula.scaled(group, kernel.shape()[attrs.kernel_permutation[1]] as i64);
        channel = formula.plus(Some(first), channel);
    }
    let step = formula.scaled(channel, own[axis(1)] as i64);
    at = formula.plus(Some(at), step);
    let mut inside = None;
    for spatial in 0..rank - 2 {
        let window = formula.place(axes.windows[spatial]);
        let window = formula.scaled(window, attrs.strides[spatial] as i64);
        let step = formula.place(axes.steps[spatial]);
        let step = formula.scaled(step, attrs.kernel_dilation[spatial] as i64);
        let place = formula.plus(Some(window), step);
        let mut place = formula.moved(place, -attrs.padding[spatial][0]);
        let (dilation, length) = (attrs.input_dilation[spatial], lengths[axis(2 + spatial)]);
        let below = formula.below(place, (length - 1) * dilation + 1);
        inside = Some(formula.both(inside, below));
        if dilation > 1 {
            let (whole, rest) = formula.divided(place, dilation);
            let on = formula.below(rest, 1);
            inside = Some(formula.both(inside, on));
            place = whole;
        }
        let step = formula.scaled(place, own[axis(2 + spatial)] as i64);
        at = formula.plus(Some(at), step);
    }
    formula.load_inside(0, Some(at), inside, 0)
}

/// The element of the kernel.
fn weight(formula: &mut Formula, attrs: &Conv, kernel: &Value, rank: usize) -> usize {
    let own = strides(&kernel.shape());
    let result = formula.place(attrs.output_permutation[1]);
    let mut at = formula.scaled(result, own[attrs.kernel_permutation[0]] as i64);
    for role in 1..rank {
        let place = formula.place(rank + role - 1);
        let step = formula.scaled(place, own[attrs.kernel_permutation[role]] as i64);
        at = formula.plus(Some(at), step);
    }
    formula.load(1, at)
}
