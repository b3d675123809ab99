//! Attention by blocks of rows, so that scores are never in memory as a whole.

use burn_cubecl::tensor::CubeTensor;

use super::launch::{Operand, Target, Work};
use super::movement::strides;
use super::transfer::{empty, from_cube, reshaped};
use super::{Adapter, movement, product, rows, staged};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{Dot, Extent, Fused, Instruction, Op, Program, Slice};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// Scores that are in memory at once. Fewer are computed at once anyway.
const SCORES: usize = 1 << 24;

/// Products of queries and keys, what is done to their rows, and the products of these with values; `None` where all of it fits
/// in memory, or where it is something else.
pub(super) fn run(call: &Call<'_>, adapter: Adapter) -> Result<Option<Vec<Value>>> {
    let [plan] = call.nested else { return Ok(None) };
    let Some(attention) = Attention::of(plan.program(), call, adapter) else { return Ok(None) };
    if attention.fused.shape.iter().product::<usize>() <= SCORES {
        return Ok(None);
    }
    let out = call.out()?;
    let tensor = empty(out, adapter)?;
    for block in blocks(attention.lead(), SCORES / attention.columns()) {
        let Some(result) = attention.block(&block)? else { return Ok(None) };
        attention.write(&block, &result, out, &tensor)?;
    }
    Ok(Some(vec![from_cube(out.dtype, tensor)]))
}

/// The first index along each axis of rows, and how many.
type Block = Vec<(usize, usize)>;

/// Rows with these axes in blocks of `most` at most, but of one at least: along one axis, with all of the axes after it.
fn blocks(lead: &[usize], most: usize) -> Vec<Block> {
    let inner = |axis: usize| lead[axis + 1..].iter().product::<usize>();
    let Some(cut) = (0..lead.len()).find(|&axis| inner(axis) <= most.max(1)) else { return vec![vec![]] };
    let step = (most / inner(cut)).max(1);
    let mut blocks: Vec<Block> = vec![vec![]];
    for (axis, &length) in lead.iter().enumerate() {
        let parts: Vec<(usize, usize)> = match axis.cmp(&cut) {
            std::cmp::Ordering::Less => (0..length).map(|at| (at, 1)).collect(),
            std::cmp::Ordering::Equal => (0..length).step_by(step).map(|at| (at, step.min(length - at))).collect(),
            std::cmp::Ordering::Greater => vec![(0, length)],
        };
        blocks = blocks.iter().flat_map(|block| parts.iter().map(|&part| [&block[..], &[part]].concat())).collect();
    }
    blocks
}

struct Attention<'a> {
    call: &'a Call<'a>,
    adapter: Adapter,
    scores: (&'a Dot, &'a Instruction),
    fused: &'a Fused,
    region: &'a Instruction,
    last: (&'a Dot, &'a Instruction),
}

impl<'a> Attention<'a> {
    /// `None` for what is no attention in `f32` whose rows are the last axis of the scores.
    fn of(program: &'a Program, call: &'a Call<'a>, adapter: Adapter) -> Option<Self> {
        let [first, region, second] = &program.instructions[..] else { return None };
        let (Op::Dot(dot), Op::Fused(fused), Op::Dot(last)) = (&first.op, &region.op, &second.op) else { return None };
        let (made, rank, batch) = (program.inputs.len(), fused.shape.len(), dot.lhs_batch.len());
        let single = |instruction: &Instruction, shape: Option<&[usize]>| match &instruction.outputs[..] {
            [out] => out.dtype == Type::F32 && shape.is_none_or(|shape| out.shape == shape),
            _ => false,
        };
        let all_single =
            single(first, Some(&fused.shape)) && single(region, Some(&fused.shape)) && single(second, None);
        let comes_whole = region
            .inputs
            .iter()
            .zip(&fused.extents)
            .all(|(&id, extent)| id < made || id == made && *extent == Extent::Whole);
        let outer = [&first.inputs[..], &second.inputs[1..]].concat().iter().all(|&id| id < made);
        let by_rows = fused.row_axes == 1
            && last.lhs_contract == [rank - 1]
            && last.lhs_batch.iter().copied().eq(0..batch)
            && second.inputs[0] == made + 1
            && program.outputs == [made + 2];
        let attention = Self { call, adapter, scores: (dot, first), fused, region, last: (last, second) };
        let queries = call.inputs.get(first.inputs[0])?;
        let is_lead = queries.rank() + 1 == rank + dot.lhs_contract.len();
        (all_single && comes_whole && outer && by_rows && is_lead && attention.columns() > 0).then_some(attention)
    }

    fn lead(&self) -> &[usize] {
        &self.fused.shape[..self.fused.shape.len() - 1]
    }

    fn columns(&self) -> usize {
        self.fused.shape[self.fused.shape.len() - 1]
    }

    /// The rows of the result that belong to a block of the scores.
    fn block(&self, block: &Block) -> Result<Option<Value>> {
        let (dot, first) = self.scores;
        let (last, second) = self.last;
        let (queries, keys, values) =
            (self.input(first.inputs[0]), self.input(first.inputs[1]), self.input(second.inputs[1]));
        // Rows of queries are those of scores; of keys and values only what belongs to the same matrix does.
        let free = (0..queries.rank()).filter(|axis| !dot.lhs_batch.contains(axis) && !dot.lhs_contract.contains(axis));
        let rows: Vec<usize> = dot.lhs_batch.iter().copied().chain(free).collect();
        let (Some(queries), Some(keys), Some(values)) = (
            self.part(queries, &rows, block)?,
            self.part(keys, &dot.rhs_batch, block)?,
            self.part(values, &last.rhs_batch, block)?,
        ) else {
            return Ok(None);
        };
        let shape: Vec<usize> = block.iter().map(|&(_, length)| length).chain([self.columns()]).collect();
        let Some(scores) = self.product(first, vec![queries, keys], &shape)? else { return Ok(None) };
        let Some(weights) = self.weights(scores, block, &shape)? else { return Ok(None) };
        let lead = [&shape[..shape.len() - 1], &self.call.out()?.shape[shape.len() - 1..]].concat();
        self.product(second, vec![weights, values], &lead)
    }

    fn input(&self, id: usize) -> &Value {
        &self.call.inputs[id]
    }

    fn product(&self, instruction: &Instruction, inputs: Vec<Value>, shape: &[usize]) -> Result<Option<Value>> {
        let Op::Dot(dot) = &instruction.op else { return Ok(None) };
        let outputs = [TensorType::new(Type::F32, shape)];
        product::dot(dot, &self.step(&instruction.op, inputs, &outputs), self.adapter)
    }

    fn step<'b>(&'b self, op: &'b Op, inputs: Vec<Value>, outputs: &'b [TensorType]) -> Call<'b> {
        Call::plain(op, inputs, outputs, self.call.device)
    }

    /// The region of a block of scores.
    fn weights(&self, scores: Value, block: &Block, shape: &[usize]) -> Result<Option<Value>> {
        let mut inputs = Vec::with_capacity(self.region.inputs.len());
        for (&id, extent) in self.region.inputs.iter().zip(&self.fused.extents) {
            let operand = match self.call.inputs.get(id) {
                Some(value) => self.operand(value, *extent, block)?,
                None => Some(scores.clone()),
            };
            let Some(operand) = operand else { return Ok(None) };
            inputs.push(operand);
        }
        let fused = Fused { shape: shape.to_vec(), ..self.fused.clone() };
        let outputs = [TensorType::new(Type::F32, shape)];
        let call = self.step(&self.region.op, inputs, &outputs);
        let results = match rows::run(&fused, &call, self.adapter)? {
            Some(results) => Some(results),
            None => staged::run(&fused, &call, self.adapter)?,
        };
        Ok(results.and_then(|mut results| results.pop()))
    }

    /// The elements of an operand of the region that belong to a block.
    fn operand(&self, value: &Value, extent: Extent, block: &Block) -> Result<Option<Value>> {
        match extent {
            Extent::One => Ok(Some(value.clone())),
            Extent::Row => match reshaped(value, value.dtype(), self.lead()) {
                Some(rows) => self.part(&rows, &(0..block.len()).collect::<Vec<_>>(), block),
                None => Ok(None),
            },
            Extent::Whole => {
                let Some(missing) = self.fused.shape.len().checked_sub(value.rank()) else { return Ok(None) };
                let axes: Vec<usize> = (missing.min(block.len())..block.len()).map(|axis| axis - missing).collect();
                self.part(value, &axes, &block[missing.min(block.len())..].to_vec())
            }
        }
    }

    /// The elements along some axes that belong to a block; what repeats along one belongs to all.
    fn part(&self, value: &Value, axes: &[usize], block: &Block) -> Result<Option<Value>> {
        let mut lengths = value.shape();
        let mut starts = vec![0; lengths.len()];
        for (&axis, &(start, length)) in axes.iter().zip(block) {
            if lengths[axis] != 1 {
                (starts[axis], lengths[axis]) = (start, length);
            }
        }
        if lengths == value.shape() {
            return Ok(Some(value.clone()));
        }
        let out = TensorType::new(value.dtype(), lengths.clone());
        let strides = vec![1; lengths.len()];
        movement::run(&Op::Slice(Slice { starts, lengths, strides }), value, &out, self.adapter)
    }

    /// Puts the rows of a block where they belong.
    fn write(&self, block: &Block, rows: &Value, out: &TensorType, tensor: &CubeTensor) -> Result<()> {
        let (shape, strides) = (rows.shape(), strides(&out.shape));
        let start = block.iter().zip(&strides).map(|(&(start, _), &step)| start * step as usize).sum();
        let operands = Operand::broadcast(rows, &shape).into_iter().collect();
        let types = std::slice::from_ref(out);
        let work = Work { adapter: self.adapter, shape, operands, steps: vec![], results: vec![0], types };
        work.write(Target::Strided(start, strides), tensor)
    }
}
