//! A program while a pass writes it anew.

use crate::program::{Constant, Instruction, Op, Program};
use crate::types::TensorType;

/// A program under construction, with the type of each value and the instruction that makes it.
pub(crate) struct Writer {
    program: Program,
    types: Vec<TensorType>,
    makers: Vec<Option<usize>>,
    /// How often the program that is rewritten reads what has become each value.
    reads: Vec<usize>,
}

impl Writer {
    /// A program of these inputs that does nothing yet.
    pub(crate) fn new(inputs: &[TensorType]) -> Self {
        let program = Program { inputs: inputs.to_vec(), ..Program::default() };
        Self { program, types: inputs.to_vec(), makers: vec![None; inputs.len()], reads: vec![] }
    }

    /// Adds an instruction and answers the id of its first result; the others follow.
    pub(crate) fn emit(&mut self, op: Op, inputs: Vec<usize>, outputs: Vec<TensorType>) -> usize {
        let first = self.types.len();
        self.makers.extend(outputs.iter().map(|_| Some(self.program.instructions.len())));
        self.types.extend_from_slice(&outputs);
        self.program.instructions.push(Instruction { op, inputs, outputs });
        first
    }

    /// Adds an instruction of one result.
    pub(crate) fn one(&mut self, op: Op, inputs: Vec<usize>, output: &TensorType) -> usize {
        self.emit(op, inputs, vec![output.clone()])
    }

    /// Adds the instructions of `program`, whose inputs are these values; answers its results.
    pub(super) fn inline(&mut self, program: &Program, inputs: &[usize]) -> Vec<usize> {
        let mut ids = inputs.to_vec();
        for instruction in &program.instructions {
            let inputs = instruction.inputs.iter().map(|&id| ids[id]).collect();
            let first = self.emit(instruction.op.clone(), inputs, instruction.outputs.clone());
            ids.extend(first..first + instruction.outputs.len());
        }
        program.outputs.iter().map(|&id| ids[id]).collect()
    }

    /// The type of a value.
    pub(crate) fn ty(&self, id: usize) -> &TensorType {
        &self.types[id]
    }

    /// The instruction that makes a value.
    pub(crate) fn maker(&self, id: usize) -> Option<&Instruction> {
        self.makers[id].map(|i| &self.program.instructions[i])
    }

    /// How many instructions there are.
    pub(super) fn len(&self) -> usize {
        self.program.instructions.len()
    }

    /// Whether one instruction alone reads a value, once.
    pub(super) fn is_read_once(&self, id: usize) -> bool {
        self.reads.get(id) == Some(&1)
    }

    fn count(&mut self, id: usize, reads: usize) {
        self.reads.resize(self.types.len().max(id + 1), 0);
        self.reads[id] += reads;
    }

    /// The element of a constant.
    pub(super) fn constant(&self, id: usize) -> Option<&Constant> {
        match &self.maker(id)?.op {
            Op::Constant(constant) => Some(constant),
            _ => None,
        }
    }

    /// The program, which answers these values.
    pub(crate) fn finish(self, outputs: Vec<usize>) -> Program {
        Program { outputs, ..self.program }
    }
}

/// `program` with each instruction of one result replaced by the value that `replace` answers; where it answers none, and
/// for other instructions, they stay. The instruction comes with the new ids of its operands.
pub(super) fn rewrite(program: &Program, replace: fn(&mut Writer, &Instruction) -> Option<usize>) -> Program {
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.inputs.len()).collect();
    let reads = reads(program);
    for instruction in &program.instructions {
        let inputs = instruction.inputs.iter().map(|&id| ids[id]).collect();
        let moved = Instruction { inputs, ..instruction.clone() };
        let replaced = if moved.outputs.len() == 1 { replace(&mut writer, &moved) } else { None };
        let count = moved.outputs.len();
        let first = replaced.unwrap_or_else(|| writer.emit(moved.op, moved.inputs, moved.outputs));
        for id in first..first + count {
            writer.count(id, reads[ids.len()]);
            ids.push(id);
        }
    }
    writer.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}

/// The number of the instruction that makes each value; `None` for inputs.
pub(crate) fn makers(program: &Program) -> Vec<Option<usize>> {
    let mut makers = vec![None; program.inputs.len()];
    for (i, instruction) in program.instructions.iter().enumerate() {
        makers.extend(instruction.outputs.iter().map(|_| Some(i)));
    }
    makers
}

/// The id of the first result of each instruction.
pub(crate) fn results(program: &Program) -> Vec<usize> {
    let mut next = program.inputs.len();
    let first = |instruction: &Instruction| {
        next += instruction.outputs.len();
        next - instruction.outputs.len()
    };
    program.instructions.iter().map(first).collect()
}

/// How often each value is read, by instructions or as a result.
pub(crate) fn reads(program: &Program) -> Vec<usize> {
    let mut reads = vec![0; program.value_types().len()];
    let by_instructions = program.instructions.iter().flat_map(|instruction| &instruction.inputs);
    by_instructions.chain(&program.outputs).for_each(|&id| reads[id] += 1);
    reads
}
