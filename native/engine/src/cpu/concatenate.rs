//! Tensors joined along an axis.

use burn_flex::FlexTensor;

use super::block::{build, put_all};
use super::memory;
use super::stored::{Stored, for_width, stored};
use crate::error::Result;
use crate::value::Value;

/// The plain `parts`, of which there is one, joined along `axis`; they agree in type and in all other axes.
pub(crate) fn concatenate(parts: &[Value], axis: usize) -> Result<Value> {
    let parts: Vec<Value> = parts.iter().map(|part| part.clone().contiguous()).collect();
    let tensors = parts.iter().map(memory).collect::<Result<Vec<_>>>()?;
    let joined = for_width!(tensors[0].dtype().size(), T => join::<T>(&tensors, axis));
    Ok(Value::from_flex(parts[0].dtype(), joined))
}

fn join<T: Stored>(parts: &[&FlexTensor], axis: usize) -> FlexTensor {
    let mut shape = parts[0].layout().shape().clone();
    let inner: usize = shape[axis + 1..].iter().product();
    let lengths = parts.iter().map(|part| part.layout().shape()[axis]);
    shape[axis] = lengths.clone().sum();
    let row = shape[axis] * inner;
    // The elements of each part, how many of them make up a row, and where they start in it.
    let mut runs = Vec::with_capacity(parts.len());
    let mut start = 0;
    for (part, length) in parts.iter().zip(lengths) {
        runs.push((bytemuck::cast_slice::<u8, T>(part.bytes()), length * inner, start));
        start += length * inner;
    }
    let out = build(shape.num_elements(), &|first, mut out| {
        if out.is_empty() {
            return;
        }
        let (mut number, within) = (first / row, first % row);
        let mut index = runs.partition_point(|&(_, _, start)| start <= within) - 1;
        let mut done = within - runs[index].2;
        while !out.is_empty() {
            let (source, length, _) = runs[index];
            let count = (length - done).min(out.len());
            let (place, rest) = out.split_at_mut(count);
            put_all(place, &source[number * length + done..][..count]);
            (out, index, done) = (rest, index + 1, 0);
            if index == runs.len() {
                (number, index) = (number + 1, 0);
            }
        }
    });
    stored(out, shape, parts[0].dtype())
}
