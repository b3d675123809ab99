//! Convolution.

use burn_backend::ops::{ConvOptions, ModuleOps};
use burn_dispatch::Dispatch;

use crate::device::Device;
use crate::error::Result;
use crate::ops::shape::{pad_with, padded_length, permute};
use crate::ops::{Call, cast, check};
use crate::program::Conv;
use crate::types::{TensorType, Type};
use crate::value::Value;

pub(super) fn conv(attrs: &Conv, mut call: Call<'_>) -> Result<Value> {
    let [input, kernel] = call.args()?;
    let out = call.out()?;
    let shape = made_shape(attrs, &call, &input, &kernel)?;
    let back = inverse(&attrs.output_permutation);
    check::result_shape(&call, &gathered(&shape, &back))?;
    if shape.contains(&0) || input.is_empty() || kernel.is_empty() {
        return Value::full(out, 0.0, call.device);
    }
    let compute = if matches!(out.dtype, Type::BF16 | Type::F16) { Type::F32 } else { out.dtype };
    let input = permute(cast(input, compute)?, &attrs.input_permutation);
    let kernel = permute(cast(kernel, compute)?, &attrs.kernel_permutation);
    let (input, padding) = padded(batch_as_features(input, attrs), attrs, call.device)?;
    let result = convolve(input, kernel, attrs, &padding).ok_or_else(|| call.unsupported())?;
    cast(permute(result, &back), out.dtype)
}

/// Checks the operands; shape of the result as batch, channels, spatial.
fn made_shape(attrs: &Conv, call: &Call<'_>, input: &Value, kernel: &Value) -> Result<Vec<usize>> {
    let rank = input.rank();
    check::one_each(call, "kernel axis", &kernel.shape(), rank)?;
    for (order, value) in
        [(&attrs.input_permutation, input), (&attrs.kernel_permutation, kernel), (&attrs.output_permutation, input)]
    {
        check::one_each(call, "axis", order, rank)?;
        check::axes(call, order, value)?;
    }
    let spatial = rank.checked_sub(2).ok_or_else(|| call.invalid(format!("{} has no channels", input.ty())))?;
    check::one_each(call, "padding", &attrs.padding, spatial)?;
    check::steps(call, "strides", &attrs.strides, spatial)?;
    check::steps(call, "input_dilation", &attrs.input_dilation, spatial)?;
    check::steps(call, "kernel_dilation", &attrs.kernel_dilation, spatial)?;
    check::steps(call, "groups", &[attrs.feature_group_size, attrs.batch_group_size], 2)?;
    let x = gathered(&input.shape(), &attrs.input_permutation);
    let k = gathered(&kernel.shape(), &attrs.kernel_permutation);
    let groups = attrs.feature_group_size.max(attrs.batch_group_size);
    let fits = k[1].checked_mul(attrs.feature_group_size) == Some(x[1])
        && k[0].is_multiple_of(groups)
        && x[0].is_multiple_of(attrs.batch_group_size)
        && attrs.feature_group_size.min(attrs.batch_group_size) == 1;
    let lengths =
        (0..spatial).map(|axis| made_length(attrs, axis, x[axis + 2], k[axis + 2])).collect::<Option<Vec<_>>>();
    match lengths {
        Some(lengths) if fits => Ok([vec![x[0] / attrs.batch_group_size, k[0]], lengths].concat()),
        _ => Err(call.invalid(format!("{} and the kernel {} do not fit {attrs:?}", input.ty(), kernel.ty()))),
    }
}

fn made_length(attrs: &Conv, axis: usize, length: usize, kernel: usize) -> Option<usize> {
    let [low, high] = attrs.padding[axis];
    let padded = padded_length(length, &[low, high, i64::try_from(attrs.input_dilation[axis]).ok()? - 1])?;
    let span = kernel.checked_sub(1)?.checked_mul(attrs.kernel_dilation[axis])?.checked_add(1)?;
    Some(padded.checked_sub(span)? / attrs.strides[axis] + 1)
}

/// Groups of the batch as groups of channels: `[groups * batch, channels, ..]` to `[batch, groups * channels, ..]`.
fn batch_as_features(input: Value, attrs: &Conv) -> Value {
    let groups = attrs.batch_group_size;
    if groups == 1 {
        return input;
    }
    let shape = input.shape();
    let (batch, channels, spatial) = (shape[0] / groups, shape[1], &shape[2..]);
    let input = input.reshape(&[&[groups, batch, channels], spatial].concat());
    let order: Vec<usize> = [1, 0].into_iter().chain(2..shape.len() + 1).collect();
    input.permute(&order).reshape(&[&[batch, groups * channels], spatial].concat())
}

/// The input with the padding and dilation that Burn's convolutions lack, and the padding left for them to do.
fn padded(input: Value, attrs: &Conv, device: &Device) -> Result<(Value, Vec<usize>)> {
    let left = |(&[low, high], &dilation): (&[i64; 2], &usize)| {
        if low == high && low >= 0 && dilation == 1 { low as usize } else { 0 }
    };
    let left: Vec<usize> = attrs.padding.iter().zip(&attrs.input_dilation).map(left).collect();
    let config = (0..left.len()).map(|axis| match left[axis] {
        0 => [attrs.padding[axis][0], attrs.padding[axis][1], attrs.input_dilation[axis] as i64 - 1],
        _ => [0; 3],
    });
    let config: Vec<[i64; 3]> = [[0; 3]; 2].into_iter().chain(config).collect();
    let zero = Value::full(&TensorType::new(input.dtype(), []), 0.0, device)?;
    Ok((pad_with(input, zero, &config), left))
}

fn convolve(input: Value, kernel: Value, attrs: &Conv, padding: &[usize]) -> Option<Value> {
    let groups = attrs.feature_group_size * attrs.batch_group_size;
    let dtype = input.dtype();
    let (x, k) = (input.into_tensor(), kernel.into_tensor());
    fn all<const N: usize>(list: &[usize]) -> Option<[usize; N]> {
        list.try_into().ok()
    }
    macro_rules! options {
        () => {
            ConvOptions::new(all(&attrs.strides)?, all(padding)?, all(&attrs.kernel_dilation)?, groups)
        };
    }
    let result = match padding.len() {
        1 => Dispatch::conv1d(x, k, None, options!()),
        2 => Dispatch::conv2d(x, k, None, options!()),
        3 => Dispatch::conv3d(x, k, None, options!()),
        _ => return None,
    };
    Some(Value::new(dtype, result))
}

fn gathered(shape: &[usize], axes: &[usize]) -> Vec<usize> {
    axes.iter().map(|&axis| shape[axis]).collect()
}

fn inverse(axes: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; axes.len()];
    axes.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
    inverse
}
