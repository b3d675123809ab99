//! Slices of a table with a region, and a region with the elements that are taken from it.

use super::Region;
use crate::program::{Axis, Op, Pattern};

/// Slices along the first axis of a table and their region.
pub(super) fn embedding(region: &Region<'_>) -> Option<Vec<usize>> {
    let is_take = |op: &Op| matches!(op, Op::Take(Axis { axis: 0 }));
    let (number, take) = region.before().find(|(_, instruction)| is_take(&instruction.op))?;
    let (table, shape) = (region.graph.ty(take.inputs[0]), &region.fused.shape);
    let slice = table.shape[1..].iter().product::<usize>();
    let row = shape[shape.len() - region.fused.row_axes..].iter().product::<usize>();
    let is_plain = table.dtype == take.outputs[0].dtype && !table.dtype.is_packed() && !table.dtype.is_complex();
    let comes_by_rows = region.fused.row_axes == 0 || slice.is_multiple_of(row);
    (region.is_on(Pattern::Embedding) && is_plain && comes_by_rows).then(|| vec![number, region.number])
}

/// A region of rows, such as logarithms of probabilities, of which some elements, and nothing else, are read.
pub(super) fn cross_entropy(region: &Region<'_>) -> Option<Vec<usize>> {
    let (graph, last) = (region.graph, region.fused.shape.len().checked_sub(1)?);
    let mut results = graph.results(region.number);
    let (Some(rows), None) = (results.next(), results.next()) else { return None };
    let &reader = graph.readers(rows).first().filter(|_| graph.is_read_once(rows))?;
    let pick = graph.instruction(reader);
    let is_by_rows = matches!(&pick.op, Op::TakeAlongAxis(attrs) if attrs.axis == last) && region.fused.row_axes == 1;
    // A hook has none.
    let (whole, [out]) = (graph.ty(rows), pick.outputs.as_slice()) else { return None };
    let fits = pick.inputs[0] == rows && whole.shape == region.fused.shape && whole.dtype == out.dtype;
    let is_less = out.shape.get(last) < whole.shape.get(last);
    let is_loss = region.fused.patterns.contains(&Pattern::CrossEntropy);
    (is_loss && is_by_rows && fits && is_less).then(|| vec![region.number, reader])
}
