//! Changes of shape and order, and cuts.

use super::builder::Builder;
use super::{Gradients, Site};
use crate::program::{Axes, Op, Slice};

pub(super) fn reshape(b: &mut Builder, site: &Site) -> Gradients {
    let shape = b.shape(site.operand(0));
    vec![(0, b.reshape(site.g, &shape))]
}

/// The sum over what was repeated.
pub(super) fn broadcast(b: &mut Builder, axes: &[usize], site: &Site) -> Gradients {
    let (from, to) = (b.shape(site.operand(0)), b.shape(site.g));
    let kept = |axis: usize| axes.iter().position(|&to| to == axis).filter(|&own| from[own] == to[axis]);
    let summed = (0..to.len()).filter(|&axis| kept(axis).is_none()).collect();
    let sum = b.sum(site.g, summed);
    // The operand's axes that stay, in the order that they have in the result.
    let order: Vec<usize> = (0..to.len()).filter_map(kept).collect();
    let mut back: Vec<usize> = (0..order.len()).collect();
    back.sort_by_key(|&place| order[place]);
    let ordered = b.transpose(sum, back);
    vec![(0, b.reshape(ordered, &from))]
}

pub(super) fn transpose(b: &mut Builder, axes: &[usize], site: &Site) -> Gradients {
    vec![(0, b.transpose(site.g, inverse(axes)))]
}

pub(super) fn reverse(b: &mut Builder, axes: &[usize], site: &Site) -> Gradients {
    let ty = b.ty(site.g).clone();
    vec![(0, b.emit(Op::Reverse(Axes { axes: axes.to_vec() }), &[site.g], ty.dtype, &ty.shape))]
}

/// What the padding is gets what the operand does not.
pub(super) fn pad(b: &mut Builder, config: &[[i64; 3]], site: &Site) -> Gradients {
    let shape = b.shape(site.operand(0));
    let strides: Vec<usize> = config.iter().map(|&[_, _, interior]| interior as usize + 1).collect();
    let spread = |(&len, &step): (&usize, &usize)| len.saturating_sub(1) * step + usize::from(len > 0);
    let lengths: Vec<usize> = shape.iter().zip(&strides).map(spread).collect();
    let cropping = config.iter().map(|&[low, high, _]| [-low, -high, 0]).collect();
    let cropped = b.pad(site.g, 0.0, cropping, &lengths);
    let own = b.slice(cropped, vec![0; shape.len()], lengths, strides);
    if !site.wanted[1] {
        return vec![(0, own)];
    }
    let [all, kept] = [site.g, own].map(|x| {
        let x = b.real(x);
        b.sum(x, (0..shape.len()).collect())
    });
    let rest = b.binary(crate::program::Binary::Subtract, all, kept);
    let bound = b.shape(site.operand(1));
    vec![(0, own), (1, b.reshape(rest, &bound))]
}

pub(super) fn concatenate(b: &mut Builder, axis: usize, site: &Site) -> Gradients {
    let mut start = 0;
    let part = |(number, &id): (usize, &usize)| {
        let shape = b.shape(id);
        let mut starts = vec![0; shape.len()];
        starts[axis] = start;
        start += shape[axis];
        let strides = vec![1; shape.len()];
        site.wanted[number].then(|| (number, b.slice(site.g, starts, shape, strides)))
    };
    site.instruction.inputs.iter().enumerate().filter_map(part).collect()
}

pub(super) fn stack(b: &mut Builder, axis: usize, site: &Site) -> Gradients {
    let shape = b.shape(site.g);
    let part = |(number, &id): (usize, &usize)| {
        let (mut starts, mut lengths) = (vec![0; shape.len()], shape.clone());
        (starts[axis], lengths[axis]) = (number, 1);
        let slice = b.slice(site.g, starts, lengths, vec![1; shape.len()]);
        let own = b.shape(id);
        (number, b.reshape(slice, &own))
    };
    let wanted = site.instruction.inputs.iter().enumerate().filter(|(number, _)| site.wanted[*number]);
    wanted.map(part).collect()
}

/// The gradient among zeros.
pub(super) fn slice(b: &mut Builder, attrs: &Slice, site: &Site) -> Gradients {
    let (whole, part) = (b.shape(site.operand(0)), b.shape(site.g));
    let config = (0..whole.len()).map(|axis| {
        let (start, step) = (attrs.starts[axis], attrs.strides[axis]);
        let covered = part[axis].saturating_sub(1) * step + usize::from(part[axis] > 0);
        [start as i64, (whole[axis] - start - covered) as i64, step as i64 - 1]
    });
    let config = config.collect();
    vec![(0, b.pad(site.g, 0.0, config, &whole))]
}

/// The order that undoes one.
pub(super) fn inverse(axes: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; axes.len()];
    axes.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
    inverse
}
