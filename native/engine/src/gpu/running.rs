//! Running folds along an axis.

use burn_cubecl::tensor::CubeTensor;

use super::formula::Formula;
use super::functions::narrowing;
use super::kernel::scan;
use super::launch::buffer;
use super::lines::{Lines, threads, words};
use super::reduce::folding;
use super::step::{Fold, Step};
use super::transfer::empty;
use super::{Adapter, cast, layouts};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{self, Cumulative};
use crate::value::Value;

/// The fold of the elements up to each one along an axis, or from each one on.
pub(super) fn cumulative(attrs: &Cumulative, call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([x], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    if x.is_empty()
        || x.shape() != out.shape
        || attrs.axis >= x.rank()
        || matches!(attrs.fold, program::Fold::All | program::Fold::Any)
    {
        return Ok(None);
    }
    let Some(x) = cast(x, out.dtype, adapter)? else { return Ok(None) };
    let Some((fold, _)) = folding(attrs.fold, out.dtype, out.dtype) else { return Ok(None) };
    let lines = Lines::new(&x.shape(), attrs.axis, attrs.reverse);
    let Some(rows) = lines.read(&x, Formula::new(1), 0, adapter)? else { return Ok(None) };
    let (running, _) = scanned(&rows, None, [lines.rows, lines.len], fold, adapter)?;
    let settled = match narrowing(out.dtype) {
        Some(function) => (vec![Step::One(function, 0)], 1),
        None => (vec![], 0),
    };
    lines.write(&running, vec![], settled, out, adapter).map(Some)
}

/// Elements that a thread folds one after the other.
const PART: usize = 32;

/// The running folds of rows, which rounding may have `lost` something of: parts of rows are folded, these folds are scanned, and
/// then each part from where it starts. With them what rounding lost, if anybody asked.
fn scanned(
    rows: &CubeTensor,
    lost: Option<&CubeTensor>,
    [count, len]: [usize; 2],
    fold: Fold,
    adapter: Adapter,
) -> Result<(CubeTensor, CubeTensor)> {
    let parts = len.div_ceil(PART);
    let layout = [count * parts, len, parts, 0].map(|number| number as u32);
    let exact = lost.is_none();
    // Nobody reads what an exact row lost.
    let lost = lost.unwrap_or(rows);
    let (client, cubes, dim) = threads(adapter, count * parts)?;
    let (starts, starts_lost) = if parts == 1 {
        (rows.clone(), rows.clone())
    } else {
        let ty = words(&[count, parts]);
        let (total, total_lost) = (empty(&ty, adapter)?, empty(&ty, adapter)?);
        // SAFETY: a thread reads within its line, and writes to its own place.
        unsafe {
            scan::totals::launch_unchecked(
                client,
                cubes.clone(),
                dim,
                buffer(rows),
                buffer(lost),
                buffer(&total),
                buffer(&total_lost),
                layouts::words(adapter, &layout)?,
                PART as u32,
                exact,
                fold,
            )
        };
        scanned(&total, Some(&total_lost), [count, parts], fold, adapter)?
    };
    let running = empty(&words(&[count, len]), adapter)?;
    let running_lost = empty(&words(&if exact { [1, 1] } else { [count, len] }), adapter)?;
    // SAFETY: a thread reads and writes its part of a line, and reads the fold of the part before.
    unsafe {
        scan::scan::launch_unchecked(
            client,
            cubes,
            dim,
            buffer(rows),
            buffer(lost),
            buffer(&starts),
            buffer(&starts_lost),
            buffer(&running),
            buffer(&running_lost),
            layouts::words(adapter, &layout)?,
            PART as u32,
            exact,
            fold,
        )
    };
    Ok((running, running_lost))
}
