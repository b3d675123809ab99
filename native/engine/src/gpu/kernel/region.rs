//! The kernel of a region: each thread computes an element of all results.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::apply;
use crate::gpu::known::Known;
use crate::gpu::step::{Read, Region, Step, Write};

/// Where a layout holds how many results there are, how many elements are folded into each, in chunks of how many, in how many
/// chunks, and a zero; and where the lengths of the axes begin, which the strides of operands follow.
pub(crate) const COUNT: usize = 0;
pub(crate) const FOLDED: usize = 1;
pub(crate) const CHUNK: usize = 2;
pub(crate) const CHUNKS: usize = 3;
pub(crate) const ZERO: usize = 4;
pub(crate) const LENGTHS: usize = 5;

#[cube(launch_unchecked)]
pub(crate) fn map_region(
    operands: &Sequence<Box<[u32]>>,
    results: &mut Sequence<Box<[u32]>>,
    layout: &[u32],
    #[comptime] region: Known<Region>,
) {
    let number = ABSOLUTE_POS as u32;
    if number < layout[COUNT] {
        let places = places(layout, number, comptime!(region.clone()));
        let values = values(Sequence::<u32>::new(), operands, &places, layout, number, comptime!(region.clone()));
        let at = match comptime!(region.write) {
            Write::Each => number,
            Write::Strided(operand) => strided(&places, layout, operand, comptime!(region.rank)),
            Write::At(value) => *values.index(value),
        };
        #[unroll]
        for i in 0..region.results.len() {
            let result = *values.index(comptime!(region.results[i]));
            let to = results.index_mut(i);
            to[at as usize] = result;
        }
    }
}

/// The only result of a region for an element whose first value is known already.
#[cube]
pub(crate) fn value_after(
    first: u32,
    operands: &Sequence<Box<[u32]>>,
    layout: &[u32],
    number: u32,
    #[comptime] region: Known<Region>,
) -> u32 {
    let places = places(layout, number, comptime!(region.clone()));
    let mut given = Sequence::<u32>::new();
    given.push(first);
    let values = values(given, operands, &places, layout, number, comptime!(region.clone()));
    *values.index(comptime!(region.results[0]))
}

/// The only result of a region for an element.
#[cube]
pub(crate) fn value(
    operands: &Sequence<Box<[u32]>>,
    layout: &[u32],
    number: u32,
    #[comptime] region: Known<Region>,
) -> u32 {
    let places = places(layout, number, comptime!(region.clone()));
    let values = values(Sequence::<u32>::new(), operands, &places, layout, number, comptime!(region.clone()));
    *values.index(comptime!(region.results[0]))
}

/// All values of a region for an element, those that are `given` first.
#[cube]
fn values(
    given: Sequence<u32>,
    operands: &Sequence<Box<[u32]>>,
    places: &Sequence<u32>,
    layout: &[u32],
    number: u32,
    #[comptime] region: Known<Region>,
) -> Sequence<u32> {
    let mut values = given;
    #[unroll]
    for i in 0..region.reads.len() {
        let at = address(places, layout, number, comptime!(region.reads[i]), comptime!(region.rank));
        let operand = operands.index(i);
        values.push(operand[at as usize]);
    }
    #[unroll]
    for i in 0..region.steps.len() {
        let value =
            step(operands, &values, places, number, layout[ZERO], comptime!(region.steps[i]), comptime!(region.rank));
        values.push(value);
    }
    values
}

/// The place of an element along each axis, the last first, where anybody asks.
#[cube]
fn places(layout: &[u32], number: u32, #[comptime] region: Known<Region>) -> Sequence<u32> {
    let mut places = Sequence::<u32>::new();
    if comptime!(region.asks_places()) {
        let mut rest = number;
        #[unroll]
        for i in 0..region.rank {
            let length = layout[comptime!(LENGTHS + region.rank - 1 - i)];
            places.push(rest % length);
            rest /= length;
        }
    }
    places
}

/// Where the operand's element lies.
#[cube]
fn address(
    places: &Sequence<u32>,
    layout: &[u32],
    number: u32,
    #[comptime] read: Read,
    #[comptime] rank: usize,
) -> u32 {
    match read {
        Read::Each => number,
        Read::Same | Read::Loaded => 0u32.runtime(),
        Read::Strided(operand) => strided(places, layout, operand, rank),
    }
}

/// The place by the strides with this number.
#[cube]
fn strided(places: &Sequence<u32>, layout: &[u32], #[comptime] number: usize, #[comptime] rank: usize) -> u32 {
    let first = comptime!(LENGTHS + rank + number * (rank + 1));
    let mut at = layout[first];
    #[unroll]
    for i in 0..rank {
        at += *places.index(i) * layout[comptime!(first + rank - i)];
    }
    at
}

#[cube]
pub(crate) fn step(
    operands: &Sequence<Box<[u32]>>,
    values: &Sequence<u32>,
    places: &Sequence<u32>,
    number: u32,
    zero: u32,
    #[comptime] step: Step,
    #[comptime] rank: usize,
) -> u32 {
    match step {
        Step::Literal(bits) => bits.runtime(),
        Step::Place(axis) => *places.index(comptime!(rank - 1 - axis)),
        Step::Number => number,
        Step::One(function, x) => apply::one(*values.index(x), zero, function),
        Step::Two(function, x, y) => apply::two(*values.index(x), *values.index(y), zero, function),
        Step::Load(from, at) => {
            let operand = operands.index(from);
            operand[*values.index(at) as usize]
        }
        Step::Select(condition, x, y) => select(*values.index(condition) != 0u32, *values.index(x), *values.index(y)),
    }
}
