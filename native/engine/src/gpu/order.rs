//! What depends on the order of the elements of lines: sorting, and where the extremum is.

use burn_cubecl::tensor::CubeTensor;

use super::formula::Formula;
use super::functions::narrowing;
use super::kernel::arg::{self, Ties};
use super::kernel::merge;
use super::launch::{self, Operand, buffer};
use super::lines::{Lines, Order, key, threads, words};
use super::step::Step;
use super::transfer::{empty, from_cube, reshaped, word};
use super::{Adapter, layouts};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{ArgReduce, Direction, Extremum, Op, TieBreak};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// Sorted elements, their places, or the first of both.
pub(super) fn run(call: &Call<'_>, adapter: Adapter) -> Result<Option<Vec<Value>>> {
    let [x] = call.inputs.as_slice() else { return Ok(None) };
    let fits = |out: &TensorType| word(out.dtype).is_some() && (out.dtype.is_int() || out.dtype == x.dtype());
    if x.dtype().is_complex() || x.is_empty() || !call.outputs.iter().all(fits) {
        return Ok(None);
    }
    let (axis, descending) = match call.op {
        Op::Sort(attrs) | Op::Argsort(attrs) => (attrs.axis, attrs.direction == Direction::Desc),
        _ => (x.rank().saturating_sub(1), true),
    };
    if axis >= x.rank().max(1) {
        return Ok(None);
    }
    if !call.outputs.iter().all(|out| fits_in(&out.shape, &x.shape(), matches!(call.op, Op::TopK(_)))) {
        return Ok(None);
    }
    let lines = Lines::new(&x.shape(), axis, false);
    let order = Order { descending, nan: if descending { 0 } else { u32::MAX } };
    let mut formula = Formula::new(1);
    let key = key(&mut formula, 0, x.dtype(), order);
    let Some(keys) = lines.read(x, formula, key, adapter)? else { return Ok(None) };
    let (_, places) = sorted(keys, lines.rows, lines.len, adapter)?;
    let elements = |out: &TensorType| {
        let Some(from) = Operand::loaded(x, x.rank().max(1)) else { return Ok(None) };
        let mut formula = Formula::new(2);
        let element = lines.element(&mut formula);
        lines.write(&places, vec![from], (formula.steps, element), out, adapter).map(Some)
    };
    let numbers = |out: &TensorType| lines.write(&places, vec![], numbered(out.dtype), out, adapter).map(Some);
    let results: Option<Vec<Value>> = match (call.op, call.outputs) {
        (Op::Sort(_), [out]) => elements(out)?.map(|value| vec![value]),
        (Op::Argsort(_), [out]) => numbers(out)?.map(|value| vec![value]),
        (Op::TopK(_), [out, found]) => elements(out)?.zip(numbers(found)?).map(|(x, place)| vec![x, place]),
        _ => None,
    };
    Ok(results)
}

/// Whether results of `cut` are those of a tensor of `shape`, or where they may be fewer, the first along its last axis.
fn fits_in(cut: &[usize], shape: &[usize], fewer: bool) -> bool {
    match (cut, shape) {
        ([lead @ .., some], [leading @ .., all]) if fewer => lead == leading && some <= all,
        _ => cut == shape,
    }
}

/// The steps from a place as a word to one of `dtype`.
fn numbered(dtype: Type) -> (Vec<Step>, usize) {
    match narrowing(dtype) {
        Some(function) => (vec![Step::One(function, 0)], 1),
        None => (vec![], 0),
    }
}

/// The keys of rows in order, and the places that they had; equal ones keep their order.
pub(super) fn sorted(keys: CubeTensor, rows: usize, len: usize, adapter: Adapter) -> Result<(CubeTensor, CubeTensor)> {
    let ty = words(&[rows, len]);
    let (mut keys, mut places) = (keys.clone(), keys);
    let mut width = 1;
    while width == 1 || width < len {
        let (sorted_keys, sorted) = (empty(&ty, adapter)?, empty(&ty, adapter)?);
        let (client, count, dim) = threads(adapter, rows * len)?;
        let layout = layouts::words(adapter, &[(rows * len) as u32, len as u32, width as u32])?;
        // SAFETY: a thread reads within its line, and writes to the place of its element there, which is no other's.
        unsafe {
            merge::merge::launch_unchecked(
                client,
                count,
                dim,
                buffer(&keys),
                buffer(&places),
                buffer(&sorted_keys),
                buffer(&sorted),
                layout,
                width == 1,
            )
        };
        (keys, places) = (sorted_keys, sorted);
        width *= 2;
    }
    Ok((keys, places))
}

/// Where the largest or smallest element of lines or of all is; the last NaN when there is one.
pub(super) fn arg_reduce(attrs: &ArgReduce, call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([x], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    if x.is_empty() || x.dtype().is_complex() || !out.dtype.is_int() || word(out.dtype).is_none() {
        return Ok(None);
    }
    let lines = match attrs.axis {
        Some(axis) if axis < x.rank() => Lines::new(&x.shape(), axis, false),
        Some(_) => return Ok(None),
        None => Lines::new(&[x.len()], 0, false),
    };
    if out.shape.iter().product::<usize>() != lines.rows {
        return Ok(None);
    }
    let order = Order { descending: attrs.extremum == Extremum::Min, nan: u32::MAX };
    let mut formula = Formula::new(1);
    let key = key(&mut formula, 0, x.dtype(), order);
    let Some(keys) = lines.read(x, formula, key, adapter)? else { return Ok(None) };
    let ties = Ties { last: attrs.tie_break == TieBreak::High, last_nan: x.dtype().is_float() };
    let found = best(keys, lines.rows, lines.len, ties, adapter)?;
    let found = from_cube(Type::U32, found);
    let (steps, result) = numbered(out.dtype);
    let Some(found) = reshaped(&found, Type::U32, &out.shape) else { return Ok(None) };
    let Some(operand) = Operand::broadcast(&found, &out.shape) else { return Ok(None) };
    let types = std::slice::from_ref(out);
    let shape = out.shape.clone();
    let work = launch::Work { adapter, shape, operands: vec![operand], steps, results: vec![result], types };
    Ok(work.run()?.pop())
}

/// Elements that a thread looks through.
const PART: usize = 32;

/// The place of the largest key of each row.
pub(super) fn best(keys: CubeTensor, rows: usize, len: usize, ties: Ties, adapter: Adapter) -> Result<CubeTensor> {
    let (mut keys, mut places, mut len) = (keys.clone(), keys, len);
    let mut first = true;
    loop {
        let parts = if len > 2 * PART { len.div_ceil(PART) } else { 1 };
        let ty = words(&[rows, parts]);
        let (best_keys, found) = (empty(&ty, adapter)?, empty(&ty, adapter)?);
        let (client, count, dim) = threads(adapter, rows * parts)?;
        let layout = layouts::words(adapter, &[(rows * parts) as u32, len as u32, parts as u32])?;
        // SAFETY: a thread reads within its line, and writes to its own place.
        unsafe {
            arg::best::launch_unchecked(
                client,
                count,
                dim,
                buffer(&keys),
                buffer(&places),
                buffer(&best_keys),
                buffer(&found),
                layout,
                first,
                ties,
            )
        };
        (keys, places, len, first) = (best_keys, found, parts, false);
        if parts == 1 {
            return Ok(places);
        }
    }
}
