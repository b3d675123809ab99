//! Products and convolutions.

use super::builder::Builder;
use super::shapes::inverse;
use super::{Gradients, Site};
use crate::program::{Axes, Conv, Dot, Op};

pub(super) fn dot(b: &mut Builder, attrs: &Dot, site: &Site) -> Gradients {
    let left = Side::new(b, site.operand(0), &attrs.lhs_batch, &attrs.lhs_contract);
    let right = Side::new(b, site.operand(1), &attrs.rhs_batch, &attrs.rhs_contract);
    let batch: Vec<usize> = (0..left.batch.len()).collect();
    let rows: Vec<usize> = (batch.len()..).take(left.free.len()).collect();
    let columns: Vec<usize> = (batch.len() + rows.len()..).take(right.free.len()).collect();
    let g = |contract: &[usize], free: &[usize]| Side {
        id: site.g,
        batch: batch.clone(),
        contract: contract.to_vec(),
        free: free.to_vec(),
    };
    let mut gradients = Gradients::new();
    if site.wanted[0] {
        let axes = [&left.batch[..], &left.free, &paired(&right.contract, &left.contract)].concat();
        gradients.push((0, multiply(b, &g(&columns, &rows), &right.turned(), axes)));
    }
    if site.wanted[1] {
        let axes = [&right.batch[..], &paired(&left.contract, &right.contract), &right.free].concat();
        gradients.push((1, multiply(b, &left.turned(), &g(&rows, &columns), axes)));
    }
    gradients
}

/// An operand of a product, and what its axes do.
struct Side {
    id: usize,
    batch: Vec<usize>,
    contract: Vec<usize>,
    free: Vec<usize>,
}

impl Side {
    fn new(b: &Builder, id: usize, batch: &[usize], contract: &[usize]) -> Self {
        let rank = b.ty(id).shape.len();
        let free = (0..rank).filter(|axis| !batch.contains(axis) && !contract.contains(axis)).collect();
        Self { id, batch: batch.to_vec(), contract: contract.to_vec(), free }
    }

    /// With the axes that are summed over in place of the others.
    fn turned(&self) -> Self {
        let mut free = self.contract.clone();
        free.sort_unstable();
        Self { id: self.id, batch: self.batch.clone(), contract: self.free.clone(), free }
    }
}

/// The axes that are paired with the others in the order which these have in their tensor.
fn paired(axes: &[usize], with: &[usize]) -> Vec<usize> {
    let mut pairs: Vec<(usize, usize)> = axes.iter().copied().zip(with.iter().copied()).collect();
    pairs.sort_unstable();
    pairs.into_iter().map(|(_, axis)| axis).collect()
}

/// The product of both, whose axes are then brought to the places `axes`.
fn multiply(b: &mut Builder, left: &Side, right: &Side, axes: Vec<usize>) -> usize {
    let dot = Dot {
        lhs_contract: left.contract.clone(),
        lhs_batch: left.batch.clone(),
        rhs_contract: right.contract.clone(),
        rhs_batch: right.batch.clone(),
    };
    let lengths = |side: &Side, of: &[usize]| of.iter().map(|&axis| b.ty(side.id).shape[axis]).collect::<Vec<_>>();
    let free = [lengths(left, &left.free), lengths(right, &right.free)].concat();
    let shape = [lengths(left, &left.batch), free].concat();
    let dtype = if b.ty(left.id).dtype.is_int() { b.ty(right.id).dtype } else { b.ty(left.id).dtype };
    let product = b.emit(Op::Dot(dot), &[left.id, right.id], dtype, &shape);
    b.transpose(product, inverse(&axes))
}

/// Of groups of the batch nothing is known here.
pub(super) fn conv(b: &mut Builder, attrs: &Conv, site: &Site) -> Option<Gradients> {
    if attrs.batch_group_size != 1 {
        return None;
    }
    let mut gradients = Gradients::new();
    if site.wanted[0] {
        gradients.push((0, images(b, attrs, site)));
    }
    if site.wanted[1] {
        gradients.push((1, kernel(b, attrs, site)));
    }
    Some(gradients)
}

/// Lengths along a spatial axis: of the spread input, the spread kernel and the spread result.
struct Spread {
    input: i64,
    kernel: i64,
    out: i64,
}

fn spreads(b: &Builder, attrs: &Conv, site: &Site) -> Vec<Spread> {
    let length = |id: usize, axis: usize, step: usize| {
        let len = b.ty(id).shape[axis] as i64;
        if len == 0 { 0 } else { (len - 1) * step as i64 + 1 }
    };
    let spread = |i: usize| Spread {
        input: length(site.operand(0), attrs.input_permutation[i + 2], attrs.input_dilation[i]),
        kernel: length(site.operand(1), attrs.kernel_permutation[i + 2], attrs.kernel_dilation[i]),
        out: length(site.g, attrs.output_permutation[i + 2], attrs.strides[i]),
    };
    (0..attrs.strides.len()).map(spread).collect()
}

/// The kernel runs backwards over the gradient, which is spread as far apart as the windows were.
fn images(b: &mut Builder, attrs: &Conv, site: &Site) -> usize {
    let [x, k] = [site.operand(0), site.operand(1)];
    let grouped = attrs.feature_group_size > 1;
    let padding = spreads(b, attrs, site).into_iter().zip(&attrs.padding).map(|(spread, [low, _])| {
        let before = spread.kernel - low - 1;
        [before, spread.input + spread.kernel - 1 - spread.out - before]
    });
    let gradient = Conv {
        strides: attrs.input_dilation.clone(),
        padding: padding.collect(),
        input_dilation: attrs.strides.clone(),
        kernel_dilation: attrs.kernel_dilation.clone(),
        input_permutation: attrs.output_permutation.clone(),
        kernel_permutation: if grouped {
            (0..attrs.kernel_permutation.len()).collect()
        } else {
            exchanged(&attrs.kernel_permutation)
        },
        output_permutation: attrs.input_permutation.clone(),
        ..attrs.clone()
    };
    let mut kernel = b.emit_like(Op::Reverse(Axes { axes: attrs.kernel_permutation[2..].to_vec() }), &[k], k);
    if grouped {
        kernel = exchanged_in_groups(b, attrs, kernel);
    }
    let (dtype, shape) = (b.ty(site.g).dtype, b.shape(x));
    b.emit(Op::Conv(gradient), &[site.g, kernel], dtype, &shape)
}

/// The kernel with channels and features of each group in each other's place, before the spatial axes.
fn exchanged_in_groups(b: &mut Builder, attrs: &Conv, k: usize) -> usize {
    let kernel = b.transpose(k, attrs.kernel_permutation.clone());
    let (shape, groups) = (b.shape(kernel), attrs.feature_group_size);
    let (features, channels, spatial) = (shape[0] / groups, shape[1], &shape[2..]);
    let split = b.reshape(kernel, &[&[groups, features, channels], spatial].concat());
    let turned = b.transpose(split, [0, 2, 1].into_iter().chain(3..3 + spatial.len()).collect());
    b.reshape(turned, &[&[groups * channels, features], spatial].concat())
}

/// The gradient runs over the images, whose rows are summed up as channels are; groups of channels become those of the batch.
fn kernel(b: &mut Builder, attrs: &Conv, site: &Site) -> usize {
    let [x, k] = [site.operand(0), site.operand(1)];
    let padding = spreads(b, attrs, site)
        .into_iter()
        .zip(&attrs.padding)
        .map(|(spread, [low, _])| [*low, spread.out + spread.kernel - spread.input - 1 - low]);
    let gradient = Conv {
        strides: attrs.kernel_dilation.clone(),
        padding: padding.collect(),
        input_dilation: attrs.input_dilation.clone(),
        kernel_dilation: attrs.strides.clone(),
        input_permutation: exchanged(&attrs.input_permutation),
        kernel_permutation: exchanged(&attrs.output_permutation),
        output_permutation: exchanged(&attrs.kernel_permutation),
        feature_group_size: 1,
        batch_group_size: attrs.feature_group_size,
    };
    let (dtype, shape) = (b.ty(site.g).dtype, b.shape(k));
    b.emit(Op::Conv(gradient), &[x, site.g], dtype, &shape)
}

/// With batch and channels in each other's place.
fn exchanged(order: &[usize]) -> Vec<usize> {
    [&[order[1], order[0]], &order[2..]].concat()
}
