//! The kernel of products of `f32`: a block of threads makes a tile of the result. It brings strips of both operands to shared
//! memory, the next ones while it multiplies the last.
//!
//! The scheme is that of V. Volkov and J. Demmel, Benchmarking GPUs to Tune Dense Linear Algebra (2008).

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::gpu::step::{Strip, Tile};

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
/// The steps of an operand for a batch, a line (a row of the left one, a column of the right one) and a contracted element.
/// Of windows a contracted element is a channel, and the step of a line is that of an example.
const LHS: usize = 8;
const RHS: usize = 11;
/// The steps of the result for a batch, a part, a row, a block of columns and a column; and how many columns a block has.
const OUT: usize = 14;
const WIDTH: usize = 19;
/// Eight words for each axis of windows: how many there are, from one to the next, what lies before the input, the input's
/// length with gaps, the length of a gap and an element, the step of an element, the kernel's length, and from one of its
/// elements to the next.
const AXES: usize = 20;
const AXIS: usize = 8;

/// Threads along an edge of a tile. Each makes squares of four by four elements.
pub(crate) const EDGE: usize = 16;
/// Threads of a block.
pub(crate) const UNITS: usize = EDGE * EDGE;

type Four = Vector<f32, Const<4>>;

/// The product `[batch, rows, inner]` by `[batch, inner, columns]`.
#[cube(launch_unchecked)]
pub(crate) fn product(lhs: &[f32], rhs: &[f32], out: &mut [f32], layout: &[u32], #[comptime] tile: Tile) {
    let number = CUBE_POS as u32;
    if number < layout[TILES] {
        let column_tile = number % layout[COLUMN_TILES];
        let rest = number / layout[COLUMN_TILES];
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
        let left = reader(layout, first_row, comptime!(tile.lhs), comptime!(tile.rows), tile);
        let right = reader(layout, first_column, comptime!(tile.rhs), comptime!(tile.columns), tile);

        let next = read(lhs, layout, &left, batch, k, end, comptime!(tile.lhs), LHS, ROWS);
        keep(&mut lhs_strips, &left, next, 0u32.runtime(), comptime!(tile.rows), tile);
        let next = read(rhs, layout, &right, batch, k, end, comptime!(tile.rhs), RHS, COLUMNS);
        keep(&mut rhs_strips, &right, next, 0u32.runtime(), comptime!(tile.columns), tile);
        sync_cube();
        let mut half = 0u32.runtime();
        while k < end {
            k += comptime!(tile.inner as u32);
            let next_left = read(lhs, layout, &left, batch, k, end, comptime!(tile.lhs), LHS, ROWS);
            let next_right = read(rhs, layout, &right, batch, k, end, comptime!(tile.rhs), RHS, COLUMNS);
            multiply(&lhs_strips, &rhs_strips, &mut sums, half, tile);
            half = 1u32 - half;
            keep(&mut lhs_strips, &left, next_left, half, comptime!(tile.rows), tile);
            keep(&mut rhs_strips, &right, next_right, half, comptime!(tile.columns), tile);
            sync_cube();
        }
        let from = batch * layout[OUT] + part * layout[OUT + 1];
        write(out, layout, &sums, from, first_row, first_column, tile);
    }
}

/// From one contracted element of a strip to the next, in fours: one more than there are, so that threads of a store meet
/// different banks.
fn pitch(squares: usize) -> usize {
    squares * EDGE + 1
}

/// What a thread brings of a strip: four lines of one contracted element.
#[derive(CubeType)]
struct Reader {
    /// Whether there is work for this thread.
    works: bool,
    /// The first line.
    line: u32,
    /// The four lines' number in the strip.
    four: u32,
    /// The contracted element in the strip.
    depth: u32,
    /// Of windows, for each line: where its example begins, and its place along each axis.
    places: Sequence<u32>,
}

#[cube]
fn reader(
    layout: &[u32],
    first: u32,
    #[comptime] strip: Strip,
    #[comptime] squares: usize,
    #[comptime] tile: Tile,
) -> Reader {
    let unit = UNIT_POS;
    let fours = comptime!((squares * EDGE) as u32);
    let inner = comptime!(tile.inner as u32);
    let along_inner = comptime!(strip == Strip::AlongInner);
    let four = if along_inner { unit / inner } else { unit % fours };
    let depth = if along_inner { unit % inner } else { unit / fours };
    let line = first + 4u32 * four;
    let mut places = Sequence::<u32>::new();
    if let Strip::Windows { axes, .. } = strip {
        #[unroll]
        for i in 0..4usize {
            let mut rest = line + comptime!(i as u32);
            let example = rest / layout[WIDTH];
            rest %= layout[WIDTH];
            places.push(example * layout[RHS + 1]);
            #[unroll]
            for inverse in 0..axes {
                let axis = comptime!(AXES + (axes - 1 - inverse) * AXIS);
                let window = rest % layout[axis];
                rest /= layout[axis];
                places.push(window * layout[axis + 1] - layout[axis + 2]);
            }
        }
    }
    Reader { works: unit < fours * inner, line, four, depth, places }
}

/// The four elements of a thread, zeros for those outside of the operand.
#[cube]
fn read(
    from: &[f32],
    layout: &[u32],
    reader: &Reader,
    batch: u32,
    k: u32,
    end: u32,
    #[comptime] strip: Strip,
    #[comptime] steps: usize,
    #[comptime] lines: usize,
) -> Four {
    let mut four = Four::new(0.0f32);
    let first = batch * layout[steps];
    let depth = k + reader.depth;
    let mut channel = depth;
    let mut kernel = Sequence::<u32>::new();
    if let Strip::Windows { axes, .. } = strip {
        #[unroll]
        for inverse in 0..axes {
            let axis = comptime!(AXES + (axes - 1 - inverse) * AXIS);
            kernel.push((channel % layout[axis + 6]) * layout[axis + 7]);
            channel /= layout[axis + 6];
        }
    }
    #[unroll]
    for i in 0..4usize {
        let line = reader.line + comptime!(i as u32);
        let mut inside = reader.works && line < layout[lines] && depth < end;
        let mut at = first + channel * layout[steps + 2];
        if let Strip::Windows { axes, gaps } = strip {
            at += *reader.places.index(comptime!(i * (1 + axes)));
            #[unroll]
            for inverse in 0..axes {
                let axis = comptime!(AXES + (axes - 1 - inverse) * AXIS);
                // What lies before the input wraps around to very large places.
                let mut place = *reader.places.index(comptime!(i * (1 + axes) + 1 + inverse)) + *kernel.index(inverse);
                inside = inside && place < layout[axis + 3];
                if gaps {
                    inside = inside && place % layout[axis + 4] == 0u32;
                    place /= layout[axis + 4];
                }
                at += place * layout[axis + 5];
            }
        } else {
            at += line * layout[steps + 1];
        }
        let at = select(inside, at, 0u32.runtime());
        four.insert(i, select(inside, from[at as usize], 0.0f32.runtime()));
    }
    four
}

/// Puts the four elements of a thread into one half of the strips.
#[cube]
fn keep(
    strips: &mut Shared<[Four]>,
    reader: &Reader,
    four: Four,
    half: u32,
    #[comptime] squares: usize,
    #[comptime] tile: Tile,
) {
    if reader.works {
        let at = (half * comptime!(tile.inner as u32) + reader.depth) * comptime!(pitch(squares) as u32) + reader.four;
        strips[at as usize] = four;
    }
}

/// Adds the products of one half of the strips.
#[cube]
fn multiply(lhs: &Shared<[Four]>, rhs: &Shared<[Four]>, sums: &mut Array<Four>, half: u32, #[comptime] tile: Tile) {
    let edge = comptime!(EDGE as u32);
    let (row, column) = (UNIT_POS / edge, UNIT_POS % edge);
    #[unroll]
    for depth in 0..tile.inner {
        let depth = half * comptime!(tile.inner as u32) + comptime!(depth as u32);
        let left = depth * comptime!(pitch(tile.rows) as u32) + row;
        let right = depth * comptime!(pitch(tile.columns) as u32) + column;
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
    }
}

/// Writes the sums of a thread that lie inside of the result.
#[cube]
fn write(
    out: &mut [f32],
    layout: &[u32],
    sums: &Array<Four>,
    from: u32,
    first_row: u32,
    first_column: u32,
    #[comptime] tile: Tile,
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
                let sum = sums[comptime!(r * tile.columns + c / 4)];
                out[(at + row * layout[OUT + 2]) as usize] = sum.extract(comptime!(c % 4));
            }
        }
    }
}
