//! Where in each window the extremum is.

use std::mem::MaybeUninit;

use super::WindowAxis;
use super::grid::Grid;
use super::side::{ANY, LANES, pick, reach};
use crate::cpu::block::{build_parts, vectorized};
use crate::cpu::tasks::CHUNK;
use crate::cpu::{Number, Total, View, for_number, value};
use crate::error::Result;
use crate::program::Extremum;
use crate::value::Value;

/// Fills in the positions that the windows of some rows choose, given the number of the first row; called through a
/// pointer, since the types of what is compared and of what is added are independent.
type Choose<'a> = &'a (dyn Fn(usize, &mut [usize]) + Sync);

/// The row-major position, as s64, of the element that each window of `x` chooses: the last of the largest or of the
/// smallest, but it starts from its first element and keeps it if that is NaN. All elements of the windows exist.
pub(crate) fn extrema(x: &Value, axes: &[WindowAxis], extremum: Extremum) -> Result<Value> {
    choosing(x, axes, extremum, &|grid, choose| {
        let rows = (CHUNK / (grid.row * grid.taps.len())).max(1);
        let places = build_parts(grid.rows() * grid.row, rows * grid.row, &|part, places| {
            let mut chosen = vec![0; places.len()];
            choose(part * rows, &mut chosen);
            places.iter_mut().zip(chosen).for_each(|(place, chosen)| {
                place.write(chosen as i64);
            });
        });
        let counts: Vec<usize> = axes.iter().map(|axis| axis.count).collect();
        Ok(value(&counts, places))
    })
}

/// A tensor of the shape of `x` and the scalar `init`, to which each element of `source` is added where its window
/// [chooses](extrema) an element of `x`.
pub(crate) fn add_at_extrema(
    x: &Value,
    axes: &[WindowAxis],
    extremum: Extremum,
    source: &Value,
    init: &Value,
) -> Result<Value> {
    let [source, init] = [source, init].map(|operand| operand.clone().contiguous());
    choosing(x, axes, extremum, &|grid, choose| {
        for_number!(source.dtype(), T => {
            let (source, init) = (View::<T>::new(&source)?, View::<T>::new(&init)?);
            Ok(value(&x.shape(), add_at::<T>(grid, choose, &source, init[0])))
        })
    })
}

/// What `run` makes of the windows of `x` and their choices.
fn choosing(
    x: &Value,
    axes: &[WindowAxis],
    extremum: Extremum,
    run: &dyn Fn(&Grid, Choose<'_>) -> Result<Value>,
) -> Result<Value> {
    let (x, grid) = (x.clone().contiguous(), Grid::new(axes));
    for_number!(x.dtype(), T => {
        let x = View::<T>::new(&x)?;
        match extremum {
            Extremum::Max => run(&grid, &|row, places| choose_rows(&grid, &x, row, places, |new, best| new >= best)),
            Extremum::Min => run(&grid, &|row, places| choose_rows(&grid, &x, row, places, |new, best| new <= best)),
        }
    })
}

fn add_at<T: Number>(grid: &Grid, choose: Choose<'_>, source: &[T], init: T) -> Vec<T> {
    let (block, rows) = (grid.block, grid.rows() / grid.blocks.max(1));
    let group = (CHUNK / block.max(1)).max(1);
    build_parts(grid.blocks * block, group * block, &|part, sums| {
        let mut places = vec![0; rows * grid.row];
        for (i, sums) in sums.chunks_exact_mut(block.max(1)).enumerate() {
            let number = part * group + i;
            sums.fill(MaybeUninit::new(init));
            choose(number * rows, &mut places);
            for (&place, source) in places.iter().zip(&source[number * places.len()..]) {
                let sum = &mut sums[place - number * block];
                // SAFETY: all sums of the block have been set above.
                let before = unsafe { sum.assume_init() };
                sum.write(T::from_total(before.total().plus(source.total())));
            }
        }
    })
}

/// The choices of the rows from number `first` on.
fn choose_rows<T: Number>(
    grid: &Grid,
    x: &[T],
    first: usize,
    places: &mut [usize],
    wins: impl Fn(T, T) -> bool + Copy,
) {
    vectorized(
        #[inline(always)]
        || {
            for (row, places) in (first..).zip(places.chunks_exact_mut(grid.row)) {
                let at = grid.first(row);
                match grid.step {
                    1 => choose_row::<T, 1>(grid, x, at, places, wins),
                    2 => choose_row::<T, 2>(grid, x, at, places, wins),
                    _ => choose_row::<T, ANY>(grid, x, at, places, wins),
                }
            }
        },
    );
}

/// The choices of a row whose first window begins at element `first`.
#[inline(always)]
fn choose_row<T: Number, const STEP: usize>(
    grid: &Grid,
    x: &[T],
    first: usize,
    places: &mut [usize],
    wins: impl Fn(T, T) -> bool + Copy,
) {
    let (step, last) = (grid.step, grid.taps.last().copied().unwrap_or_default());
    for (i, places) in places.chunks_mut(LANES).enumerate() {
        let at = first + i * LANES * step;
        if at + last + reach(step) > x.len() || u32::try_from(last).is_err() {
            choose_singly(grid, x, at, places, wins);
            continue;
        }
        let mut best = pick::<T, STEP>(x, at, step);
        let mut chosen = [0; LANES];
        for &tap in &grid.taps[1..] {
            let new = pick::<T, STEP>(x, at + tap, step);
            for k in 0..LANES {
                let won = wins(new[k], best[k]);
                chosen[k] = if won { tap as u32 } else { chosen[k] };
                best[k] = if won { new[k] } else { best[k] };
            }
        }
        (at..).step_by(step).zip(places).zip(chosen).for_each(|((at, place), tap)| *place = at + tap as usize);
    }
}

/// [`choose_row`] of the last windows of a tensor, past which there is nothing to read.
#[inline(always)]
fn choose_singly<T: Number>(grid: &Grid, x: &[T], first: usize, places: &mut [usize], wins: impl Fn(T, T) -> bool) {
    for (at, place) in (first..).step_by(grid.step).zip(places) {
        *place = grid.taps.iter().fold(at, |best, tap| if wins(x[at + tap], x[best]) { at + tap } else { best });
    }
}
