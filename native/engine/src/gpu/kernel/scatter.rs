//! The kernel that writes updates to rows of a table: each element of the table looks for the updates of its row, so that they
//! come in their order.
#![allow(clippy::too_many_arguments, reason = "a kernel has as many as it has buffers")]

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::function::{bits, kept, number};

/// What an update does to an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Update {
    AddF,
    AddI,
    Put,
}

/// `rows` are the rows of the updates in order, `places` the numbers of these updates.
#[cube(launch_unchecked)]
pub(crate) fn scatter(
    table: &[u32],
    rows: &[u32],
    places: &[u32],
    updates: &[u32],
    result: &mut [u32],
    layout: &[u32],
    #[comptime] update: Update,
    #[comptime] same: bool,
) {
    let at = ABSOLUTE_POS as u32;
    let (count, columns, len, zero) = (layout[0], layout[1], layout[2], layout[3]);
    if at < count {
        let row = at / columns;
        let column = at % columns;
        let mut low = 0u32.runtime();
        let mut high = len;
        while low < high {
            let half = (low + high) / 2u32;
            if rows[half as usize] < row {
                low = half + 1u32;
            } else {
                high = half;
            }
        }
        let mut value = table[0];
        if comptime!(!same) {
            value = table[at as usize];
        }
        let mut lost = 0.0f32.runtime();
        let mut more = low < len;
        while more {
            if rows[low as usize] == row {
                let next = updates[(places[low as usize] * columns + column) as usize];
                match comptime!(update) {
                    Update::AddF => {
                        let (a, b) = (number(value), number(next));
                        let total = kept(a + b, zero);
                        let grown = kept(total - a, zero);
                        let rest = kept(a - kept(total - grown, zero), zero) + kept(b - grown, zero);
                        // Of infinite sums nothing is lost.
                        lost = kept(lost + select(rest.abs() < 1.0e30f32, rest, 0.0f32.runtime()), zero);
                        value = bits(total);
                    }
                    Update::AddI => {
                        value += next;
                    }
                    Update::Put => {
                        value = next;
                    }
                }
                low += 1u32;
                more = low < len;
            } else {
                more = false.runtime();
            }
        }
        if comptime!(update == Update::AddF) {
            // A zero keeps its sign.
            value = select(lost == 0.0f32, value, bits(number(value) + lost));
        }
        result[at as usize] = value;
    }
}
