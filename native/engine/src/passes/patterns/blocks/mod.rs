//! Joins products of matrices with the regions between or after them.

use std::collections::HashMap;

use super::graph::Graph;
use crate::ops::fused::compile;
use crate::passes::writer::Writer;
use crate::program::{Blocked, Dot, Extent, Fused, Instruction, Op, Pattern, Program};
use crate::types::{TensorType, Type};

/// Operands of up to so many elements are summed in double precision, on their own.
const SMALL: usize = 256;

/// Fewest rows that are worth to be cut in blocks.
const ROWS: usize = 16;

/// Fewest rows of a product that is followed by a region alone: fewer are shared out by columns.
const LINEAR_ROWS: usize = 256;

/// Fewest elements of the product: fewer stay in the cache anyway.
const ELEMENTS: usize = 256 * 1024;

/// Longest sums of such a product: where they are longer, the right matrix, which is brought in order for each block, costs
/// more than the memory that is passed over once less.
const LINEAR_INNER: usize = 128;

/// The program with products and regions as one where they are an attention or a linear layer.
pub(super) fn join(program: &Program) -> Program {
    let graph = Graph::new(program);
    let chains: Vec<Vec<usize>> = (0..program.instructions.len()).filter_map(|i| chain(&graph, i)).collect();
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.inputs.len()).collect();
    for (i, instruction) in program.instructions.iter().enumerate() {
        let count = instruction.outputs.len();
        let first = match chains.iter().find(|chain| chain.contains(&i)) {
            Some(chain) if chain.last() == Some(&i) => emit_blocked(&graph, chain, &ids, &mut writer),
            // Nobody else reads what is within.
            Some(_) => 0,
            None => {
                let inputs = instruction.inputs.iter().map(|&id| ids[id]).collect();
                writer.emit(instruction.op.clone(), inputs, instruction.outputs.clone())
            }
        };
        ids.extend(first..first + count);
    }
    writer.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}

/// Writes a chain as one operation; answers the id of its first result.
fn emit_blocked(graph: &Graph<'_>, chain: &[usize], ids: &[usize], writer: &mut Writer) -> usize {
    let operands = operands(graph, chain);
    let types: Vec<TensorType> = operands.iter().map(|&id| graph.ty(id).clone()).collect();
    let mut body = Writer::new(&types);
    let mut known: HashMap<usize, usize> = operands.iter().copied().zip(0..).collect();
    let mut results = Vec::new();
    for &i in chain {
        let member = graph.instruction(i);
        let inputs = member.inputs.iter().map(|id| known[id]).collect();
        let first = body.emit(member.op.clone(), inputs, member.outputs.clone());
        results = (first..first + member.outputs.len()).collect();
        known.extend(graph.results(i).zip(first..));
    }
    let outputs = chain.last().map_or(vec![], |&last| graph.instruction(last).outputs.clone());
    let inputs = operands.iter().map(|&id| ids[id]).collect();
    writer.emit(Op::Blocked(Blocked { body: body.finish(results) }), inputs, outputs)
}

/// The values that come from outside of a chain.
fn operands(graph: &Graph<'_>, chain: &[usize]) -> Vec<usize> {
    let is_within = |id: usize| chain.iter().any(|&i| graph.results(i).contains(&id));
    let mut operands: Vec<usize> = Vec::new();
    for &id in chain.iter().flat_map(|&i| &graph.instruction(i).inputs) {
        if !is_within(id) && !operands.contains(&id) {
            operands.push(id);
        }
    }
    operands
}

/// The instructions that run together with a region.
fn chain(graph: &Graph<'_>, region: usize) -> Option<Vec<usize>> {
    let Op::Fused(fused) = &graph.instruction(region).op else { return None };
    let scores = scores(graph, fused, region)?;
    let columns = scores.columns;
    let fits = fused.row_axes == 0
        || columns % fused.shape[fused.shape.len() - fused.row_axes..].iter().product::<usize>() == 0;
    let tape = compile(fused).filter(|tape| fits && !tape.may_decline());
    tape?;
    if let Some(last) = weighing(graph, fused, region, &scores) {
        return Some(vec![scores.product, region, last]);
    }
    let elements = fused.shape.iter().product::<usize>();
    let is_worth = scores.rows >= LINEAR_ROWS && elements >= ELEMENTS && scores.inner <= LINEAR_INNER;
    (fused.patterns.contains(&Pattern::Linear) && is_worth).then(|| vec![scores.product, region])
}

/// The product that a region reads.
struct Scores<'a> {
    product: usize,
    dot: &'a Dot,
    rows: usize,
    columns: usize,
    inner: usize,
}

/// The product of floats whose result a region, and nobody else, reads as a whole.
fn scores<'a>(graph: &Graph<'a>, fused: &Fused, region: usize) -> Option<Scores<'a>> {
    let operands = graph.instruction(region).inputs.iter().zip(&fused.extents);
    let mut found = operands.filter(|(id, extent)| {
        let is_whole = **extent == Extent::Whole && graph.ty(**id).shape == fused.shape;
        is_whole && graph.is_read_once(**id)
    });
    found.find_map(|(&id, _)| {
        let (product, instruction) = graph.made_by(id)?;
        let Op::Dot(dot) = &instruction.op else { return None };
        let left = &graph.ty(instruction.inputs[0]).shape;
        let [batch, inner] =
            [&dot.lhs_batch, &dot.lhs_contract].map(|axes| axes.iter().map(|&axis| left[axis]).product::<usize>());
        let rows = graph.len(instruction.inputs[0]).checked_div(batch * inner)?;
        let columns = graph.len(instruction.inputs[1]).checked_div(batch * inner)?;
        is_plain(graph, instruction).then_some(Scores { product, dot, rows, columns, inner })
    })
}

/// Whether a product is of floats that are summed as they are.
fn is_plain(graph: &Graph<'_>, instruction: &Instruction) -> bool {
    let out = instruction.outputs[0].dtype;
    let alike = instruction.inputs.iter().all(|&id| graph.ty(id).dtype == out);
    let is_large = instruction.inputs.iter().any(|&id| graph.len(id) > SMALL);
    [Type::F32, Type::F64].contains(&out) && alike && is_large
}

/// The product that reads a region's rows, and nobody else does.
fn weighing(graph: &Graph<'_>, fused: &Fused, region: usize, scores: &Scores<'_>) -> Option<usize> {
    if !fused.patterns.contains(&Pattern::Attention) || scores.rows < ROWS || scores.columns < 2 {
        return None;
    }
    let mut results = graph.results(region);
    let (Some(weights), None) = (results.next(), results.next()) else { return None };
    let (shape, batch) = (&graph.ty(weights).shape, scores.dot.lhs_batch.len());
    let last = graph.readers(weights).next()?;
    let instruction = graph.instruction(last);
    let Op::Dot(dot) = &instruction.op else { return None };
    let reads = instruction.inputs[0] == weights && graph.is_read_once(weights);
    let by_rows = dot.lhs_contract == [shape.len() - 1] && shape.last() == Some(&scores.columns);
    let same = dot.lhs_batch.iter().copied().eq(0..batch)
        && graph.ty(weights).dtype == graph.instruction(scores.product).outputs[0].dtype;
    (reads && by_rows && same && is_plain(graph, instruction)).then_some(last)
}
