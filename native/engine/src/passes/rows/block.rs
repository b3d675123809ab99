//! A program for the rows of a block.

use super::axes::Place;
use crate::program::{DynamicSlice, Instruction, Op, Program, Slice};
use crate::types::TensorType;

/// The type of a value whose rows along `place` are these only.
pub(super) fn part(ty: &TensorType, place: Place, rows: usize) -> TensorType {
    let mut ty = ty.clone();
    if let Some(axis) = place {
        ty.shape[axis] = rows;
    }
    ty
}

/// The program for `rows` rows, which lie along these axes of its values.
pub(super) fn program(program: &Program, places: &[Place], rows: usize) -> Program {
    let inputs = program.inputs.iter().zip(places).map(|(ty, &place)| part(ty, place, rows)).collect();
    let results = program.instructions.iter().zip(&places[program.inputs.len()..]);
    let instructions = results.map(|(instruction, &place)| step(instruction, place, rows)).collect();
    Program { inputs, instructions, outputs: program.outputs.clone() }
}

/// An instruction of one result.
pub(super) fn step(instruction: &Instruction, place: Place, rows: usize) -> Instruction {
    let outputs = instruction.outputs.iter().map(|ty| part(ty, place, rows)).collect();
    let shorter = |lengths: &[usize]| {
        let length = |(axis, &length)| if place == Some(axis) { rows } else { length };
        lengths.iter().enumerate().map(length).collect()
    };
    let op = match &instruction.op {
        Op::Slice(attrs) => Op::Slice(Slice { lengths: shorter(&attrs.lengths), ..attrs.clone() }),
        Op::DynamicSlice(attrs) => Op::DynamicSlice(DynamicSlice { lengths: shorter(&attrs.lengths), ..attrs.clone() }),
        op => op.clone(),
    };
    Instruction { op, inputs: instruction.inputs.clone(), outputs }
}
