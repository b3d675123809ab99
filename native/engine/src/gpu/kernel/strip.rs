//! Strips of a product's operands: what each thread brings to shared memory.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::tiled::{AXES, AXIS, EDGE, Four, INNER_BATCHES, UNITS, WIDTH};
use crate::gpu::step::Strip;

/// From one contracted element of a strip to the next, in fours: one more than there are, so that threads of a store meet
/// different banks.
pub(super) fn pitch(squares: usize) -> usize {
    squares * EDGE + 1
}

/// What a thread brings of a strip: four lines of one contracted element. All that a layout says of them is read before the loop,
/// as after each barrier it would have to be read again. It is as little as can be: with two squares both ways a thread has 128
/// registers on an H200, and one more would halve the threads that a multiprocessor holds.
#[derive(CubeType)]
pub(super) struct Reader {
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
pub(super) fn reader(
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
    let outer = batch / layout[INNER_BATCHES];
    let start = outer * layout[steps] + (batch - outer * layout[INNER_BATCHES]) * layout[steps + 1];
    let line_step = layout[steps + 2];
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
        step: layout[steps + 3],
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
pub(super) fn read(from: &[f32], reader: &Reader, k: u32, end: u32, #[comptime] strip: Strip) -> Four {
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
pub(super) fn keep(
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
