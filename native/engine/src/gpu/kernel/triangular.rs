//! The kernel of triangular systems: a block of threads solves some right-hand sides of one matrix, rows by rows.
#![allow(clippy::too_many_arguments, reason = "a kernel has as many as it has buffers")]

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::function::{bits, number};

/// Rows of a block of the matrix, and right-hand sides that a block of threads solves, one thread for each row of each.
pub(crate) const ROWS: usize = 32;
pub(crate) const COLUMNS: usize = 8;
/// From one row of a block in shared memory to the next: not all in one bank.
const PITCH: usize = ROWS + 1;

/// Where a layout holds how many unknowns there are, how many right-hand sides, in how many groups, and how many groups of all
/// matrices; where it holds how an operand lies: its start, and steps of matrices, of unknowns, and of equations or of sides.
const UNKNOWNS: usize = 0;
const SIDES: usize = 1;
const GROUPS: usize = 2;
const COUNT: usize = 3;
const MATRIX: usize = 4;
const GIVEN: usize = 8;
const SOLVED: usize = 12;

/// Solves lower triangular systems; an upper one is a lower one from its end.
#[cube(launch_unchecked)]
pub(crate) fn solve(matrix: &[u32], given: &[u32], solved: &mut [u32], layout: &[u32]) {
    let cube = CUBE_POS as u32;
    if cube < layout[COUNT] {
        let number_of_matrix = cube / layout[GROUPS];
        let lane = UNIT_POS;
        let row = lane / comptime!(COLUMNS as u32);
        let column = lane % comptime!(COLUMNS as u32);
        let side = (cube % layout[GROUPS]) * comptime!(COLUMNS as u32) + column;
        let inside = side < layout[SIDES];
        let from = place(layout, number_of_matrix, side, GIVEN);
        let to = place(layout, number_of_matrix, side, SOLVED);
        let mut block = Shared::<[f32]>::new_slice(comptime!(ROWS * PITCH));
        let mut known = Shared::<[f32]>::new_slice(comptime!(ROWS * COLUMNS));
        let mut sums = Shared::<[f32]>::new_slice(comptime!(ROWS * COLUMNS));
        let own = (row * comptime!(COLUMNS as u32) + column) as usize;
        let mut first = 0u32.runtime();
        while first < layout[UNKNOWNS] {
            let at = first + row;
            let mut sum = 0.0f32.runtime();
            let mut before = 0u32.runtime();
            while before < first {
                load(matrix, layout, number_of_matrix, first, before, lane, &mut block);
                // The thread wrote this itself.
                let found = to + (before + row) * layout[comptime!(SOLVED + 2)];
                known[own] = held(solved[inside_of(found, inside)], inside);
                sync_cube();
                for k in 0..comptime!(ROWS as u32) {
                    sum = fma(
                        block[(row * comptime!(PITCH as u32) + k) as usize],
                        known[(k * comptime!(COLUMNS as u32) + column) as usize],
                        sum,
                    );
                }
                sync_cube();
                before += comptime!(ROWS as u32);
            }
            load(matrix, layout, number_of_matrix, first, first, lane, &mut block);
            let exists = inside & (at < layout[UNKNOWNS]);
            let right = held(given[inside_of(from + at * layout[comptime!(GIVEN + 2)], exists)], exists);
            known[own] = right;
            sums[own] = sum;
            sync_cube();
            // Unknowns of a block come one after the other; a thread for each side waits for nobody.
            if row == 0u32 {
                substitute(&block, &sums, &mut known, column);
            }
            sync_cube();
            if exists {
                solved[(to + at * layout[comptime!(SOLVED + 2)]) as usize] = bits(known[own]);
            }
            first += comptime!(ROWS as u32);
        }
    }
}

/// Finds the unknowns of a block of one right-hand side, of which products with those before are summed up already.
#[cube]
fn substitute(block: &Shared<[f32]>, sums: &Shared<[f32]>, known: &mut Shared<[f32]>, column: u32) {
    for i in 0..comptime!(ROWS as u32) {
        let at = (i * comptime!(COLUMNS as u32) + column) as usize;
        let row = i * comptime!(PITCH as u32);
        let mut sum = sums[at];
        for k in 0..i {
            sum = fma(block[(row + k) as usize], known[(k * comptime!(COLUMNS as u32) + column) as usize], sum);
        }
        known[at] = (known[at] - sum) / block[(row + i) as usize];
    }
}

/// Where a right-hand side of a matrix begins.
#[cube]
fn place(layout: &[u32], matrix: u32, side: u32, #[comptime] operand: usize) -> u32 {
    layout[operand] + matrix * layout[comptime!(operand + 1)] + side * layout[comptime!(operand + 3)]
}

/// An address that exists in any case.
#[cube]
fn inside_of(at: u32, exists: bool) -> usize {
    select(exists, at, 0u32.runtime()) as usize
}

/// The number that was read from there, and zero for none.
#[cube]
fn held(word: u32, exists: bool) -> f32 {
    select(exists, number(word), 0.0f32.runtime())
}

/// Puts a block of the matrix into shared memory, zeros where it ends.
#[cube]
fn load(
    matrix: &[u32],
    layout: &[u32],
    number_of_matrix: u32,
    first_row: u32,
    first_column: u32,
    lane: u32,
    block: &mut Shared<[f32]>,
) {
    let start = layout[MATRIX] + number_of_matrix * layout[comptime!(MATRIX + 1)];
    #[unroll]
    for part in 0..comptime!(ROWS / COLUMNS) {
        let element = lane + comptime!((part * ROWS * COLUMNS) as u32);
        let row = element / comptime!(ROWS as u32);
        let column = element % comptime!(ROWS as u32);
        let exists = (first_row + row < layout[UNKNOWNS]) & (first_column + column < layout[UNKNOWNS]);
        let at = start
            + (first_row + row) * layout[comptime!(MATRIX + 3)]
            + (first_column + column) * layout[comptime!(MATRIX + 2)];
        block[(row * comptime!(PITCH as u32) + column) as usize] = held(matrix[inside_of(at, exists)], exists);
    }
}
