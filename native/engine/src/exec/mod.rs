//! Runs programs.

mod bound;
mod executable;
mod frame;
mod held;
mod host;
mod interrupt;
mod lift;
mod machine;
mod plan;
mod serial;

pub use executable::Executable;
pub(crate) use host::replay;
pub use host::{Host, with_host};
pub use interrupt::stoppable;
pub(crate) use interrupt::{check as check_stopped, stop_flag};
pub use machine::{Machine, Outcome};
pub use plan::Plan;
pub(crate) use serial::VARYING;

use crate::device::Device;
use crate::error::Result;
use crate::ops::{self, Call};
use crate::program::{Instruction, Op, Program};
use crate::types::TensorType;
use crate::value::Value;

/// Runs one operation on its own.
///
/// # Errors
///
/// As the operation says; an operation with programs inside is checked first, as [`Program::check`] does.
pub fn instruction(op: &Op, inputs: Vec<Value>, outputs: &[TensorType], device: &Device) -> Result<Vec<Value>> {
    if op.nested().is_empty() {
        return ops::run(Call::plain(op, inputs, outputs, device));
    }
    let ids: Vec<usize> = (0..inputs.len()).collect();
    let results = (inputs.len()..inputs.len() + outputs.len()).collect();
    let program = Program {
        inputs: inputs.iter().map(Value::ty).collect(),
        instructions: vec![Instruction { op: op.clone(), inputs: ids, outputs: outputs.to_vec() }],
        outputs: results,
    };
    Plan::new(&program)?.run(inputs, device)
}
