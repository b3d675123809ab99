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
        write(out, layout, &sums, from, first_row, first_column, tile);
    }
}

/// From one contracted element of a strip to the next, in fours: one more than there are, so that threads of a store meet
/// different banks.
fn pitch(squares: usize) -> usize {
    squares * EDGE + 1
}

/// What a thread brings of a strip: four lines of one contracted element. All that a layout says of them is read before the loop,
/// as after each barrier it would have to be read again. It is as little as can be: with two squares both ways a thread has 128
/// registers on an H200, and one more would halve the threads that a multiprocessor holds.
#[derive(CubeType)]
struct Reader {
    /// Whether there is work for this thread, and where in a strip it is kept.
    works: bool,
    place: u32,
    /// The contracted element in the strip.
    depth: u32,
    /// From one contracted element, or one channel of windows, to the next.
    step: u32,
    /// How many of the lines are some of the operand.
    lines: u32,
    /// Where the first line begins, and from one to the next.
    start: u32,
    line_step: u32,
    /// Of windows, for each line where its example begins, and the place along each axis, the last axis first, as all of these.
    starts: Sequence<u32>,
    places: Sequence<u32>,
    axes: Sequence<Axis>,
}

/// What a layout says of an axis of windows.
#[derive(CubeType)]
struct Axis {
    length: u32,
    gap: u32,
    step: u32,
    kernel: u32,
    dilation: u32,
}

#[cube]
fn reader(
    layout: &[u32],
    batch: u32,
    first: u32,
    #[comptime] strip: Strip,
    #[comptime] squares: usize,
    #[comptime] inner: usize,
    #[comptime] steps: usize,
    #[comptime] lines: usize,
) -> Reader {
    let unit = UNIT_POS;
    let fours = comptime!((squares * EDGE) as u32);
    let inner = comptime!(inner as u32);
    let along_inner = comptime!(strip == Strip::AlongInner);
    let four = if along_inner { unit / inner } else { unit % fours };
    let depth = if along_inner { unit % inner } else { unit / fours };
    let works = unit < fours * inner;
    let mut starts = Sequence::<u32>::new();
    let mut places = Sequence::<u32>::new();
    let mut axes = Sequence::<Axis>::new();
    let count = comptime!(strip.axes());
    let line = first + 4u32 * four;
    let (start, line_step) = (batch * layout[steps], layout[steps + 1]);
    if comptime!(count > 0) {
        #[unroll]
        for i in 0..4usize {
            let line = line + comptime!(i as u32);
            let example = line / layout[WIDTH];
            let mut rest = line - example * layout[WIDTH];
            starts.push(start + example * line_step);
            #[unroll]
            for inverse in 0..count {
                let axis = comptime!(AXES + (count - 1 - inverse) * AXIS);
                let window = rest % layout[axis];
                rest /= layout[axis];
                places.push(window * layout[axis + 1] - layout[axis + 2]);
            }
        }
    }
    #[unroll]
    for inverse in 0..count {
        let axis = comptime!(AXES + (count - 1 - inverse) * AXIS);
        axes.push(Axis {
            length: layout[axis + 3],
            gap: layout[axis + 4],
            step: layout[axis + 5],
            kernel: layout[axis + 6],
            dilation: layout[axis + 7],
        });
    }
    let lines = select(works && line < layout[lines], layout[lines] - line, 0u32.runtime());
    Reader {
        works,
        place: depth * comptime!(pitch(squares) as u32) + four,
        depth,
        step: layout[steps + 2],
        lines,
        start: start + line * line_step,
        line_step,
        starts,
        places,
        axes,
    }
}

/// The four elements of a thread, zeros for those outside of the operand.
#[cube]
fn read(from: &[f32], reader: &Reader, k: u32, end: u32, #[comptime] strip: Strip) -> Four {
    let mut four = Four::new(0.0f32);
    let depth = k + reader.depth;
    let mut channel = depth;
    let mut kernel = Sequence::<u32>::new();
    #[unroll]
    for i in 0..reader.axes.len() {
        let axis = reader.axes.index(i);
        let whole = channel / axis.kernel;
        kernel.push((channel - whole * axis.kernel) * axis.dilation);
        channel = whole;
    }
    let first = if comptime!(strip == Strip::AlongInner) { channel } else { channel * reader.step };
    #[unroll]
    for i in 0..4usize {
        let number = comptime!(i as u32);
        let mut inside = depth < end && number < reader.lines;
        let start = match strip {
            Strip::Windows { .. } => *reader.starts.index(i),
            Strip::AlongLines => reader.start + number,
            _ => reader.start + number * reader.line_step,
        };
        let mut at = first + start;
        #[unroll]
        for j in 0..reader.axes.len() {
            let axis = reader.axes.index(j);
            // What lies before the input wraps around to very large places.
            let mut place = *reader.places.index(comptime!(i * reader.axes.len() + j)) + *kernel.index(j);
            inside = inside && place < axis.length;
            if comptime!(strip.has_gaps()) {
                let whole = place / axis.gap;
                inside = inside && whole * axis.gap == place;
                place = whole;
            }
            at += place * axis.step;
        }
        if inside {
            four.insert(i, from[at as usize]);
        }
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
    #[comptime] inner: usize,
) {
    let at = half * comptime!((inner * pitch(squares)) as u32) + reader.place;
    if comptime!(squares * EDGE * inner != UNITS) {
        if reader.works {
            strips[at as usize] = four;
        }
    } else {
        strips[at as usize] = four;
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
