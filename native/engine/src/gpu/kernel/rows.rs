//! The kernel of a region that folds its rows: a block of threads goes through a row once for each fold and once for the
//! results, while the row is still in a cache near by.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::apply;
use super::fold::together;
use super::region::{COUNT, FOLDED, ZERO, step};
use crate::gpu::known::Known;
use crate::gpu::step::{Part, RowRead, Rows, Width};

/// Each block computes a row of the results that have an element for each of the region, and an element of those that have
/// one for each row.
#[cube(launch_unchecked)]
pub(crate) fn rows_region(
    operands: &Sequence<Box<[u32]>>,
    results: &mut Sequence<Box<[u32]>>,
    layout: &[u32],
    #[comptime] rows: Known<Rows>,
    #[comptime] lanes: usize,
) {
    let row = CUBE_POS as u32;
    let lane = UNIT_POS;
    if row < layout[COUNT] {
        let length = layout[FOLDED];
        let mut folds = Sequence::<u32>::new();
        #[unroll]
        for i in 0..rows.folds.len() {
            let mut sum = comptime!(rows.folds[i].1.identity).runtime();
            let mut k = lane;
            while k < length {
                let values = values(
                    operands,
                    &folds,
                    layout,
                    row,
                    k,
                    comptime!(rows.clone()),
                    comptime!(rows.folds[i].0.clone()),
                );
                let x = *values.index(comptime!(rows.folds[i].0.results[0]));
                sum = apply::two(sum, x, layout[ZERO], comptime!(rows.folds[i].1.function));
                k += comptime!(lanes as u32);
            }
            let total = together(sum, lane, layout[ZERO], comptime!(rows.folds[i].1), lanes);
            folds.push(total);
        }
        let mut k = lane;
        while k < length {
            let values =
                values(operands, &folds, layout, row, k, comptime!(rows.clone()), comptime!(rows.last.clone()));
            #[unroll]
            for i in 0..rows.last.results.len() {
                let result = *values.index(comptime!(rows.last.results[i]));
                let to = results.index_mut(i);
                if comptime!(rows.whole[i]) {
                    to[(row * length + k) as usize] = result;
                } else if k == 0u32 {
                    to[row as usize] = result;
                }
            }
            k += comptime!(lanes as u32);
        }
    }
}

/// The operands' elements, the folds so far, zeros for those to come, and the results of the steps.
#[cube]
fn values(
    operands: &Sequence<Box<[u32]>>,
    folds: &Sequence<u32>,
    layout: &[u32],
    row: u32,
    k: u32,
    #[comptime] rows: Known<Rows>,
    #[comptime] part: Part,
) -> Sequence<u32> {
    let mut values = Sequence::<u32>::new();
    let number = row * layout[FOLDED] + k;
    #[unroll]
    for i in 0..rows.reads.len() {
        let operand = operands.index(i);
        let at = match comptime!(rows.reads[i]) {
            RowRead::Whole => number,
            RowRead::Column => k,
            RowRead::Row => row,
            RowRead::Repeated(word, Width::Whole) => repeated(layout, row, word) * layout[FOLDED] + k,
            RowRead::Repeated(word, Width::One) => repeated(layout, row, word),
            RowRead::One => 0u32.runtime(),
        };
        values.push(operand[at as usize]);
    }
    #[unroll]
    for i in 0..folds.len() {
        values.push(*folds.index(i));
    }
    #[unroll]
    for _i in folds.len()..rows.folds.len() {
        values.push(0u32.runtime());
    }
    let places = Sequence::<u32>::new();
    #[unroll]
    for i in 0..part.steps.len() {
        let value = step(operands, &values, &places, number, layout[ZERO], comptime!(part.steps[i]), 0usize);
        values.push(value);
    }
    values
}

/// The row of an operand whose rows repeat.
#[cube]
fn repeated(layout: &[u32], row: u32, #[comptime] word: usize) -> u32 {
    let number = row / layout[word];
    let rows = layout[comptime!(word + 1)];
    number / layout[comptime!(word + 2)] * rows + number % rows
}
