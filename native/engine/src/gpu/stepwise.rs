//! Regions as programs whose instructions run one by one.

use crate::program::{Axes, Extent, Fused, Instruction, Op, Program};
use crate::types::TensorType;

/// The body of a region where it can't run by itself: a region reads an operand that repeats as it lies, and one for each row
/// or in all as often as a fold of it asks for. Here these are made as large as the region first, for all that do not repeat
/// them themselves.
pub(super) fn program(attrs: &Fused) -> Option<Program> {
    let body = &attrs.body;
    let count = body.inputs.len();
    let is_enlarged =
        |&id: &usize| body.instructions.iter().any(|step| step.inputs.contains(&id) && needs(attrs, step, id));
    let enlarged: Vec<usize> = (0..count).filter(is_enlarged).collect();
    if enlarged.is_empty() {
        return None;
    }
    let moved = |id: usize| if id < count { id } else { id + enlarged.len() };
    let read = |step: &Instruction, id: usize| match enlarged.iter().position(|&large| large == id) {
        Some(number) if needs(attrs, step, id) => count + number,
        _ => moved(id),
    };
    let steps = body.instructions.iter().map(|step| {
        let inputs = step.inputs.iter().map(|&id| read(step, id)).collect();
        Instruction { inputs, ..step.clone() }
    });
    Some(Program {
        inputs: body.inputs.clone(),
        instructions: enlarged.iter().map(|&id| spread(attrs, id)).chain(steps).collect(),
        outputs: body.outputs.iter().map(|&id| moved(id)).collect(),
    })
}

/// Whether an instruction reads an input of the region as if it were as large as that: a fold always does.
fn needs(attrs: &Fused, step: &Instruction, input: usize) -> bool {
    if attrs.body.inputs.get(input).is_none_or(|ty| ty.shape == attrs.shape) {
        return false;
    }
    let repeats = attrs.extents[input] == Extent::Whole;
    match &step.op {
        Op::Broadcast(_) | Op::Reshape => false,
        Op::Reduce(_) => true,
        _ => repeats && step.outputs.first().is_some_and(|out| out.shape == attrs.shape),
    }
}

/// An input repeated over the region: those for rows from the first axis on, others up to the last.
fn spread(attrs: &Fused, input: usize) -> Instruction {
    let (ty, rank) = (&attrs.body.inputs[input], attrs.shape.len());
    let first = if attrs.extents[input] == Extent::Row { 0 } else { rank.saturating_sub(ty.shape.len()) };
    let axes = (first..first + ty.shape.len()).collect();
    let outputs = vec![TensorType::new(ty.dtype, attrs.shape.clone())];
    Instruction { op: Op::Broadcast(Axes { axes }), inputs: vec![input], outputs }
}
