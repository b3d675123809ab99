//! A program: typed instructions in single assignment form, as plain data.

mod attributes;
mod check;
mod op;
mod pattern;
mod template;
mod text;

pub use attributes::*;
pub use check::MAX_LEVELS;
pub use op::Op;
pub use pattern::Pattern;
pub use template::Template;
pub(crate) use text::Named;

use serde::{Deserialize, Serialize};

use crate::types::TensorType;

/// One step: an operation, the values it reads, the types of the values it makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instruction {
    /// The operation and its attributes.
    pub op: Op,
    /// Ids of the operands.
    pub inputs: Vec<usize>,
    /// Types of the results.
    pub outputs: Vec<TensorType>,
}

/// Instructions over numbered values. Ids count the program's inputs first, then the outputs of each instruction in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Types of the inputs.
    pub inputs: Vec<TensorType>,
    /// The steps.
    pub instructions: Vec<Instruction>,
    /// Ids of the results.
    pub outputs: Vec<usize>,
}

impl Program {
    /// Type of every value, by id.
    pub fn value_types(&self) -> Vec<&TensorType> {
        self.inputs.iter().chain(self.instructions.iter().flat_map(|i| &i.outputs)).collect()
    }

    /// Types of the results.
    ///
    /// The program must be [checked](Program::check).
    pub fn output_types(&self) -> Vec<TensorType> {
        let types = self.value_types();
        self.outputs.iter().map(|&id| types[id].clone()).collect()
    }

    /// Whether an instruction [has an effect](Op::has_effect).
    pub fn has_effect(&self) -> bool {
        self.instructions.iter().any(|instruction| instruction.op.has_effect())
    }
}
