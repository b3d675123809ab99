//! Dead code: what nobody reads is not computed.

use super::writer::Writer;
use crate::program::Program;

/// The program without operations that neither a result nor a call into the host depends on.
pub(crate) fn remove(program: &Program) -> Program {
    let live = live(program);
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.inputs.len()).collect();
    for (instruction, is_live) in program.instructions.iter().zip(live) {
        let count = instruction.outputs.len();
        let first = match is_live {
            true => {
                let inputs = instruction.inputs.iter().map(|&id| ids[id]).collect();
                writer.emit(instruction.op.clone(), inputs, instruction.outputs.clone())
            }
            // Nobody asks for these ids.
            false => 0,
        };
        ids.extend(first..first + count);
    }
    writer.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}

/// For each instruction, whether it is needed.
fn live(program: &Program) -> Vec<bool> {
    let mut is_read = vec![false; program.value_types().len()];
    program.outputs.iter().for_each(|&id| is_read[id] = true);
    let mut end = is_read.len();
    let mut live: Vec<bool> = Vec::with_capacity(program.instructions.len());
    for instruction in program.instructions.iter().rev() {
        let results = end - instruction.outputs.len()..end;
        end = results.start;
        let is_live = is_read[results].contains(&true) || instruction.op.has_effect();
        if is_live {
            instruction.inputs.iter().for_each(|&id| is_read[id] = true);
        }
        live.push(is_live);
    }
    live.reverse();
    live
}
