//! A program while a pass writes it anew.

use crate::program::{Instruction, Op, Program};
use crate::types::TensorType;

/// A program under construction, with the types of its values.
pub(super) struct Writer {
    program: Program,
    types: Vec<TensorType>,
}

impl Writer {
    /// A program of these inputs that does nothing yet.
    pub(super) fn new(inputs: &[TensorType]) -> Self {
        let program = Program { inputs: inputs.to_vec(), ..Program::default() };
        Self { program, types: inputs.to_vec() }
    }

    /// Adds an instruction and answers the id of its first result; the others follow.
    pub(super) fn emit(&mut self, op: Op, inputs: Vec<usize>, outputs: Vec<TensorType>) -> usize {
        let first = self.types.len();
        self.types.extend_from_slice(&outputs);
        self.program.instructions.push(Instruction { op, inputs, outputs });
        first
    }

    /// The program, which answers these values.
    pub(super) fn finish(self, outputs: Vec<usize>) -> Program {
        Program { outputs, ..self.program }
    }
}
