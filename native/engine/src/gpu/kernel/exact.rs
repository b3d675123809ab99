//! The kernel of small products, which are summed in twice the digits of `f32` and rounded once, as on the CPU. Types narrower than
//! `f32` are `narrow`.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::double::{self, Double};
use super::function::{bits, is_nan, kept, number};
use super::region::value_after;
use crate::gpu::known::Known;
use crate::gpu::step::Region;

/// 2^-100: of what rounding loses of smaller products, a GPU may hold a part only.
const SHORT: f32 = 7.888_609e-31;

/// Where a layout holds how many elements the result has, the sizes of the product, and a zero.
const COUNT: usize = 0;
const INNER_BATCHES: usize = 1;
const ROWS: usize = 2;
const INNER: usize = 3;
const COLUMNS: usize = 4;
const ZERO: usize = 5;
/// The steps of an operand for an outer and an inner batch, a line (a row of the left one, a column of the right one) and a
/// contracted element.
const LHS: usize = 6;
const RHS: usize = 10;

/// The product `[batch, rows, inner]` by `[batch, inner, columns]`, of which each thread makes an element, which goes through the
/// region `after`.
#[cube(launch_unchecked)]
#[allow(clippy::too_many_arguments, reason = "a kernel has as many as it has buffers")]
pub(crate) fn exact_product(
    lhs: &[f32],
    rhs: &[f32],
    out: &mut [f32],
    layout: &[u32],
    operands: &Sequence<Box<[u32]>>,
    after_layout: &[u32],
    #[comptime] narrow: bool,
    #[comptime] after: Known<Region>,
) {
    let at = ABSOLUTE_POS as u32;
    if at < layout[COUNT] {
        let zero = layout[ZERO];
        let column = at % layout[COLUMNS];
        let row = at / layout[COLUMNS] % layout[ROWS];
        let batch = at / layout[COLUMNS] / layout[ROWS];
        let mut left = first(layout, batch, row, LHS);
        let mut right = first(layout, batch, column, RHS);
        let mut high = 0.0f32.runtime();
        let mut low = 0.0f32.runtime();
        let mut plain = 0.0f32.runtime();
        for _ in 0..layout[INNER] {
            let product = double::product(lhs[left as usize], rhs[right as usize], zero);
            let tiny = product.high.abs() < SHORT;
            let product = Double { high: product.high, low: select(tiny, 0.0f32, product.low) };
            let total = double::plus(&Double { high, low }, &product, zero);
            high = total.high;
            low = total.low;
            plain = kept(plain + product.high, zero);
            left += layout[comptime!(LHS + 3)];
            right += layout[comptime!(RHS + 3)];
        }
        let sum = if comptime!(narrow) { to_odd(high, low) } else { bits(high) };
        // What rounding loses of infinite numbers is no number.
        let sum = select(is_nan(high), bits(plain), sum);
        let value = if comptime!(after.steps.is_empty()) {
            sum
        } else {
            value_after(sum, operands, after_layout, at, comptime!(after.clone()))
        };
        out[at as usize] = number(value);
    }
}

/// Of the two `f32` beside a number that is none the one whose last bit is 1: what it is rounded to next is nearest to the number.
#[cube]
fn to_odd(high: f32, low: f32) -> u32 {
    let towards_zero = select((low < 0.0f32) != (high < 0.0f32), bits(high) - 1u32, bits(high));
    select(low == 0.0f32, bits(high), towards_zero | 1u32)
}

/// The first element of a line.
#[cube]
fn first(layout: &[u32], batch: u32, line: u32, #[comptime] steps: usize) -> u32 {
    batch / layout[INNER_BATCHES] * layout[steps]
        + batch % layout[INNER_BATCHES] * layout[comptime!(steps + 1)]
        + line * layout[comptime!(steps + 2)]
}
