//! Rows that go their own way: where a loop computes each row of its state from the same row, as a recurrent layer does for the
//! sequences of a batch, each core takes some rows through all iterations. Nobody waits for the others in between, and what
//! is computed stays in the core's own cache.

mod axes;
mod block;
mod chain;
mod places;

use super::dead;
use super::hoisting::is_invariant;
use super::writer::Writer;
use crate::program::{Instruction, Op, Program, Rows, While};
use crate::types::{TensorType, Type};
use axes::Place;

/// Fewest rows that are cut, and most rows of a block: so many that a matrix is read from the second cache seldom enough.
const FEWEST: usize = 16;

/// Fewest rows of a block.
const LEAST: usize = 8;

/// Most elements of a matrix that all rows are multiplied by: each core reads it in each iteration.
const LARGEST: usize = 256 * 1024;

/// Most products of a loop from which rows are followed: where those of so many depend on others, all will.
const TRIED: usize = 64;

/// Fewest products of numbers in an iteration that are worth it.
const WORTH: usize = 64 * 1024;

/// The program with its loops, and with chains of products, cut in blocks of rows.
pub(super) fn cut(program: &Program) -> Program {
    dead::remove(&chain::join(&loops(program)))
}

fn loops(program: &Program) -> Program {
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.inputs.len()).collect();
    for instruction in &program.instructions {
        let inputs: Vec<usize> = instruction.inputs.iter().map(|&id| ids[id]).collect();
        let op = match &instruction.op {
            Op::While(attrs) => in_blocks(attrs, instruction).map_or_else(|| instruction.op.clone(), Op::Rows),
            op => op.clone(),
        };
        let first = writer.emit(op, inputs, instruction.outputs.clone());
        ids.extend(first..first + instruction.outputs.len());
    }
    writer.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}

/// The rows of a block of so many in all.
fn block_rows(rows: usize) -> Option<usize> {
    let most = (rows / 2).min(FEWEST);
    (LEAST..=most).rev().find(|&block| rows >= FEWEST && rows.is_multiple_of(block))
}

/// The loop in blocks of rows, where there are any.
fn in_blocks(attrs: &While, instruction: &Instruction) -> Option<Rows> {
    // The host is called once in an iteration, not once for each block.
    if instruction.op.has_effect() {
        return None;
    }
    let state = instruction.outputs.len();
    let body = &attrs.body;
    let (rows, places) = seeds(body, state).take(TRIED).find_map(|(seed, axis, rows)| {
        let places = places::solve(body, (seed, axis), state)?;
        keeps_to_itself(&attrs.condition, &places).then_some((rows, places))
    })?;
    let block = block_rows(rows)?;
    let operands = places[..body.inputs.len()].to_vec();
    let condition = conditions(&attrs.condition, &operands, block);
    let shorter = Op::While(While { condition, body: block::program(body, &places, block) });
    let results = operands[..state].to_vec();
    let part = |types: &[TensorType], places: &[Place]| -> Vec<TensorType> {
        types.iter().zip(places).map(|(ty, &place)| block::part(ty, place, block)).collect()
    };
    let inner = part(&body.inputs, &operands);
    let outputs = part(&instruction.outputs, &results);
    Some(Rows {
        blocks: rows / block,
        whole: alone(instruction.op.clone(), &body.inputs, instruction.outputs.clone()),
        block: alone(shorter, &inner, outputs),
        operands,
        results,
    })
}

/// A program of one instruction.
fn alone(op: Op, inputs: &[TensorType], outputs: Vec<TensorType>) -> Program {
    let mut writer = Writer::new(inputs);
    let count = outputs.len();
    let first = writer.emit(op, (0..inputs.len()).collect(), outputs);
    writer.finish((first..first + count).collect())
}

/// Products of rows and a matrix that stays: the value, the axis of its rows and how many there are.
fn seeds(body: &Program, state: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let types = body.value_types();
    let products = body.instructions.iter().scan(body.inputs.len(), |next, instruction| {
        let id = *next;
        *next += instruction.outputs.len();
        Some((id, instruction))
    });
    let seeds: Vec<_> = products.filter_map(|(id, instruction)| seed(body, &types, state, id, instruction)).collect();
    seeds.into_iter()
}

fn seed(
    body: &Program,
    types: &[&TensorType],
    state: usize,
    id: usize,
    instruction: &Instruction,
) -> Option<(usize, usize, usize)> {
    let matrix = *instruction.inputs.get(1)?;
    let stays = matrix < body.inputs.len() && is_invariant(body, matrix, state);
    let rows = is_product(instruction, types).filter(|_| stays)?;
    block_rows(rows).map(|_| (id, 0, rows))
}

/// How many rows an instruction multiplies by a matrix, where it does that and the matrix stays in a core's cache.
fn is_product(instruction: &Instruction, types: &[&TensorType]) -> Option<usize> {
    let Op::Dot(dot) = &instruction.op else { return None };
    let [left, matrix] = instruction.inputs[..] else { return None };
    let [out] = &instruction.outputs[..] else { return None };
    let elements = types[matrix].shape.iter().product::<usize>();
    let plain = matches!(out.dtype, Type::F32 | Type::F64) && dot.lhs_batch.is_empty();
    let rows = *out.shape.first()?;
    let is_worth = elements <= LARGEST && elements.saturating_mul(rows) >= WORTH;
    (plain && types[left].shape.len() == 2 && is_worth).then_some(rows)
}

/// Whether the condition of a loop reads no rows.
fn keeps_to_itself(condition: &Program, places: &[Place]) -> bool {
    let mut read = condition.instructions.iter().flat_map(|instruction| &instruction.inputs).chain(&condition.outputs);
    read.all(|&id| id >= condition.inputs.len() || places[id].is_none())
}

/// The condition, which takes the rows of a block and reads none of them.
fn conditions(condition: &Program, places: &[Place], rows: usize) -> Program {
    let inputs = condition.inputs.iter().zip(places).map(|(ty, &place)| block::part(ty, place, rows)).collect();
    Program { inputs, ..condition.clone() }
}
