//! Programs of scalars as programs of vectors.

use crate::program::{Instruction, Op, Program};
use crate::types::TensorType;

/// `program` with its first `count` inputs, which are scalars, as vectors of `lanes` elements that are computed side by side.
///
/// `None` when an operation on one of them is not elementwise or makes something else than a scalar. What depends on none
/// of them is computed as it was, and may be any operation.
pub(super) fn lift(program: &Program, count: usize, lanes: usize) -> Option<Program> {
    let mut values = Values { types: vec![], lifted: vec![], lanes };
    for (id, ty) in program.inputs.iter().enumerate() {
        values.push(ty, id < count)?;
    }
    let inputs = values.types.clone();
    let instructions = program.instructions.iter().map(|i| values.instruction(i)).collect::<Option<_>>()?;
    Some(Program { inputs, instructions, outputs: program.outputs.clone() })
}

/// The values so far.
struct Values {
    types: Vec<TensorType>,
    lifted: Vec<bool>,
    lanes: usize,
}

impl Values {
    fn instruction(&mut self, instruction: &Instruction) -> Option<Instruction> {
        let lifted = instruction.inputs.iter().any(|&id| self.lifted[id]);
        let fits = |&id: &usize| self.lifted[id] || self.types[id].shape.is_empty();
        let op = match lifted {
            true => elementwise(&instruction.op).filter(|_| instruction.inputs.iter().all(fits))?,
            false => instruction.op.clone(),
        };
        let first = self.types.len();
        instruction.outputs.iter().try_for_each(|ty| self.push(ty, lifted))?;
        Some(Instruction { op, inputs: instruction.inputs.clone(), outputs: self.types[first..].to_vec() })
    }

    fn push(&mut self, ty: &TensorType, lifted: bool) -> Option<()> {
        let ty = match lifted {
            true => ty.shape.is_empty().then(|| TensorType::new(ty.dtype, [self.lanes]))?,
            false => ty.clone(),
        };
        self.types.push(ty);
        self.lifted.push(lifted);
        Some(())
    }
}

/// The operation that does for each element of a vector what this one does for a scalar.
fn elementwise(op: &Op) -> Option<Op> {
    match op {
        Op::Unary(_) | Op::Binary(_) | Op::Cast | Op::Bitcast | Op::Select | Op::Clip | Op::StopGrad => {
            Some(op.clone())
        }
        // From scalar to scalar these do nothing.
        Op::Reshape | Op::Broadcast(_) | Op::Transpose(_) | Op::Reverse(_) => Some(Op::Reshape),
        _ => None,
    }
}
