//! Takes regions apart again.

use super::WIDER;
use crate::passes::writer::Writer;
use crate::program::{Axes, Fused, Instruction, Op, Pattern, Program};
use crate::types::TensorType;

/// The program without the regions that compute what is in `off`, and without these names.
pub(super) fn without(program: Program, off: &[Pattern]) -> Program {
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.inputs.len()).collect();
    for instruction in program.instructions {
        let inputs: Vec<usize> = instruction.inputs.iter().map(|&id| ids[id]).collect();
        match instruction.op {
            Op::Fused(fused) if fused.patterns.iter().any(|name| off.contains(name) && !WIDER.contains(name)) => {
                ids.extend(inline(&mut writer, &fused, &inputs));
            }
            op => {
                let first = writer.emit(unnamed(op, off), inputs, instruction.outputs.clone());
                ids.extend(first..first + instruction.outputs.len());
            }
        }
    }
    writer.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}

fn unnamed(mut op: Op, off: &[Pattern]) -> Op {
    if let Op::Fused(fused) = &mut op {
        fused.patterns.retain(|pattern| !off.contains(pattern));
    }
    op
}

/// Writes the instructions of a region; answers the ids of its results.
fn inline(writer: &mut Writer, fused: &Fused, inputs: &[usize]) -> Vec<usize> {
    let mut ids = inputs.to_vec();
    for instruction in &fused.body.instructions {
        let operands = instruction.inputs.iter().map(|&id| ids[id]).collect();
        let operands = fitting(writer, fused, instruction, operands);
        ids.push(writer.emit(instruction.op.clone(), operands, instruction.outputs.clone()));
    }
    fused.body.outputs.iter().map(|&id| ids[id]).collect()
}

/// The operands of an instruction, the first in the result's shape where nothing else leads to it: a region repeats what it
/// reads.
fn fitting(writer: &mut Writer, fused: &Fused, instruction: &Instruction, mut operands: Vec<usize>) -> Vec<usize> {
    let (shape, alone) = match &instruction.op {
        Op::Reduce(_) => (&fused.shape, true),
        Op::Unary(_) | Op::Cast | Op::Clip => (&instruction.outputs[0].shape, true),
        Op::Binary(_) | Op::Select => (&instruction.outputs[0].shape, false),
        _ => return operands,
    };
    let leading = if alone { 1 } else { operands.len() };
    let has_length = |axis: usize| {
        let len = |&id: &usize| {
            let from = &writer.ty(id).shape;
            (axis + from.len()).checked_sub(shape.len()).map(|axis| from[axis])
        };
        operands[..leading].iter().any(|id| len(id) == Some(shape[axis]))
    };
    if !(0..shape.len()).all(has_length) {
        operands[0] = broadcast(writer, operands[0], shape);
    }
    operands
}

fn broadcast(writer: &mut Writer, id: usize, shape: &[usize]) -> usize {
    let from = writer.ty(id);
    let axes = (shape.len() - from.shape.len()..shape.len()).collect();
    let out = TensorType::new(from.dtype, shape.to_vec());
    writer.one(Op::Broadcast(Axes { axes }), vec![id], &out)
}
