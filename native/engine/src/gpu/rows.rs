//! Regions with folds of rows as one kernel: a softmax or a layer norm reads its rows once.

use burn_cubecl::cubecl::calculate_cube_count_elemwise;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::tensor::CubeTensor;

use super::kernel::rows::rows_region;
use super::known::Known;
use super::launch::{buffer, counted, lost};
use super::layouts::words;
use super::memo::{self, Ready};
use super::reduce::folding;
use super::step::{Fold, Part, RowRead, Rows, Width};
use super::transfer::{empty, from_cube, reshaped};
use super::{Adapter, writer};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{Extent, Fused, Instruction, Op, Program};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// Shorter rows are folded by a thread each, and longer ones do not stay in a cache.
const LENGTHS: std::ops::RangeInclusive<usize> = 32..=16384;

/// Fewest and most threads for a row.
const LANES: (usize, usize) = (32, 256);

/// The results of the region; `None` where it is not one of `f32` with rows of a good length.
pub(super) fn run(attrs: &Fused, call: &Call<'_>, adapter: Adapter) -> Result<Option<Vec<Value>>> {
    let kept = attrs.shape.len() - attrs.row_axes;
    let (rows, length): (usize, usize) = (attrs.shape[..kept].iter().product(), attrs.shape[kept..].iter().product());
    let client = adapter.client()?;
    let buffers = call.inputs.len() + call.outputs.len() + 1;
    let fits = buffers <= client.properties().hardware.max_bindings as usize;
    if !fits || !LENGTHS.contains(&length) || rows == 0 || counted(rows.saturating_mul(LANES.1)).is_err() {
        return Ok(None);
    }
    let mut layout = vec![rows as u32, length as u32, 0, 0, 0];
    let operands = call.inputs.iter().zip(&attrs.extents);
    let reads: Option<Vec<RowRead>> =
        operands.map(|(value, extent)| read(attrs, &value.shape(), *extent, &mut layout)).collect();
    let Some(region) = reads.and_then(|reads| region(attrs, reads, adapter)) else { return Ok(None) };
    let outputs: Vec<TensorType> = call
        .outputs
        .iter()
        .zip(&region.whole)
        .map(|(out, &whole)| TensorType::new(out.dtype, if whole { vec![rows, length] } else { vec![rows] }))
        .collect();
    let elements = |ty: &TensorType| ty.shape.iter().product::<usize>();
    if outputs.iter().zip(call.outputs).any(|(own, out)| elements(own) != elements(out)) {
        return Ok(None);
    }
    let lanes = length.div_ceil(4).next_power_of_two().clamp(LANES.0, LANES.1);
    let kernel = RowsKernel { rows, lanes, layout, region: Known::new(region), outputs };
    memo::keep(Ready::Rows(kernel), call, adapter)
}

/// The kernel of such a region, whose operands are tensors of other places in memory each time.
#[derive(Debug)]
pub(super) struct RowsKernel {
    rows: usize,
    /// Threads for a row.
    lanes: usize,
    layout: Vec<u32>,
    region: Known<Rows>,
    /// The results, by rows.
    outputs: Vec<TensorType>,
}

impl RowsKernel {
    /// Results of these types.
    pub(super) fn run(&self, operands: &[&CubeTensor], types: &[TensorType], adapter: Adapter) -> Result<Vec<Value>> {
        let client = adapter.client()?;
        let results = self.outputs.iter().map(|ty| empty(ty, adapter)).collect::<Result<Vec<_>>>()?;
        let dim = CubeDim::new_1d(self.lanes as u32);
        let layout = words(adapter, &self.layout)?;
        // SAFETY: a block for each row reads and writes inside of its row, and the buffers have as many rows.
        unsafe {
            rows_region::launch_unchecked(
                client,
                calculate_cube_count_elemwise(client, self.rows * self.lanes, dim),
                dim,
                operands.iter().copied().map(buffer).collect(),
                results.iter().map(buffer).collect(),
                layout,
                self.region.clone(),
                self.lanes,
            )
        };
        let values = results.into_iter().zip(types);
        let values = values.map(|(tensor, out)| reshaped(&from_cube(out.dtype, tensor), out.dtype, &out.shape));
        values.collect::<Option<Vec<Value>>>().ok_or_else(lost)
    }
}

/// How an operand of a shape is read; what it says in numbers is added to the layout. `None` where it repeats otherwise than by rows.
fn read(attrs: &Fused, own: &[usize], extent: Extent, layout: &mut Vec<u32>) -> Option<RowRead> {
    let (lead, columns) = attrs.shape.split_at(attrs.shape.len() - attrs.row_axes);
    match extent {
        Extent::One => return Some(RowRead::One),
        Extent::Row => return Some(RowRead::Row),
        Extent::Whole if own == attrs.shape => return Some(RowRead::Whole),
        Extent::Whole => {}
    }
    let missing = attrs.shape.len().checked_sub(own.len())?;
    let own = [&vec![1; missing], own].concat();
    let (own_lead, own_columns) = own.split_at(lead.len());
    let width = match own_columns {
        own if own == columns => Width::Whole,
        own if own.iter().all(|&length| length == 1) => Width::One,
        _ => return None,
    };
    // Axes of rows, and whether the operand repeats along them.
    let axes = lead.iter().zip(own_lead).filter(|(length, _)| **length != 1).map(|(&length, &own)| (length, own == 1));
    let axes: Vec<(usize, bool)> = axes.collect();
    let mut rest = &axes[..];
    let [all, outer, between, inner, share] = [true, false, true, false, true].map(|repeats| {
        let (these, others) = rest.split_at(rest.iter().take_while(|axis| axis.1 == repeats).count());
        rest = others;
        these.iter().map(|axis| axis.0).product::<usize>()
    });
    if !rest.is_empty() || (all > 1 && inner > 1) {
        return None;
    }
    // Rows of the operand that follow each other, how many of the region share one, and after how many of these others come.
    let (rows, share, period) = match inner {
        1 => (outer, between, u32::MAX as usize),
        _ => (inner, share, between * inner),
    };
    match (width, rows, share) {
        (Width::Whole, 1, _) => return Some(RowRead::Column),
        (Width::One, 1, _) => return Some(RowRead::One),
        (Width::Whole, _, 1) if all == 1 && inner == 1 => return Some(RowRead::Whole),
        (Width::One, _, 1) if all == 1 && inner == 1 => return Some(RowRead::Row),
        _ => {}
    }
    layout.extend([share as u32, rows as u32, period as u32]);
    Some(RowRead::Repeated(layout.len() - 3, width))
}

fn region(attrs: &Fused, reads: Vec<RowRead>, adapter: Adapter) -> Option<Rows> {
    let body = &attrs.body;
    let types = body.value_types();
    let inputs = body.inputs.len();
    let folded = |number: &usize| matches!(body.instructions[*number].op, Op::Reduce(_));
    let numbers: Vec<usize> = (0..body.instructions.len()).filter(folded).collect();
    let mut folds = Vec::with_capacity(numbers.len());
    for &number in &numbers {
        let Op::Reduce(reduce) = &body.instructions[number].op else { return None };
        let operand = body.instructions[number].inputs[0];
        let (from, to) = (types[operand].dtype, types[inputs + number].dtype);
        if from != Type::F32 || to != Type::F32 {
            return None;
        }
        let (fold, before): (Fold, _) = folding(reduce.fold, from, to)?;
        if !before.is_empty() {
            return None;
        }
        folds.push((part(body, &numbers, &[operand], adapter)?, fold));
    }
    let extents = extents(attrs);
    let whole: Vec<bool> = body.outputs.iter().map(|&id| extents[id] == Extent::Whole).collect();
    let single = body.outputs.iter().any(|&id| extents[id] == Extent::One);
    let last = part(body, &numbers, &body.outputs, adapter)?;
    (!single && !folds.is_empty()).then_some(Rows { reads, folds, last, whole })
}

/// The steps from operands and folds to some values.
fn part(body: &Program, folds: &[usize], ids: &[usize], adapter: Adapter) -> Option<Part> {
    let (types, inputs) = (body.value_types(), body.inputs.len());
    let is_fold = |id: usize| id >= inputs && folds.contains(&(id - inputs));
    let mut needed = vec![false; types.len()];
    ids.iter().for_each(|&id| needed[id] = true);
    for id in (inputs..types.len()).rev().filter(|&id| !is_fold(id)) {
        if needed[id] {
            body.instructions[id - inputs].inputs.iter().for_each(|&read| needed[read] = true);
        }
    }
    let mut program = Program { inputs: body.inputs.clone(), ..Program::default() };
    let mut places: Vec<usize> = (0..inputs).collect();
    places.resize(types.len(), 0);
    for &fold in folds {
        places[inputs + fold] = program.inputs.len();
        program.inputs.push(types[inputs + fold].clone());
    }
    for id in (inputs..types.len()).filter(|&id| needed[id] && !is_fold(id)) {
        let instruction = &body.instructions[id - inputs];
        places[id] = program.inputs.len() + program.instructions.len();
        let read = instruction.inputs.iter().map(|&read| places[read]).collect();
        program.instructions.push(Instruction { inputs: read, ..instruction.clone() });
    }
    program.outputs = ids.iter().map(|&id| places[id]).collect();
    let (steps, results) = writer::write(&program)?;
    Some(Part { steps: adapter.steps(&steps), results })
}

/// How many elements each value has.
fn extents(attrs: &Fused) -> Vec<Extent> {
    let mut extents = attrs.extents.clone();
    for instruction in &attrs.body.instructions {
        let size = |extent: &Extent| match extent {
            Extent::One => 0,
            Extent::Row => 1,
            Extent::Whole => 2,
        };
        let read = instruction.inputs.iter().map(|&id| extents[id]).max_by_key(size).unwrap_or(Extent::One);
        extents.push(if matches!(instruction.op, Op::Reduce(_)) { Extent::Row } else { read });
    }
    extents
}
