//! Updates at places that tensors of indices or windows choose. They are sorted by their places, so that those of one place come
//! in their order, and results do not depend on who was first. Places outside are held within: a GPU raises no error.

use burn_cubecl::tensor::CubeTensor;

use super::formula::Formula;
use super::kernel::arg::Ties;
use super::kernel::scatter::{self, Update};
use super::launch::{Operand, Work, buffer};
use super::lines::{Order, key, threads, words};
use super::movement::{self, strides};
use super::reduce::settled;
use super::step::Two;
use super::transfer::{empty, from_cube, reshaped, word};
use super::{Adapter, cast, layouts, order, window};
use crate::error::Result;
use crate::ops::Call;
use crate::ops::window::window_axes;
use crate::program::{Axes, Extremum, Op, WindowScatter};
use crate::types::{Class, TensorType, Type};
use crate::value::Value;

/// Each update added to a row of the tensor, or put there, the last one of a row.
pub(super) fn indexed(attrs: &Axes, call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([x, indices, updates], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    let puts = matches!(call.op, Op::IndexedPut(_));
    let Some(update) = kind(out.dtype, puts) else { return Ok(None) };
    if x.is_empty() || updates.is_empty() || !indices.dtype().is_int() || !fits(attrs, call) {
        return Ok(None);
    }
    let (Some(x), Some(updates)) = (cast(x, out.dtype, adapter)?, cast(updates, out.dtype, adapter)?) else {
        return Ok(None);
    };
    let order: Vec<usize> =
        attrs.axes.iter().copied().chain((0..x.rank()).filter(|axis| !attrs.axes.contains(axis))).collect();
    let shape: Vec<usize> = order.iter().map(|&axis| x.shape()[axis]).collect();
    let columns = shape[attrs.axes.len()..].iter().product();
    let Some(table) = turned(&x, &order, adapter)? else { return Ok(None) };
    let Some(rows) = rows(indices, &shape[..attrs.axes.len()], adapter)? else { return Ok(None) };
    let (Some(table), Some(updates)) = (table.cube(), updates.cube()) else { return Ok(None) };
    let scatter = Scatter { table, updates, columns, len: x.len(), update };
    let written = from_cube(out.dtype, scatter.run(rows, indices.len() / attrs.axes.len(), out.dtype, adapter)?);
    let Some(written) = reshaped(&written, out.dtype, &shape) else { return Ok(None) };
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(to, &from)| back[from] = to);
    let Some(result) = turned(&written, &back, adapter)? else { return Ok(None) };
    settled(result, out, adapter).map(Some)
}

/// Whether there is an index for each of the axes, and an update for each element of the rows that indices mean, or those of
/// vectorized tensors in a line.
fn fits(attrs: &Axes, call: &Call<'_>) -> bool {
    let [x, indices, updates] = call.inputs.as_slice() else { return false };
    let (shape, places) = (x.shape(), indices.shape());
    let [lead @ .., depth] = places.as_slice() else { return false };
    let rest = (0..shape.len()).filter(|axis| !attrs.axes.contains(axis)).map(|axis| shape[axis]);
    let rows: Vec<usize> = lead.iter().copied().chain(rest).collect();
    attrs.axes.len() == *depth
        && *depth > 0
        && attrs.axes.iter().all(|&axis| axis < shape.len())
        && (updates.shape() == rows || (updates.rank() == 1 && updates.len() == rows.iter().product::<usize>()))
        && call.outputs.iter().all(|out| out.shape == shape)
}

/// What an update does to elements of `dtype`.
fn kind(dtype: Type, puts: bool) -> Option<Update> {
    match word(dtype)?.class() {
        Class::Complex => None,
        _ if puts => Some(Update::Put),
        Class::Float => Some(Update::AddF),
        _ => Some(Update::AddI),
    }
}

/// The tensor with its axes in another order.
fn turned(x: &Value, order: &[usize], adapter: Adapter) -> Result<Option<Value>> {
    if order.iter().copied().eq(0..order.len()) {
        return Ok(Some(x.clone()));
    }
    let shape: Vec<usize> = order.iter().map(|&axis| x.shape()[axis]).collect();
    movement::run(&Op::Transpose(Axes { axes: order.to_vec() }), x, &TensorType::new(x.dtype(), shape), adapter)
}

/// The number of the row that each tuple of indices means, among rows of the lengths of the leading axes.
fn rows(indices: &Value, lengths: &[usize], adapter: Adapter) -> Result<Option<CubeTensor>> {
    let Some(operand) = Operand::loaded(indices, 1) else { return Ok(None) };
    let mut formula = Formula::new(1);
    let number = formula.place(0);
    let first = formula.scaled(number, lengths.len() as i64);
    let mut row = None;
    for (axis, &step) in strides(lengths).iter().enumerate() {
        let at = formula.moved(first, axis as i64);
        let index = formula.load(0, at);
        let held = formula.held(index, lengths[axis] - 1, indices.dtype().class() == Class::Signed);
        let step = formula.scaled(held, step as i64);
        row = Some(formula.plus(row, step));
    }
    let Some(row) = row else { return Ok(None) };
    let types = [words(&[indices.len() / lengths.len()])];
    let shape = types[0].shape.clone();
    let work =
        Work { adapter, shape, operands: vec![operand], steps: formula.steps, results: vec![row], types: &types };
    Ok(work.run()?.pop().and_then(|value| value.cube().cloned()))
}

/// Updates of a table of rows.
struct Scatter<'a> {
    /// The table, or one element for all of it.
    table: &'a CubeTensor,
    updates: &'a CubeTensor,
    columns: usize,
    /// Elements of the table.
    len: usize,
    update: Update,
}

impl Scatter<'_> {
    /// The table after so many updates, each of the row whose number is in `rows`; those of rows that are not there are lost.
    fn run(&self, rows: CubeTensor, count: usize, dtype: Type, adapter: Adapter) -> Result<CubeTensor> {
        let (rows, places) = order::sorted(rows, 1, count, adapter)?;
        let result = empty(&TensorType::new(dtype, [self.len]), adapter)?;
        let (client, cubes, dim) = threads(adapter, self.len)?;
        let layout = [self.len, self.columns, count, 0].map(|number| number as u32);
        let same = self.table.meta.shape().iter().product::<usize>() != self.len;
        // SAFETY: a thread reads the rows and places of updates, of these what lies in their buffer, and writes to its own place.
        unsafe {
            scatter::scatter::launch_unchecked(
                client,
                cubes,
                dim,
                buffer(self.table),
                buffer(&rows),
                buffer(&places),
                buffer(self.updates),
                buffer(&result),
                layouts::words(adapter, &layout)?,
                self.update,
                same || self.len == 1,
            )
        };
        Ok(result)
    }
}

/// Elements of all windows together that are looked at on a GPU at once.
const MOST: usize = 1 << 26;

/// A tensor of the initial value, to which each element of a source is added where its window has its extremum: the last of equal
/// ones. The padding holds the initial value too, and what falls there is lost; NaN is chosen only as the first of a window.
pub(super) fn window_scatter(attrs: &WindowScatter, call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([x, source, init], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    let real = |dtype: Type| !dtype.is_complex() && word(dtype).is_some();
    let alike = init.dtype() == x.dtype() || (x.dtype() == Type::F32 && real(init.dtype()));
    let Some(update) = kind(out.dtype, false).filter(|_| alike && real(x.dtype())) else { return Ok(None) };
    let (windows, size) = (source.len(), attrs.windows.dimensions.iter().product::<usize>());
    let counts: Vec<usize> = window_axes(call, &attrs.windows, &x.shape())?.iter().map(|axis| axis.count).collect();
    if x.shape() != out.shape || source.shape() != counts {
        return Ok(None);
    }
    if x.is_empty() || windows == 0 || init.len() != 1 || windows.saturating_mul(size) > MOST || size == 0 {
        return Ok(None);
    }
    let (Some(filler), Some(start)) = (cast(init, x.dtype(), adapter)?, cast(init, out.dtype, adapter)?) else {
        return Ok(None);
    };
    let Some(source) = cast(source, out.dtype, adapter)? else { return Ok(None) };
    let Some(keys) = window_keys(attrs, x, &filler, &source.shape(), adapter)? else { return Ok(None) };
    let found = order::best(keys, windows, size, Ties { last: true, last_nan: false }, adapter)?;
    let Some(rows) = window_places(attrs, &x.shape(), &found, &source.shape(), adapter)? else { return Ok(None) };
    let (Some(table), Some(updates)) = (start.cube(), source.cube()) else { return Ok(None) };
    let scatter = Scatter { table, updates, columns: 1, len: x.len(), update };
    let sums = from_cube(out.dtype, scatter.run(rows, windows, out.dtype, adapter)?);
    let Some(sums) = reshaped(&sums, out.dtype, &out.shape) else { return Ok(None) };
    settled(sums, out, adapter).map(Some)
}

/// A key for each element of each window, the largest where the extremum is.
fn window_keys(
    attrs: &WindowScatter,
    x: &Value,
    filler: &Value,
    counts: &[usize],
    adapter: Adapter,
) -> Result<Option<CubeTensor>> {
    let (windows, rank) = (&attrs.windows, x.rank());
    let operands = Operand::loaded(x, 2 * rank).zip(Operand::loaded(filler, 2 * rank));
    let Some((tensor, filler)) = operands else { return Ok(None) };
    let mut formula = Formula::new(2);
    let steps: Vec<usize> = (0..rank).map(|axis| formula.place(rank + axis)).collect();
    let (at, inside) = window::place(&mut formula, windows, &x.shape(), &steps);
    let zero = formula.literal(0);
    let at = at.unwrap_or(zero);
    let inside = inside.unwrap_or_else(|| formula.literal(1));
    let safe = formula.select(inside, at, zero);
    let (element, padding) = (formula.load(0, safe), formula.load(1, zero));
    let element = formula.select(inside, element, padding);
    let order = Order { descending: attrs.extremum == Extremum::Min, nan: 0 };
    let mut key = key(&mut formula, element, x.dtype(), order);
    if x.dtype().is_float() {
        let mut number = zero;
        for &step in &steps {
            number = formula.two(Two::Or, number, step);
        }
        let (first, most) = (formula.two(Two::EqualI, number, zero), formula.literal(u32::MAX.into()));
        let is_nan = formula.one(super::step::One::IsNan, element);
        let wins = formula.two(Two::And, is_nan, first);
        key = formula.select(wins, most, key);
    }
    let shape = [counts, &windows.dimensions[..]].concat();
    let types = [words(&shape)];
    let operands = vec![tensor, filler];
    let work = Work { adapter, shape, operands, steps: formula.steps, results: vec![key], types: &types };
    Ok(work.run()?.pop().and_then(|value| value.cube().cloned()))
}

/// The place in a tensor of `shape` of the element of each window whose number was `found`; one behind the last for padding.
fn window_places(
    attrs: &WindowScatter,
    shape: &[usize],
    found: &CubeTensor,
    counts: &[usize],
    adapter: Adapter,
) -> Result<Option<CubeTensor>> {
    let found = from_cube(Type::U32, found.clone());
    let Some(found) = reshaped(&found, Type::U32, counts) else { return Ok(None) };
    let Some(operand) = Operand::broadcast(&found, counts) else { return Ok(None) };
    let mut formula = Formula::new(1);
    let mut rest = 0;
    let mut steps = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        (rest, steps[axis]) = formula.divided(rest, attrs.windows.dimensions[axis]);
    }
    let (at, inside) = window::place(&mut formula, &attrs.windows, shape, &steps);
    let mut at = at.unwrap_or(0);
    if let Some(inside) = inside {
        let outside = formula.literal(shape.iter().product::<usize>() as i64);
        at = formula.select(inside, at, outside);
    }
    let types = [words(counts)];
    let shape = counts.to_vec();
    let work = Work { adapter, shape, operands: vec![operand], steps: formula.steps, results: vec![at], types: &types };
    Ok(work.run()?.pop().and_then(|value| value.cube().cloned()))
}
