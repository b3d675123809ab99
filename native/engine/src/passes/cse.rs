//! Common subexpressions: what is computed twice from the same values is computed once.

use std::collections::HashMap;

use super::writer::Writer;
use crate::program::Program;

/// The program with each operation on the same operands once.
pub(super) fn share(program: &Program) -> Program {
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.inputs.len()).collect();
    let mut known: HashMap<String, usize> = HashMap::new();
    for instruction in &program.instructions {
        let inputs: Vec<usize> = instruction.inputs.iter().map(|&id| ids[id]).collect();
        let outputs = instruction.outputs.clone();
        let count = outputs.len();
        let mut emit = || writer.emit(instruction.op.clone(), inputs.clone(), outputs.clone());
        let first = match instruction.op.has_effect() {
            true => emit(),
            false => *known.entry(format!("{:?} {inputs:?} {outputs:?}", instruction.op)).or_insert_with(emit),
        };
        ids.extend(first..first + count);
    }
    writer.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}
