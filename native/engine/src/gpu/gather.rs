//! Operations that read elements at places which are numbers of other tensors. Places outside are held within: a GPU raises no
//! error.

use super::Adapter;
use super::formula::Formula;
use super::launch::{Operand, Work};
use super::movement::strides;
use crate::error::Result;
use crate::ops::Call;
use crate::program::Op;
use crate::types::{Class, Type};
use crate::value::Value;

/// The result, where the operation is one of these.
pub(super) fn run(call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let out = call.out()?;
    let [x, places @ ..] = call.inputs.as_slice() else { return Ok(None) };
    let fits = !x.is_empty() && !x.dtype().is_complex() && places.iter().all(|places| places.dtype().is_int());
    if !fits || out.dtype != x.dtype() {
        return Ok(None);
    }
    let rank = out.shape.len();
    let mut formula = Formula::new(call.inputs.len());
    let mut operands: Vec<Operand> = call.inputs.iter().filter_map(|value| Operand::loaded(value, rank)).collect();
    let mut gather = Gather { x, own: strides(&x.shape()), formula: &mut formula, sum: None };
    match (call.op, places) {
        (Op::Take(attrs), [places]) => gather.take(attrs.axis, places),
        (Op::TakeAlongAxis(attrs), [places]) => gather.take_along_axis(attrs.axis, places, &mut operands),
        (Op::Gather(attrs), [places]) => gather.gather(&attrs.axes, places),
        (Op::DynamicSlice(attrs), starts) => gather.slice(&attrs.lengths, &attrs.strides, starts),
        _ => return Ok(None),
    }
    let at = match gather.sum {
        Some(sum) => sum,
        None => formula.literal(0),
    };
    let element = formula.load(0, at);
    let types = std::slice::from_ref(out);
    let shape = out.shape.clone();
    let work = Work { adapter, shape, operands, steps: formula.steps, results: vec![element], types };
    Ok(work.run()?.pop())
}

/// The place in the tensor, as it is summed up.
struct Gather<'a> {
    x: &'a Value,
    own: Vec<isize>,
    formula: &'a mut Formula,
    sum: Option<usize>,
}

impl Gather<'_> {
    /// Adds `place` along an axis of the tensor.
    fn add(&mut self, place: usize, axis: usize) {
        let step = self.formula.scaled(place, self.own[axis] as i64);
        self.sum = Some(self.formula.plus(self.sum, step));
    }

    fn length(&self, axis: usize) -> usize {
        self.x.shape()[axis]
    }

    fn add_held(&mut self, place: usize, axis: usize, dtype: Type, span: usize) {
        let most = self.length(axis).saturating_sub(span);
        let held = self.formula.held(place, most, dtype.class() == Class::Signed);
        self.add(held, axis);
    }

    /// The number of an element of `places`, whose axes are those of the result from `first` on, and a last one at `last`.
    fn number(&mut self, shape: &[usize], first: usize, last: i64) -> usize {
        let own = strides(shape);
        let mut sum = None;
        for (axis, &stride) in own.iter().enumerate() {
            let place = self.formula.place(first + axis);
            let step = self.formula.scaled(place, stride as i64);
            sum = Some(self.formula.plus(sum, step));
        }
        let sum = sum.unwrap_or_else(|| self.formula.literal(0));
        self.formula.moved(sum, last)
    }

    fn take(&mut self, axis: usize, places: &Value) {
        for other in (0..self.x.rank()).filter(|&other| other != axis) {
            let to = if other < axis { other } else { other + places.rank() - 1 };
            let place = self.formula.place(to);
            self.add(place, other);
        }
        let number = self.number(&places.shape(), axis, 0);
        let place = self.formula.load(1, number);
        self.add_held(place, axis, places.dtype(), 1);
    }

    fn take_along_axis(&mut self, axis: usize, places: &Value, operands: &mut [Operand]) {
        let shape = places.shape();
        if let Some(operand) = Operand::broadcast(places, &shape) {
            operands[1] = operand;
        }
        for other in (0..self.x.rank()).filter(|&other| other != axis) {
            let place = self.formula.place(other);
            self.add(place, other);
        }
        self.add_held(1, axis, places.dtype(), 1);
    }

    fn gather(&mut self, axes: &[usize], places: &Value) {
        let shape = places.shape();
        let lead = shape.len() - 1;
        // The places of one element lie side by side.
        let grown: Vec<usize> = shape[..lead].to_vec();
        for (number, &axis) in axes.iter().enumerate() {
            let start = self.number(&grown, 0, 0);
            let start = self.formula.scaled(start, axes.len() as i64);
            let at = self.formula.moved(start, number as i64);
            let place = self.formula.load(1, at);
            self.add_held(place, axis, places.dtype(), 1);
        }
        let rest: Vec<usize> = (0..self.x.rank()).filter(|axis| !axes.contains(axis)).collect();
        for (number, axis) in rest.into_iter().enumerate() {
            let place = self.formula.place(lead + number);
            self.add(place, axis);
        }
    }

    fn slice(&mut self, lengths: &[usize], steps: &[usize], starts: &[Value]) {
        for (axis, (&length, &step)) in lengths.iter().zip(steps).enumerate() {
            let place = self.formula.place(axis);
            let place = self.formula.scaled(place, step as i64);
            self.add(place, axis);
            let zero = self.formula.literal(0);
            let start = self.formula.load(axis + 1, zero);
            self.add_held(start, axis, starts[axis].dtype(), length);
        }
    }
}
