//! From the program of a region to a tape.

use std::collections::HashMap;

use super::kernel::{division, kernel};
use super::{chains, slots};
use crate::cpu::Kernel;
use crate::cpu::tape::{self, LONG_ROW, LONGEST_ROW, Place, Step, Tape, What, folds};
use crate::ops::{cast, unary};
use crate::program::{Binary, Constant, Extent, Fold, Fused, Instruction, Op, Reduce};
use crate::scalar;
use crate::types::Type;

/// The tape of a region; `None` when it holds an operation that tapes have no loop for.
pub(crate) fn compile(attrs: &Fused) -> Option<Tape> {
    write(attrs, false)
}

/// [`compile`], for who sees to it that integers which others are divided by are [above zero](Tape::divisors).
pub(crate) fn compile_divided(attrs: &Fused) -> Option<Tape> {
    write(attrs, true)
}

fn write(attrs: &Fused, is_checked: bool) -> Option<Tape> {
    let body = &attrs.body;
    if attrs.shape.contains(&0) {
        return None;
    }
    let row = attrs.shape[attrs.shape.len() - attrs.row_axes..].iter().product();
    let row = if attrs.row_axes == 0 { attrs.shape.iter().product() } else { row };
    let mut writer = Writer { row, is_checked, ..Writer::default() };
    for (number, (ty, extent)) in body.inputs.iter().zip(&attrs.extents).enumerate() {
        writer.values.push(Known { place: Place::Input(number), dtype: ty.dtype, extent: *extent });
    }
    for instruction in &body.instructions {
        let value = writer.instruction(instruction)?;
        writer.values.push(value);
    }
    let outputs: Vec<Known> = body.outputs.iter().map(|&id| writer.values[id]).collect();
    let shapes = body.output_types().into_iter().map(|ty| ty.shape);
    let outputs: Vec<_> = outputs.into_iter().zip(shapes).collect();
    writer.finish(attrs, &outputs)
}

/// A value of the region.
#[derive(Clone, Copy, PartialEq)]
struct Known {
    /// A [`Place::Slot`] is the number of a value here, and a buffer in the end.
    place: Place,
    dtype: Type,
    extent: Extent,
}

#[derive(Default)]
struct Writer {
    /// Elements of a row.
    row: usize,
    values: Vec<Known>,
    steps: Vec<Step>,
    /// Results of steps, and constants.
    made: usize,
    constants: Vec<(usize, Vec<u8>)>,
    /// What the casts and repetitions of values are.
    casts: HashMap<(PlaceKey, Type), Known>,
    spread: HashMap<PlaceKey, Known>,
    /// Whether somebody sees to it that divisors are above zero.
    is_checked: bool,
    divisors: Vec<usize>,
}

/// A place that was not written twice names a value.
type PlaceKey = (u8, usize);

fn key(place: Place) -> PlaceKey {
    match place {
        Place::Input(i) => (0, i),
        Place::Slot(i) => (1, i),
        Place::Output(i) => (2, i),
    }
}

impl Writer {
    fn instruction(&mut self, instruction: &Instruction) -> Option<Known> {
        let operands: Vec<Known> = instruction.inputs.iter().map(|&id| self.values[id]).collect();
        let out = instruction.outputs.first()?.dtype;
        match (&instruction.op, operands.as_slice()) {
            (Op::Constant(constant), []) => self.constant(constant, out),
            // They change the shape of a value and not its elements, or repeat what is repeated where it is read.
            (Op::Reshape | Op::Broadcast(_), &[x]) => Some(x),
            (Op::Reduce(reduce), &[x]) => self.reduce(reduce, x, out),
            (Op::Clip, &[x, low, high]) => self.clip(x, low, high, out),
            (Op::Select, &[condition, a, b]) => {
                let condition = self.truth(condition)?;
                self.elementwise(&Op::Select, &[condition, a, b], out)
            }
            (op, operands) => self.elementwise(op, operands, out),
        }
    }

    fn constant(&mut self, constant: &Constant, dtype: Type) -> Option<Known> {
        let known = self.known(dtype, Extent::One);
        self.constants.push((self.made - 1, constant.bytes.clone()));
        Some(known)
    }

    fn known(&mut self, dtype: Type, extent: Extent) -> Known {
        self.made += 1;
        Known { place: Place::Slot(self.made - 1), dtype, extent }
    }

    fn elementwise(&mut self, op: &Op, operands: &[Known], out: Type) -> Option<Known> {
        let types: Vec<Type> = operands.iter().map(|x| x.dtype).collect();
        let kernel = kernel(op, &types, out).or_else(|| self.division(op, operands, out))?;
        let extent = largest(operands.iter().map(|x| x.extent));
        let one = self.one(&kernel, operands, extent);
        let mut from = Vec::with_capacity(operands.len());
        for (i, (&x, dtype)) in operands.iter().zip(&kernel.operands).enumerate() {
            let x = self.cast(x, *dtype)?;
            let is_one = one.is_some_and(|(one, _)| one == i);
            from.push(if is_one { x } else { self.extended(x, extent) }.place);
        }
        let result = self.known(kernel.result, extent);
        self.steps.push(Step { what: What::Kernel(kernel), from, to: result.place, extent, one });
        self.cast(result, out)
    }

    /// The operand that is one element beside many of the others, where the kernel has a loop for that.
    fn one(&self, kernel: &Kernel, operands: &[Known], extent: Extent) -> Option<(usize, Extent)> {
        let is_one = |(i, x): &(usize, &Known)| match x.extent {
            Extent::One => extent != Extent::One && kernel.takes_one(*i),
            Extent::Row => extent == Extent::Whole && self.row >= LONG_ROW && kernel.takes_one(*i),
            Extent::Whole => false,
        };
        operands.iter().enumerate().find(is_one).map(|(i, x)| (i, x.extent))
    }

    fn cast(&mut self, x: Known, dtype: Type) -> Option<Known> {
        if x.dtype == dtype {
            return Some(x);
        }
        if let Some(known) = self.casts.get(&(key(x.place), dtype)) {
            return Some(*known);
        }
        let kernel = cast::kernel(x.dtype, dtype)?;
        let result = self.known(dtype, x.extent);
        match self.element(x) {
            Some(element) => self.constants.push((self.made - 1, kernel.element(element))),
            None => {
                let (what, from) = (What::Kernel(kernel), vec![x.place]);
                self.steps.push(Step { what, from, to: result.place, extent: x.extent, one: None });
            }
        }
        self.casts.insert((key(x.place), dtype), result);
        Some(result)
    }

    /// The element of a constant.
    fn element(&self, x: Known) -> Option<&[u8]> {
        self.constants.iter().find(|(value, _)| x.place == Place::Slot(*value)).map(|(_, element)| &**element)
    }

    /// The loop of a division that cannot fail.
    fn division(&mut self, op: &Op, operands: &[Known], out: Type) -> Option<Kernel> {
        let &[left, right] = operands else { return None };
        let kernel = division(op, &[left.dtype, right.dtype], out)?;
        match (right.place, self.element(right)) {
            (_, Some(element)) => (scalar::to_f64(right.dtype, element)? > 0.0).then_some(kernel),
            (Place::Input(number), _) if self.is_checked && right.extent == Extent::One => {
                self.divisors.push(number);
                Some(kernel)
            }
            _ => None,
        }
    }

    /// A value of one element for each row in the whole of the row, where it is needed so.
    fn extended(&mut self, x: Known, extent: Extent) -> Known {
        if x.extent != Extent::Row || extent != Extent::Whole {
            return x;
        }
        if let Some(known) = self.spread.get(&key(x.place)) {
            return *known;
        }
        let result = self.known(x.dtype, Extent::Whole);
        let what = What::Spread(x.dtype.size());
        self.steps.push(Step { what, from: vec![x.place], to: result.place, extent: Extent::Whole, one: None });
        self.spread.insert(key(x.place), result);
        result
    }

    fn truth(&mut self, x: Known) -> Option<Known> {
        if x.dtype == Type::U8 {
            return Some(x);
        }
        let result = self.known(Type::U8, x.extent);
        let what = What::Kernel(unary::truth_kernel(x.dtype)?);
        self.steps.push(Step { what, from: vec![x.place], to: result.place, extent: x.extent, one: None });
        Some(result)
    }

    /// The larger of operand and lower bound, and the smaller of this and the upper bound.
    fn clip(&mut self, x: Known, low: Known, high: Known, out: Type) -> Option<Known> {
        if !out.is_float() && [x, low, high].iter().any(|operand| operand.dtype != out) {
            return None;
        }
        let raised = self.elementwise(&Op::Binary(Binary::Max), &[low, x], out)?;
        self.elementwise(&Op::Binary(Binary::Min), &[high, raised], out)
    }

    fn reduce(&mut self, reduce: &Reduce, x: Known, out: Type) -> Option<Known> {
        let x = if matches!(reduce.fold, Fold::All | Fold::Any) { x } else { self.cast(x, out)? };
        let x = self.extended(x, Extent::Whole);
        let fold = folds(reduce.fold, x.dtype)?;
        let result = self.known(fold.result(), Extent::Row);
        let step =
            Step { what: What::Fold(fold), from: vec![x.place], to: result.place, extent: Extent::Row, one: None };
        self.steps.push(step);
        self.cast(result, out)
    }

    /// Results are computed in their own memory, all else in buffers.
    fn finish(mut self, attrs: &Fused, outputs: &[(Known, Vec<usize>)]) -> Option<Tape> {
        let row = self.row;
        let whole: usize = attrs.shape.iter().product();
        for (number, (known, shape)) in outputs.iter().enumerate() {
            let extent = known.extent;
            let len = if extent == Extent::Whole { whole } else { whole / row };
            if extent == Extent::One || shape.iter().product::<usize>() != len {
                return None;
            }
            let taken = outputs[..number].iter().any(|(other, _)| other.place == known.place);
            if taken || matches!(known.place, Place::Input(_)) {
                let what = What::Kernel(cast::kernel(known.dtype, known.dtype)?);
                self.steps.push(Step { what, from: vec![known.place], to: Place::Output(number), extent, one: None });
            }
        }
        for (number, (known, _)) in outputs.iter().enumerate() {
            if !self.steps.iter().any(|step| step.to == Place::Output(number)) {
                self.rename(known.place, Place::Output(number));
            }
        }
        if row > LONGEST_ROW && self.steps.iter().any(needs_whole_rows) {
            return None;
        }
        self.steps = chains::join(self.steps);
        let fixed: Vec<usize> = self.constants.iter().map(|&(value, _)| value).collect();
        let slots = slots::assign(&mut self.steps, &fixed);
        let constants: Vec<_> = self.constants.into_iter().enumerate().map(|(i, (_, bytes))| (i, bytes)).collect();
        let inputs: Vec<_> =
            attrs.body.inputs.iter().zip(&attrs.extents).map(|(ty, extent)| (ty.dtype, *extent)).collect();
        let outputs = outputs.iter().map(|(known, shape)| (known.dtype, known.extent, shape.clone())).collect();
        let width = tape::width(&self.steps, &inputs);
        let alone = alone(&self.steps);
        Some(Tape {
            shape: attrs.shape.clone(),
            row,
            inputs,
            constants,
            alone,
            divisors: self.divisors,
            steps: self.steps,
            outputs,
            slots,
            width,
        })
    }

    fn rename(&mut self, from: Place, to: Place) {
        for step in &mut self.steps {
            step.from.iter_mut().chain([&mut step.to]).filter(|place| **place == from).for_each(|place| *place = to);
        }
    }
}

/// The places of one element in all that no step reads repeated.
fn alone(steps: &[Step]) -> Vec<Place> {
    let reads = |step: &Step| step.from.iter().copied().enumerate().collect::<Vec<_>>();
    let is_one = |step: &Step, operand| step.reads_one(operand) == Some(Extent::One);
    let all = |alone: bool| {
        steps.iter().flat_map(move |step| reads(step).into_iter().filter(move |(i, _)| is_one(step, *i) == alone))
    };
    let repeated: Vec<Place> = all(false).map(|(_, place)| place).collect();
    all(true).map(|(_, place)| place).filter(|place| !repeated.contains(place)).collect()
}

/// Whether a step reads what was folded from a row.
fn needs_whole_rows(step: &Step) -> bool {
    match step.what {
        What::Fold(_) => !matches!(step.to, Place::Output(_)),
        What::Kernel(_) | What::Chain(_) => {
            step.extent == Extent::Row || (0..step.from.len()).any(|i| step.reads_one(i) == Some(Extent::Row))
        }
        What::Spread(_) => true,
    }
}

fn largest(extents: impl Iterator<Item = Extent>) -> Extent {
    extents.fold(Extent::One, |a, b| match (a, b) {
        (Extent::Whole, _) | (_, Extent::Whole) => Extent::Whole,
        (Extent::Row, _) | (_, Extent::Row) => Extent::Row,
        _ => Extent::One,
    })
}
