//! Products of matrices with a region.

use super::Region;
use crate::cpu::GEMM_ROWS;
use crate::ops::{is_small, is_sum};
use crate::program::{Dot, Instruction, Op, Pattern};
use crate::types::Type;

/// Fewest rows of an attention of one matrix that is worth to be cut in blocks: fewer are shared out by columns.
const ROWS: usize = 16;

/// Fewest matrices that are shared out among the threads instead.
const MATRICES: usize = 8;

/// Products of numbers that one thread does soon enough.
const SHORT: usize = 1 << 20;

/// Fewest rows of a product that is followed by a region alone: fewer are shared out by columns.
const LINEAR_ROWS: usize = 256;

/// Fewest elements of the product: fewer stay in the cache anyway.
const ELEMENTS: usize = 256 * 1024;

/// Longest sums of such a product: where they are longer, the right matrix, which is brought in order for each block, costs
/// more than the memory that is passed over once less.
const LINEAR_INNER: usize = 128;

/// A product, the softmax of its rows, and the product that reads these.
pub(super) fn attention(region: &Region<'_>) -> Option<Vec<usize>> {
    let scores = scores(region, &[Type::F32, Type::F64, Type::F16, Type::BF16])?;
    Some(vec![scores.product, region.number, weighing(region, &scores)?])
}

/// A product of many rows and its region.
pub(super) fn linear(region: &Region<'_>) -> Option<Vec<usize>> {
    let scores = scores(region, &[Type::F32, Type::F64])?;
    let elements = region.fused.shape.iter().product::<usize>();
    let is_worth = scores.rows >= LINEAR_ROWS && elements >= ELEMENTS && scores.inner <= LINEAR_INNER;
    (region.fused.patterns.contains(&Pattern::Linear) && is_worth).then(|| vec![scores.product, region.number])
}

/// A product of few rows to which its region adds.
pub(super) fn sum(region: &Region<'_>) -> Option<Vec<usize>> {
    let scores = scores(region, &[Type::F32, Type::F64])?;
    let are_few = scores.dot.lhs_batch.is_empty() && (2..GEMM_ROWS).contains(&scores.rows);
    // What is added is read by vectors of neighbours.
    let last = region.fused.shape.last();
    let are_lines =
        region.graph.instruction(region.number).inputs.iter().all(|&id| region.graph.ty(id).shape.last() == last);
    let is_worth = are_few && are_lines && is_sum(region.fused);
    (region.is_on(Pattern::Linear) && is_worth).then(|| vec![scores.product, region.number])
}

/// The product that a region reads.
struct Scores<'a> {
    product: usize,
    types: &'a [Type],
    dot: &'a Dot,
    matrices: usize,
    rows: usize,
    columns: usize,
    inner: usize,
}

impl Scores<'_> {
    /// Whether blocks of rows share out the work as well as the product alone would be.
    fn is_shared(&self) -> bool {
        self.rows >= ROWS || self.matrices >= MATRICES || self.columns.saturating_mul(self.rows * self.inner) <= SHORT
    }
}

/// The product, of one of these types, whose rows a region reads.
fn scores<'a>(region: &Region<'a>, types: &'a [Type]) -> Option<Scores<'a>> {
    let (product, instruction) = region.before().find(|(_, instruction)| matches!(instruction.op, Op::Dot(_)))?;
    let Op::Dot(dot) = &instruction.op else { return None };
    let graph = region.graph;
    let left = &graph.ty(instruction.inputs[0]).shape;
    let [batch, inner] =
        [&dot.lhs_batch, &dot.lhs_contract].map(|axes| axes.iter().map(|&axis| left[axis]).product::<usize>());
    let rows = graph.len(instruction.inputs[0]).checked_div(batch * inner)?;
    let columns = graph.len(instruction.inputs[1]).checked_div(batch * inner)?;
    let (shape, row_axes) = (&region.fused.shape, region.fused.row_axes);
    let fits = row_axes == 0 || columns % shape[shape.len() - row_axes..].iter().product::<usize>() == 0;
    let scores = Scores { product, types, dot, matrices: batch, rows, columns, inner };
    (is_large(region, types, instruction) && fits).then_some(scores)
}

/// Whether a product is of one of these types, and of so many numbers that they are summed as they are.
fn is_large(region: &Region<'_>, types: &[Type], instruction: &Instruction) -> bool {
    let [lhs, rhs] = [0, 1].map(|operand| region.graph.len(instruction.inputs[operand]));
    region.is_of(types, instruction) && !is_small(lhs, rhs)
}

/// The product that reads a region's rows, and nobody else does.
fn weighing(region: &Region<'_>, scores: &Scores<'_>) -> Option<usize> {
    if !region.fused.patterns.contains(&Pattern::Attention) || !scores.is_shared() || scores.columns < 2 {
        return None;
    }
    let graph = region.graph;
    let mut results = graph.results(region.number);
    let (Some(weights), None) = (results.next(), results.next()) else { return None };
    let (shape, batch) = (&graph.ty(weights).shape, scores.dot.lhs_batch.len());
    let &last = graph.readers(weights).first()?;
    let instruction = graph.instruction(last);
    let Op::Dot(dot) = &instruction.op else { return None };
    let reads = instruction.inputs[0] == weights && graph.is_read_once(weights);
    let by_rows = dot.lhs_contract == [shape.len() - 1] && shape.last() == Some(&scores.columns);
    let same = dot.lhs_batch.iter().copied().eq(0..batch)
        && graph.ty(weights).dtype == graph.instruction(scores.product).outputs[0].dtype;
    (reads && by_rows && same && is_large(region, scores.types, instruction)).then_some(last)
}
