//! Regions with folds of rows: a kernel for each fold, which computes what it folds on the way, and one for the results.

use super::launch::{Operand, Work};
use super::reduce::{folding, settled};
use super::step::Step;
use super::transfer::reshaped;
use super::{Adapter, placed, writer};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{Extent, Fused, Instruction, Op, Program, Reduce};
use crate::types::TensorType;
use crate::value::Value;

/// The results of the region; `None` where a part of it has no kernel.
pub(super) fn run(attrs: &Fused, call: &Call<'_>, adapter: Adapter) -> Result<Option<Vec<Value>>> {
    let mut stages = Stages::new(attrs, call.inputs.clone(), adapter);
    for (number, instruction) in attrs.body.instructions.iter().enumerate() {
        if let Op::Reduce(reduce) = &instruction.op
            && !stages.fold(reduce, instruction, attrs.body.inputs.len() + number)?
        {
            return Ok(None);
        }
    }
    let mut results = Vec::with_capacity(call.outputs.len());
    for (&id, out) in attrs.body.outputs.iter().zip(call.outputs) {
        let Some(value) = stages.result(id, out)? else { return Ok(None) };
        results.push(value);
    }
    Ok(Some(results))
}

/// Steps, which value of theirs is meant, and their operands.
type Written = (Vec<Step>, usize, Vec<Operand>);

/// The values of a region that are in memory, and how many elements each value has.
struct Stages<'a> {
    attrs: &'a Fused,
    adapter: Adapter,
    values: Vec<Option<Value>>,
    extents: Vec<Extent>,
}

impl<'a> Stages<'a> {
    fn new(attrs: &'a Fused, inputs: Vec<Value>, adapter: Adapter) -> Self {
        let mut extents = attrs.extents.clone();
        for instruction in &attrs.body.instructions {
            let read = instruction.inputs.iter().map(|&id| extents[id]);
            let extent = match instruction.op {
                Op::Reduce(_) => Extent::Row,
                _ => read.max_by_key(|extent| size(*extent)).unwrap_or(Extent::One),
            };
            extents.push(extent);
        }
        let mut values: Vec<Option<Value>> = inputs.into_iter().map(Some).collect();
        values.resize(extents.len(), None);
        Self { attrs, adapter, values, extents }
    }

    /// Length of each axis that is kept where rows are folded.
    fn rows(&self) -> &'a [usize] {
        &self.attrs.shape[..self.attrs.shape.len() - self.attrs.row_axes]
    }

    /// Folds the rows of the operand; whether there is a kernel for it.
    fn fold(&mut self, reduce: &Reduce, instruction: &Instruction, id: usize) -> Result<bool> {
        let (operand, Some(out)) = (instruction.inputs[0], instruction.outputs.first()) else { return Ok(false) };
        let from = self.attrs.body.value_types()[operand].dtype;
        let Some((fold, before)) = folding(reduce.fold, from, out.dtype) else { return Ok(false) };
        let Some((mut steps, mut result, operands)) = self.written(operand, &self.attrs.shape)? else {
            return Ok(false);
        };
        for step in before {
            let Step::One(function, _) = step else { continue };
            steps.push(Step::One(function, result));
            result = operands.len() + steps.len() - 1;
        }
        let types = [TensorType::new(out.dtype, self.rows().to_vec())];
        let shape = self.attrs.shape.clone();
        let work = Work { adapter: self.adapter, shape, operands, steps, results: vec![result], types: &types };
        let sum = work.fold(fold, self.rows().len())?;
        self.values[id] = Some(settled(sum, &types[0], self.adapter)?);
        Ok(true)
    }

    /// The value as a result of the region.
    fn result(&self, id: usize, out: &TensorType) -> Result<Option<Value>> {
        let shape = match self.extents[id] {
            Extent::Whole => &self.attrs.shape[..],
            Extent::Row => self.rows(),
            Extent::One => return Ok(None),
        };
        if let Some(value) = &self.values[id] {
            return Ok(reshaped(value, out.dtype, &out.shape));
        }
        let Some((steps, result, operands)) = self.written(id, shape)? else { return Ok(None) };
        let types = [TensorType::new(out.dtype, shape.to_vec())];
        let shape = shape.to_vec();
        let work = Work { adapter: self.adapter, shape, operands, steps, results: vec![result], types: &types };
        Ok(work.run()?.pop().and_then(|value| reshaped(&value, out.dtype, &out.shape)))
    }

    /// The steps from values in memory to a value, in a region of `shape`: all of this one, or one element for each row.
    fn written(&self, id: usize, shape: &[usize]) -> Result<Option<Written>> {
        let (program, read) = self.slice(id);
        let most = self.adapter.client()?.properties().hardware.max_bindings as usize;
        if read.len() + 2 > most {
            return Ok(None);
        }
        let operands: Option<Vec<Operand>> = read.iter().map(|&id| self.operand(id, shape)).collect();
        let written = writer::write(&program).zip(operands);
        Ok(written.map(|((steps, results), operands)| (steps, results[0], operands)))
    }

    fn operand(&self, id: usize, shape: &[usize]) -> Option<Operand> {
        let value = self.values[id].as_ref()?;
        if shape.len() == self.attrs.shape.len() && shape == self.attrs.shape {
            return placed(self.attrs, value, self.extents[id]);
        }
        match self.extents[id] {
            Extent::One => Operand::broadcast(&reshaped(value, value.dtype(), &[])?, shape),
            Extent::Row => Operand::broadcast(&reshaped(value, value.dtype(), shape)?, shape),
            Extent::Whole => None,
        }
    }

    /// The part of the body that makes a value of those in memory, and which of these it reads.
    fn slice(&self, id: usize) -> (Program, Vec<usize>) {
        let body = &self.attrs.body;
        let count = body.inputs.len();
        let mut needed = vec![false; self.values.len()];
        needed[id] = true;
        for at in (0..=id).rev().filter(|&at| at >= count) {
            if needed[at] && self.values[at].is_none() {
                body.instructions[at - count].inputs.iter().for_each(|&read| needed[read] = true);
            }
        }
        let read: Vec<usize> = (0..=id).filter(|&at| needed[at] && self.values[at].is_some()).collect();
        let types = body.value_types();
        let mut places = vec![0; self.values.len()];
        read.iter().enumerate().for_each(|(place, &at)| places[at] = place);
        let mut program = Program { inputs: read.iter().map(|&at| types[at].clone()).collect(), ..Program::default() };
        for at in (count..=id).filter(|&at| needed[at] && self.values[at].is_none()) {
            let instruction = &body.instructions[at - count];
            places[at] = read.len() + program.instructions.len();
            let inputs = instruction.inputs.iter().map(|&read| places[read]).collect();
            program.instructions.push(Instruction { inputs, ..instruction.clone() });
        }
        program.outputs = vec![places[id]];
        (program, read)
    }
}

fn size(extent: Extent) -> usize {
    match extent {
        Extent::One => 0,
        Extent::Row => 1,
        Extent::Whole => 2,
    }
}
