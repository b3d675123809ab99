//! Which values have a gradient.

use crate::passes::writer::Writer;
use crate::program::{Instruction, Op, Program, Unary, While};
use crate::types::{TensorType, Type};

/// Whether gradients are computed in a type.
pub(super) fn is_followed(dtype: Type) -> bool {
    matches!(dtype, Type::BF16 | Type::F16 | Type::F32 | Type::F64)
}

/// Which values have a gradient where these inputs have one: floats that lead to one of the outputs asked for and depend on those
/// inputs through operations that pass it on. `None` where one becomes a number that no gradient passes through.
pub(super) fn active(program: &Program, inputs: &[bool], outputs: &[usize]) -> Option<Vec<bool>> {
    let leads = leading(program, outputs);
    let mut active = inputs.to_vec();
    for instruction in &program.instructions {
        let operands: Vec<bool> = instruction.inputs.iter().map(|&id| active[id]).collect();
        let passes = passes(&instruction.op, &operands, instruction.outputs.len())?;
        for (ty, passes) in instruction.outputs.iter().zip(passes) {
            let passes = passes && leads[active.len()];
            if passes && !ty.dtype.is_int() && !is_followed(ty.dtype) {
                return None;
            }
            active.push(passes && is_followed(ty.dtype));
        }
    }
    Some(active)
}

/// Which values one of these depends on through operations that pass a gradient on.
fn leading(program: &Program, outputs: &[usize]) -> Vec<bool> {
    let types = program.value_types();
    let mut leads = vec![false; types.len()];
    outputs.iter().for_each(|&id| leads[id] = true);
    let mut first = types.len();
    for instruction in program.instructions.iter().rev() {
        first -= instruction.outputs.len();
        if passes_on(&leads, &types, instruction, first) {
            let inputs = match &instruction.op {
                // What it answers has no gradient, and captures have none.
                Op::CustomGrad(attrs) => &instruction.inputs[1..=attrs.inputs],
                _ => &instruction.inputs[..],
            };
            inputs.iter().for_each(|&id| leads[id] = true);
        }
    }
    leads
}

/// Whether an instruction, whose results are those from `first` on, passes a gradient to what it reads.
fn passes_on(leads: &[bool], types: &[&TensorType], instruction: &Instruction, first: usize) -> bool {
    let mut results = first..first + instruction.outputs.len();
    !stops(&instruction.op) && results.any(|id| leads[id] && !types[id].dtype.is_int())
}

/// `program` for one who follows it as it runs: what leads to none of these is cut off from what does. `None` where all does.
pub(crate) fn cut_off(program: &Program, outputs: &[usize]) -> Option<Program> {
    let (types, leads) = (program.value_types(), leading(program, outputs));
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.inputs.len()).collect();
    let mut is_cut = false;
    for instruction in &program.instructions {
        let first = ids.len();
        let is_led = passes_on(&leads, &types, instruction, first) || instruction.op == Op::StopGrad;
        let read = |&id: &usize| {
            if is_led || !is_followed(types[id].dtype) || id >= program.inputs.len() && !leads[id] {
                return ids[id];
            }
            is_cut = true;
            writer.one(Op::StopGrad, vec![ids[id]], types[id])
        };
        let inputs = instruction.inputs.iter().map(read).collect();
        let at = writer.emit(instruction.op.clone(), inputs, instruction.outputs.clone());
        ids.extend(at..at + instruction.outputs.len());
    }
    is_cut.then(|| writer.finish(program.outputs.iter().map(|&id| ids[id]).collect()))
}

/// Which of so many results depend on active operands.
fn passes(op: &Op, operands: &[bool], results: usize) -> Option<Vec<bool>> {
    match op {
        _ if stops(op) || !operands.contains(&true) => Some(vec![false; results]),
        Op::While(attrs) => Some(steady(attrs, operands, results)?[..results].to_vec()),
        Op::Cond(attrs) => attrs.branches.iter().try_fold(vec![false; results], |any, branch| {
            let active = active(branch, operands, &branch.outputs)?;
            Some(any.iter().zip(&branch.outputs).map(|(any, &id)| *any || active[id]).collect())
        }),
        _ => Some(vec![true; results]),
    }
}

/// Which inputs of a loop's body, the first `states` of which are its state, have a gradient in some iteration.
pub(super) fn steady(attrs: &While, operands: &[bool], states: usize) -> Option<Vec<bool>> {
    let mut inputs = operands.to_vec();
    loop {
        let all = active(&attrs.body, &inputs, &attrs.body.outputs)?;
        let new: Vec<usize> = (0..states).filter(|&state| all[attrs.body.outputs[state]] && !inputs[state]).collect();
        if new.is_empty() {
            return Some(inputs);
        }
        new.into_iter().for_each(|state| inputs[state] = true);
    }
}

/// Whether the gradient of an operation's operands is zero or none, whatever that of its result.
fn stops(op: &Op) -> bool {
    matches!(op, Op::StopGrad | Op::Unary(Unary::Floor | Unary::Ceil | Unary::Round | Unary::Sign | Unary::Phase))
}
