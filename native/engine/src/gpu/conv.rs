//! Convolutions on a GPU: of many features a product by tiles; else a region with an axis for each of the result, one for the
//! channels of a group and one for each of the kernel's, of which the latter are folded.

use super::formula::Formula;
use super::launch::{Operand, Work};
use super::movement::strides;
use super::product::{single, step};
use super::reduce::settled;
use super::step::{Fold, Two};
use super::tiled::{Axis, Product, Windows};
use super::{Adapter, cast, movement};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{Axes, Conv, Op};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// The convolution, where there is a kernel for it: of real numbers. `f32` holds no more than integers of 16 bits.
pub(super) fn conv(attrs: &Conv, call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([x, kernel], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    let held = |value: &Value| match out.dtype.is_float() && value.dtype().is_int() && value.dtype().bits() <= 16 {
        true => cast(value, Type::F32, adapter),
        false => Ok(Some(value.clone())),
    };
    let Some((x, kernel)) = held(x)?.zip(held(kernel)?) else { return Ok(None) };
    let (x, kernel) = (&x, &kernel);
    let floats = [x.dtype(), kernel.dtype(), out.dtype].map(|dtype| dtype.is_float());
    let ints = [x.dtype(), kernel.dtype(), out.dtype].map(|dtype| dtype.is_int());
    let alike = floats.iter().all(|&float| float) || ints.iter().all(|&int| int);
    let fits = x.shape()[attrs.input_permutation[0]].is_multiple_of(attrs.batch_group_size.max(1));
    if !alike || !fits || x.is_empty() || kernel.is_empty() {
        return Ok(None);
    }
    if let Some(result) = as_product(attrs, [x, kernel], call, adapter)? {
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

/// Groups of features, each of which has its own channels of the input, or its own examples.
fn groups(attrs: &Conv) -> usize {
    attrs.feature_group_size.max(attrs.batch_group_size)
}

/// Fewer features or contracted elements leave most of a tile empty.
const LEAST_ROWS: usize = 8;
const LEAST_INNER: usize = 8;

/// A convolution as a product for each group: the kernels by the windows of the input that each element of the result sees.
fn as_product(attrs: &Conv, [x, kernel]: [&Value; 2], call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let out = call.out()?;
    let groups = groups(attrs);
    let order =
        |permutation: &[usize], shape: &[usize]| permutation.iter().map(|&axis| shape[axis]).collect::<Vec<_>>();
    let result = order(&attrs.output_permutation, &out.shape);
    let weights = order(&attrs.kernel_permutation, &kernel.shape());
    let (rows, inner) = (result[1] / groups, weights[1..].iter().product());
    if rows < LEAST_ROWS || inner < LEAST_INNER || ![x.dtype(), kernel.dtype(), out.dtype].into_iter().all(single) {
        return Ok(None);
    }
    // The kernels of a group as the rows of a matrix, and the result with its axes in order, where they do not lie so.
    let own = order(&attrs.kernel_permutation, &steps(&kernel.shape()));
    let row = step(weights[1..].iter().copied().zip(own[1..].iter().copied()));
    let straight = (row != Some(1)).then(|| moved(kernel, attrs.kernel_permutation.clone(), adapter));
    let (kernel, row) = match straight.transpose()?.flatten() {
        Some(moved) => (moved, inner),
        None => (kernel.clone(), own[0]),
    };
    let places = order(&attrs.output_permutation, &steps(&out.shape));
    let column = step(result[2..].iter().copied().zip(places[2..].iter().copied()));
    let (shape, places) = match column {
        Some(_) => (out.shape.clone(), places),
        None => (result.clone(), steps(&result)),
    };
    let (in_place, column) = (column.is_some(), column.unwrap_or(1));
    let (Some(lhs), Some(rhs)) = (kernel.cube(), x.cube()) else { return Ok(None) };
    let from = order(&attrs.input_permutation, &steps(&x.shape()));
    let width = result[2..].iter().product();
    let group = if attrs.batch_group_size > 1 { result[0] * from[0] } else { weights[1] * from[1] };
    let product = Product {
        adapter,
        lhs,
        rhs,
        batch: groups,
        inner_batches: 1,
        rows,
        inner,
        columns: result[0] * width,
        lhs_steps: [rows * row, 0, row, 1],
        rhs_steps: [group, 0, from[0], from[1]],
        windows: Some(windows(attrs, &order(&attrs.input_permutation, &x.shape()), &from, &weights, &result)),
        out_steps: [rows * places[1], places[1], places[0], column],
        width,
    };
    let product = settled(product.run(&shape)?, &TensorType::new(out.dtype, shape), adapter)?;
    if in_place {
        return Ok(Some(product));
    }
    let mut back = vec![0; result.len()];
    attrs.output_permutation.iter().enumerate().for_each(|(role, &axis)| back[axis] = role);
    moved(&product, back, adapter)
}

/// The axes of the windows, of which lengths and steps are given by role.
fn windows(attrs: &Conv, input: &[usize], from: &[usize], weights: &[usize], result: &[usize]) -> Windows {
    let axis = |spatial: usize| Axis {
        count: result[2 + spatial],
        stride: attrs.strides[spatial],
        padding: attrs.padding[spatial][0],
        length: input[2 + spatial],
        gap: attrs.input_dilation[spatial],
        step: from[2 + spatial],
        kernel: weights[2 + spatial],
        dilation: attrs.kernel_dilation[spatial],
    };
    Windows { axes: (0..result.len() - 2).map(axis).collect() }
}

/// How many elements lie between two along each axis.
fn steps(shape: &[usize]) -> Vec<usize> {
    strides(shape).into_iter().map(|stride| stride as usize).collect()
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
    if groups(attrs) > 1 {
        let result = formula.place(attrs.output_permutation[1]);
        let (group, _) = formula.divided(result, (channels / groups(attrs)).max(1));
        if attrs.batch_group_size > 1 {
            let examples = lengths[axis(0)] / attrs.batch_group_size;
            let first = formula.scaled(group, examples as i64 * own[axis(0)] as i64);
            at = formula.plus(Some(at), first);
        } else {
            let first = formula.scaled(group, kernel.shape()[attrs.kernel_permutation[1]] as i64);
            channel = formula.plus(Some(first), channel);
        }
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
