//! Convolution.
//!
//! Whatever order of axes is asked for, the work is done with channels last: a window is then a few runs of neighbouring
//! elements, and the kernel is a matrix of window elements by output channels.

use crate::cpu::{self, Geometry, WindowAxis, convolve, images_gradient, kernel_gradient};
use crate::error::Result;
use crate::ops::complex::bilinear;
use crate::ops::gradient::with_gradient;
use crate::ops::shape::permute;
use crate::ops::{Call, cast, check};
use crate::program::Conv;
use crate::types::Type;
use crate::value::Value;

pub(super) fn conv(attrs: &Conv, mut call: Call<'_>) -> Result<Value> {
    let [input, kernel] = call.args()?;
    let (geometry, order) = geometry(attrs, &call, &input, &kernel)?;
    let out = call.out()?;
    if out.shape.contains(&0) || input.is_empty() || kernel.is_empty() {
        return Value::full(out, 0.0, call.device);
    }
    let product = |input, kernel| {
        let [input, kernel] = arrange(attrs, input, kernel);
        Ok(permute(run(input, kernel, geometry.clone())?, &order))
    };
    if out.dtype.is_complex() {
        return bilinear(input, kernel, out.dtype, product);
    }
    // f32 does not hold all integers of 32 bits.
    let is_long = |value: &Value| value.dtype().is_int() && value.dtype().bits() >= 32;
    let compute = match out.dtype {
        Type::BF16 | Type::F16 => Type::F32,
        Type::F32 if is_long(&input) || is_long(&kernel) => Type::F64,
        other => other,
    };
    cast(product(cast(input, compute)?, cast(kernel, compute)?)?, out.dtype)
}

/// The operands as `[batch, spatial.., channels]` and `[spatial.., channels of a group, outputs]`.
pub(super) fn arrange(attrs: &Conv, input: Value, kernel: Value) -> [Value; 2] {
    let input = permute(input, &channels_last(&attrs.input_permutation));
    let input = batch_as_features(input, attrs.batch_group_size);
    [input, permute(kernel, &kernel_order(&attrs.kernel_permutation))]
}

/// `input` `[batch, spatial.., channels]` with `kernel` `[spatial.., channels of a group, outputs]`.
fn run(input: Value, kernel: Value, geometry: Geometry) -> Result<Value> {
    let dtype = input.dtype();
    let forward = |[x, k]: [Value; 2]| cpu::for_types!(dtype, T => convolve::<T>(&geometry, &x, &k), F32 f32, F64 f64);
    with_gradient([input, kernel], forward, |[x, k], _| {
        let (x, k, geometry) = (x.clone(), k.clone(), geometry.clone());
        Box::new(move |operand, g| {
            cpu::for_types!(dtype, T => match operand {
                0 => images_gradient::<T>(&geometry, &x, &k, &g),
                _ => kernel_gradient::<T>(&geometry, &x, &k, &g),
            }, F32 f32, F64 f64)
        })
    })
}

fn check_axes(attrs: &Conv, call: &Call<'_>, input: &Value, kernel: &Value) -> Result<()> {
    let rank = input.rank();
    let orders =
        [(&attrs.input_permutation, input), (&attrs.kernel_permutation, kernel), (&attrs.output_permutation, input)];
    for (order, value) in orders {
        check::one_each(call, "axis", order, rank)?;
        check::one_each(call, "axis", order, value.rank())?;
        check::axes(call, order, value)?;
    }
    let spatial = rank.checked_sub(2).ok_or_else(|| call.invalid(format!("{} has no channels", input.ty())))?;
    check::one_each(call, "padding", &attrs.padding, spatial)?;
    check::steps(call, "strides", &attrs.strides, spatial)?;
    check::steps(call, "input_dilation", &attrs.input_dilation, spatial)?;
    check::steps(call, "kernel_dilation", &attrs.kernel_dilation, spatial)?;
    check::steps(call, "groups", &[attrs.feature_group_size, attrs.batch_group_size], 2)
}

/// What the axes of the operands do, once the groups of the batch have become groups of channels, and the order of axes that
/// brings the result with channels last to the declared one.
pub(super) fn geometry(attrs: &Conv, call: &Call<'_>, input: &Value, kernel: &Value) -> Result<(Geometry, Vec<usize>)> {
    check_axes(attrs, call, input, kernel)?;
    let order = inverse(&channels_last(&attrs.output_permutation));
    let (x, k) = (ordered(input, &attrs.input_permutation), ordered(kernel, &attrs.kernel_permutation));
    let (features, batches) = (attrs.feature_group_size, attrs.batch_group_size);
    let groups = features.max(batches);
    let fits = k[1].checked_mul(features) == Some(x[1])
        && features.min(batches) == 1
        && k[0].is_multiple_of(groups)
        && x[0].is_multiple_of(batches);
    let spatial = |axis: usize| {
        let elements = (x[axis + 2], attrs.input_dilation[axis]);
        let window = (k[axis + 2], attrs.kernel_dilation[axis]);
        WindowAxis::new(elements, window, attrs.padding[axis], attrs.strides[axis])
    };
    let Some(spatial) = (0..x.len() - 2).map(spatial).collect::<Option<Vec<_>>>().filter(|_| fits) else {
        return Err(call.invalid(format!("{} and the kernel {} do not fit {attrs:?}", input.ty(), kernel.ty())));
    };
    let counts = spatial.iter().map(|axis| axis.count);
    let shape: Vec<usize> = [x[0] / batches].into_iter().chain(counts).chain([k[0]]).collect();
    check::result_shape(call, &order.iter().map(|&axis| shape[axis]).collect::<Vec<_>>())?;
    Ok((Geometry::new(x[0] / batches, spatial, groups, k[1], k[0] / groups), order))
}

/// Groups of the batch as groups of channels: `[groups * batch, .., channels]` to `[batch, .., groups * channels]`.
fn batch_as_features(input: Value, groups: usize) -> Value {
    if groups == 1 {
        return input;
    }
    let mut shape = input.shape();
    let last = shape.len() - 1;
    shape[0] /= groups;
    let order: Vec<usize> = (1..=last).chain([0, last + 1]).collect();
    let split = input.reshape(&[&[groups], &shape[..]].concat()).permute(&order);
    shape[last] *= groups;
    split.reshape(&shape)
}

/// Axes in the order batch, spatial, channels, from the order batch, channels, spatial.
pub(super) fn channels_last(order: &[usize]) -> Vec<usize> {
    [&order[..1], &order[2..], &order[1..2]].concat()
}

/// Axes in the order spatial, input channels, output channels, from the order output channels, input channels, spatial.
fn kernel_order(order: &[usize]) -> Vec<usize> {
    [&order[2..], &order[1..2], &order[..1]].concat()
}

fn ordered(value: &Value, axes: &[usize]) -> Vec<usize> {
    let shape = value.shape();
    axes.iter().map(|&axis| shape[axis]).collect()
}

fn inverse(axes: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; axes.len()];
    axes.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
    inverse
}
