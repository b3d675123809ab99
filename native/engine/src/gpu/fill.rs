//! Operations whose results are written part by part.

use super::formula::Formula;
use super::launch::{Operand, Target, Work};
use super::movement::strides;
use super::transfer::{empty, from_cube};
use super::{Adapter, cast};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{Op, Pad};
use crate::types::{Class, TensorType};
use crate::value::Value;

/// The result, where the operation is one of these.
pub(super) fn run(call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let out = call.out()?;
    if out.dtype.is_complex() {
        return Ok(None);
    }
    let elements = if matches!(call.op, Op::PutSlice) { call.inputs.len().min(2) } else { call.inputs.len() };
    let mut inputs = call.inputs.clone();
    for input in &mut inputs[..elements] {
        let Some(same) = cast(input, out.dtype, adapter)? else { return Ok(None) };
        *input = same;
    }
    let filling = Filling { out, adapter };
    match (call.op, inputs.as_slice()) {
        (Op::Pad(attrs), [x, with]) => filling.padded(attrs, x, with),
        (Op::Concatenate(attrs), parts) => filling.joined(attrs.axis, parts, false),
        (Op::Stack(attrs), parts) => filling.joined(attrs.axis, parts, true),
        (Op::PutSlice, [x, slice, starts @ ..]) => filling.put(x, slice, starts),
        _ => Ok(None),
    }
}

struct Filling<'a> {
    out: &'a TensorType,
    adapter: Adapter,
}

impl Filling<'_> {
    fn work(&self, shape: Vec<usize>, operands: Vec<Operand>) -> Work<'_> {
        let types = std::slice::from_ref(self.out);
        Work { adapter: self.adapter, shape, operands, steps: vec![], results: vec![0], types }
    }

    /// The parts one after the other along an axis, which is a new one where they are stacked.
    fn joined(&self, axis: usize, parts: &[Value], stacked: bool) -> Result<Option<Value>> {
        let tensor = empty(self.out, self.adapter)?;
        let mut steps = strides(&self.out.shape);
        let step = steps[axis] as usize;
        if stacked {
            steps.remove(axis);
        }
        let mut start = 0;
        for part in parts {
            let shape = part.shape();
            let Some(operand) = Operand::broadcast(part, &shape) else { return Ok(None) };
            let length = if stacked { 1 } else { shape[axis] };
            self.work(shape, vec![operand]).write(Target::Strided(start, steps.clone()), &tensor)?;
            start += step * length;
        }
        Ok(Some(from_cube(self.out.dtype, tensor)))
    }

    /// The padding everywhere, then the elements that stay between it.
    fn padded(&self, attrs: &Pad, x: &Value, with: &Value) -> Result<Option<Value>> {
        let tensor = empty(self.out, self.adapter)?;
        let own = strides(&self.out.shape);
        let Some(padding) = Operand::broadcast(with, &self.out.shape) else { return Ok(None) };
        self.work(self.out.shape.clone(), vec![padding]).write(Target::Strided(0, own.clone()), &tensor)?;
        let Some(mut operand) = Operand::broadcast(x, &x.shape()) else { return Ok(None) };
        let (mut shape, mut start, mut steps) = (x.shape(), 0, own);
        for (axis, &[low, _, interior]) in attrs.config.iter().enumerate() {
            let (first, count) = kept(shape[axis], self.out.shape[axis], low, interior);
            operand.start += first * strides(&x.shape())[axis] as usize;
            start += ((low + first as i64 * (interior + 1)).max(0)) as usize * steps[axis] as usize;
            steps[axis] *= (interior + 1) as isize;
            shape[axis] = count;
        }
        self.work(shape, vec![operand]).write(Target::Strided(start, steps), &tensor)?;
        Ok(Some(from_cube(self.out.dtype, tensor)))
    }

    /// The tensor, and over it the slice at starts that are held within it.
    fn put(&self, x: &Value, slice: &Value, starts: &[Value]) -> Result<Option<Value>> {
        if starts.iter().any(|start| !start.dtype().is_int()) {
            return Ok(None);
        }
        let tensor = empty(self.out, self.adapter)?;
        let own = strides(&self.out.shape);
        let (shape, rank) = (slice.shape(), slice.rank());
        let whole = Operand::broadcast(x, &self.out.shape).zip(Operand::broadcast(slice, &shape));
        let Some((whole, part)) = whole else { return Ok(None) };
        self.work(self.out.shape.clone(), vec![whole]).write(Target::Strided(0, own.clone()), &tensor)?;
        let mut operands = vec![part];
        operands.extend(starts.iter().filter_map(|start| Operand::loaded(start, rank)));
        let mut formula = Formula::new(operands.len());
        let mut at = formula.literal(0);
        for (axis, start) in starts.iter().enumerate() {
            let zero = formula.literal(0);
            let first = formula.load(axis + 1, zero);
            let most = self.out.shape[axis] - shape[axis];
            let held = formula.held(first, most, start.dtype().class() == Class::Signed);
            let place = formula.place(axis);
            let place = formula.plus(Some(held), place);
            let step = formula.scaled(place, own[axis] as i64);
            at = formula.plus(Some(at), step);
        }
        Work { steps: formula.steps, ..self.work(shape, operands) }.write(Target::At(at), &tensor)?;
        Ok(Some(from_cube(self.out.dtype, tensor)))
    }
}

/// The first of `length` elements that is not cropped, and how many of them are in a result of `out` elements.
fn kept(length: usize, out: usize, low: i64, interior: i64) -> (usize, usize) {
    let step = interior + 1;
    let first = if low < 0 { (-low + step - 1) / step } else { 0 };
    let count = (out as i64 - low + step - 1).div_euclid(step).min(length as i64) - first;
    (first.min(length as i64) as usize, count.max(0) as usize)
}
