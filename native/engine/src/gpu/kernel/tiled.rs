//! The kernel of products of `f32`: a block of threads makes a tile of the result. It brings strips of both operands to shared
//! memory, the next ones while it multiplies the last.
//!
//! The scheme is that of V. Volkov and J. Demmel, Benchmarking GPUs to Tune Dense Linear Algebra (2008).

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::function::{bits, number};
use super::region::value_after;
use super::strip::{keep, pitch, read, reader};
use crate::gpu::known::Known;
use crate::gpu::step::{Region, Tile};

/// Where a layout holds the sizes of the product, in how many parts the contracted axis is cut, how long each is, and how many
/// tiles there are: along rows, along columns, in all.
const ROWS: usize = 0;
const INNER: usize = 1;
const COLUMNS: usize = 2;
const PARTS: usize = 3;
const PART: usize = 4;
const ROW_TILES: usize = 5;
const COLUMN_TILES: usize = 6;
const TILES: usize = 7;
/// The steps of an operand for an outer and an inner batch, a line (a row of the left one, a column of the right one) and a
/// contracted element. Of windows a contracted element is a channel, and the step of a line is that of an example.
const LHS: usize = 8;
const RHS: usize = 12;
/// How many inner batches an outer one has.
pub(super) const INNER_BATCHES: usize = 16;
/// The steps of the result for a batch, a part, a row, a block of columns and a column; and how many columns a block has.
const OUT: usize = 17;
pub(super) const WIDTH: usize = 22;
/// Eight words for each axis of windows: how many there are, from one to the next, what lies before the input, the input's
/// length with gaps, the length of a gap and an element, the step of an element, the kernel's length, and from one of its
/// elements to the next.
pub(super) const AXES: usize = 23;
pub(super) const AXIS: usize = 8;

/// Threads along an edge of a tile. Each makes squares of four by four elements.
pub(crate) const EDGE: usize = 16;
/// Threads of a block.
pub(crate) const UNITS: usize = EDGE * EDGE;

pub(super) type Four = Vector<f32, Const<4>>;

/// The product `[batch, rows, inner]` by `[batch, inner, columns]`, each element of which goes through the region `after`.
#[cube(launch_unchecked)]
#[allow(clippy::too_many_arguments, reason = "a kernel has as many as it has buffers")]
pub(crate) fn product(
    lhs: &[f32],
    rhs: &[f32],
    out: &mut [f32],
    layout: &[u32],
    operands: &Sequence<Box<[u32]>>,
    after_layout: &[u32],
    #[comptime] tile: Tile,
    #[comptime] after: Known<Region>,
) {
    let place = CUBE_POS as u32;
    if place < layout[TILES] {
        let column_tile = place % layout[COLUMN_TILES];
        let rest = place / layout[COLUMN_TILES];
        let row_tile = rest % layout[ROW_TILES];
        let rest = rest / layout[ROW_TILES];
        let part = rest % layout[PARTS];
        let batch = rest / layout[PARTS];
        let first_row = row_tile * comptime!(tile.edge(tile.rows) as u32);
        let first_column = column_tile * comptime!(tile.edge(tile.columns) as u32);
        let mut k = part * layout[PART];
        let end = min(k + layout[PART], layout[INNER]);

        let mut lhs_strips = Shared::<[Four]>::new_slice(comptime!(2 * tile.inner * pitch(tile.rows)));
        let mut rhs_strips = Shared::<[Four]>::new_slice(comptime!(2 * tile.inner * pitch(tile.columns)));
        let mut sums = Array::<Four>::new(comptime!(4 * tile.rows * tile.columns));
        #[unroll]
        for i in 0..comptime!(4 * tile.rows * tile.columns) {
            sums[i] = Four::new(0.0f32);
        }
        let (lhs_strip, rhs_strip, inner) = comptime!((tile.lhs, tile.rhs, tile.inner));
        let left = reader(layout, batch, first_row, lhs_strip, tile.rows, inner, LHS, ROWS);
        let right = reader(layout, batch, first_column, rhs_strip, tile.columns, inner, RHS, COLUMNS);

        keep(&mut lhs_strips, &left, read(lhs, &left, k, end, lhs_strip), 0u32.runtime(), tile.rows, inner);
        keep(&mut rhs_strips, &right, read(rhs, &right, k, end, rhs_strip), 0u32.runtime(), tile.columns, inner);
        sync_cube();
        let mut half = 0u32.runtime();
        while k < end {
            k += comptime!(inner as u32);
            let next_left = read(lhs, &left, k, end, lhs_strip);
            let next_right = read(rhs, &right, k, end, rhs_strip);
            multiply(&lhs_strips, &rhs_strips, &mut sums, half, tile);
            half = 1u32 - half;
            keep(&mut lhs_strips, &left, next_left, half, tile.rows, inner);
            keep(&mut rhs_strips, &right, next_right, half, tile.columns, inner);
            sync_cube();
        }
        let from = batch * layout[OUT] + part * layout[OUT + 1];
        write(out, layout, &sums, from, first_row, first_column, operands, after_layout, tile, after);
    }
}

/// Adds the products of one half of the strips.
#[cube]
fn multiply(lhs: &Shared<[Four]>, rhs: &Shared<[Four]>, sums: &mut Array<Four>, half: u32, #[comptime] tile: Tile) {
    let edge = comptime!(EDGE as u32);
    let mut left = half * comptime!((tile.inner * pitch(tile.rows)) as u32) + UNIT_POS / edge;
    let mut right = half * comptime!((tile.inner * pitch(tile.columns)) as u32) + UNIT_POS % edge;
    #[unroll]
    for _depth in 0..tile.inner {
        let mut fours = Sequence::<Four>::new();
        #[unroll]
        for c in 0..tile.columns {
            fours.push(rhs[(right + comptime!((c * EDGE) as u32)) as usize]);
        }
        #[unroll]
        for r in 0..tile.rows {
            let four = lhs[(left + comptime!((r * EDGE) as u32)) as usize];
            #[unroll]
            for i in 0..4usize {
                let x = Four::new(four.extract(i));
                #[unroll]
                for c in 0..tile.columns {
                    let sum = comptime!((4 * r + i) * tile.columns + c);
                    sums[sum] = fma(x, *fours.index(c), sums[sum]);
                }
            }
        }
        left += comptime!(pitch(tile.rows) as u32);
        right += comptime!(pitch(tile.columns) as u32);
    }
}

/// Writes the sums of a thread that lie inside of the result.
#[cube]
#[allow(clippy::too_many_arguments, reason = "as the kernel")]
fn write(
    out: &mut [f32],
    layout: &[u32],
    sums: &Array<Four>,
    from: u32,
    first_row: u32,
    first_column: u32,
    operands: &Sequence<Box<[u32]>>,
    after_layout: &[u32],
    #[comptime] tile: Tile,
    #[comptime] after: Known<Region>,
) {
    let edge = comptime!(EDGE as u32);
    let first_row = first_row + UNIT_POS / edge * 4u32;
    let first_column = first_column + UNIT_POS % edge * 4u32;
    #[unroll]
    for c in 0..comptime!(4 * tile.columns) {
        let column = first_column + comptime!((c / 4 * EDGE * 4 + c % 4) as u32);
        let block = column / layout[WIDTH];
        let at = from + block * layout[OUT + 3] + (column - block * layout[WIDTH]) * layout[OUT + 4];
        #[unroll]
        for r in 0..comptime!(4 * tile.rows) {
            let row = first_row + comptime!((r / 4 * EDGE * 4 + r % 4) as u32);
            if column < layout[COLUMNS] && row < layout[ROWS] {
                let sum = sums[comptime!(r * tile.columns + c / 4)].extract(comptime!(c % 4));
                let at = at + row * layout[OUT + 2];
                if comptime!(after.steps.is_empty()) {
                    out[at as usize] = sum;
                } else {
                    let value = value_after(bits(sum), operands, after_layout, at, comptime!(after.clone()));
                    out[at as usize] = number(value);
                }
            }
        }
    }
}
