//! Regions of slices of a table, and elements that are taken from a region's rows.

use super::Parts;
use crate::cpu;
use crate::error::Result;
use crate::ops::Call;
use crate::ops::index::places;
use crate::program::{Axis, Extent, Instruction};
use crate::value::Value;

/// The region of slices along the first axis of a table. A place outside of it is refused by the operation alone.
pub(super) fn take(parts: &Parts<'_>, take: &Instruction, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    let Some([table, indices]) = parts.read(call, take) else { return Ok(None) };
    let shape = &parts.region.0.shape;
    if table.rank() == 0 || [&indices.shape(), &table.shape()[1..]].concat() != *shape {
        return Err(call.invalid(format!("slices of {} at {} are no region of {shape:?}", table.ty(), indices.ty())));
    }
    let slice = table.shape()[1..].iter().product::<usize>();
    if !slice.is_multiple_of(row(parts)) {
        return Ok(None);
    }
    let operands = parts.operands(call);
    let rows = parts.tape.rows(&operands, true)?;
    let is_inside = cpu::take_rows(&table, &places(call, &indices)?, &rows)?;
    Ok(is_inside.then(|| rows.finish()))
}

/// Elements of the region's rows. An index outside of a row is refused by the operation alone.
pub(super) fn pick(
    parts: &Parts<'_>,
    (attrs, pick): (&Axis, &Instruction),
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    let indices = call.inputs[pick.inputs[1]].clone();
    let (shape, picks) = (&parts.region.0.shape, indices.shape());
    let last = shape.len().saturating_sub(1);
    let is_by_rows = attrs.axis == last && parts.region.0.row_axes == 1 && picks.len() == shape.len();
    if !is_by_rows || picks[..last] != shape[..last] || picks[last] == 0 || parts.tape.may_decline() {
        return Ok(None);
    }
    let [(dtype, Extent::Whole, _)] = parts.tape.outputs[..] else { return Ok(None) };
    let operands = parts.operands(call);
    let rows = parts.tape.rows(&operands, false)?;
    let size = [shape[..last].iter().product(), shape[last]];
    let picked = cpu::pick(&rows, dtype, size, &places(call, &indices)?)?;
    Ok(picked.map(|picked| vec![picked.reshape(&picks)]))
}

/// Elements of a row that the region folds; 1 where it folds none.
fn row(parts: &Parts<'_>) -> usize {
    let region = parts.region.0;
    region.shape[region.shape.len() - region.row_axes..].iter().product()
}
