//! A program made ready to run many times.

use std::sync::Arc;

use crate::cpu::tape::Tape;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::exec::lift::lift;
use crate::ops::{self, Call, fused};
use crate::program::{CustomReduce, CustomWindowReduce, Instruction, Op, Program};
use crate::value::Value;

/// A checked program with the last use of each value, so that memory is given back or reused as soon as it can be. Cloning
/// shares it.
#[derive(Clone, Debug)]
pub struct Plan {
    program: Arc<Program>,
    steps: Arc<[Step]>,
    unused_inputs: Arc<[usize]>,
}

/// What an instruction needs besides itself.
#[derive(Clone, Debug)]
struct Step {
    /// For each operand: whether this is the last read of its value.
    last_use: Vec<bool>,
    /// Id of the first result.
    first_output: usize,
    /// Results that nobody reads.
    unused: Vec<usize>,
    nested: Vec<Plan>,
    tape: Option<Arc<Tape>>,
}

impl Plan {
    /// Prepares `program`.
    ///
    /// # Errors
    ///
    /// As [`Program::check`].
    pub fn new(program: &Program) -> Result<Self> {
        program.check()?;
        let mut read_later = vec![false; program.value_types().len()];
        program.outputs.iter().for_each(|&id| read_later[id] = true);
        let mut first_output = read_later.len();
        let mut steps = Vec::with_capacity(program.instructions.len());
        for instruction in program.instructions.iter().rev() {
            first_output -= instruction.outputs.len();
            steps.push(Step::new(instruction, first_output, &mut read_later)?);
        }
        steps.reverse();
        let unused_inputs = (0..program.inputs.len()).filter(|&id| !read_later[id]).collect();
        Ok(Self { program: Arc::new(program.clone()), steps: steps.into(), unused_inputs })
    }

    /// The program as it was given.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Runs the program on `inputs` and answers its outputs.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] or [`Error::Mismatch`] when `inputs` are not what the program declares, else as the operations say.
    pub fn run(&self, inputs: Vec<Value>, device: &Device) -> Result<Vec<Value>> {
        self.check_inputs(&inputs)?;
        let mut values: Vec<Option<Value>> = inputs.into_iter().map(Some).collect();
        self.unused_inputs.iter().for_each(|&id| values[id] = None);
        for (instruction, step) in self.program.instructions.iter().zip(self.steps.iter()) {
            let inputs = step.operands(instruction, &mut values)?;
            let call = Call {
                op: &instruction.op,
                inputs,
                outputs: &instruction.outputs,
                nested: &step.nested,
                tape: step.tape.as_deref(),
                device,
            };
            values.extend(ops::run(call)?.into_iter().map(Some));
            step.unused.iter().for_each(|&id| values[id] = None);
        }
        self.program.outputs.iter().map(|&id| values[id].clone().ok_or_else(|| lost(id))).collect()
    }

    fn check_inputs(&self, inputs: &[Value]) -> Result<()> {
        let declared = &self.program.inputs;
        if inputs.len() != declared.len() {
            let reason = format!("takes {} inputs, got {}", declared.len(), inputs.len());
            return Err(Error::invalid("program", reason));
        }
        match inputs.iter().zip(declared).find(|(value, ty)| !value.has_type(ty)) {
            Some((value, ty)) => Err(Error::Mismatch { op: "program".into(), expected: ty.clone(), got: value.ty() }),
            None => Ok(()),
        }
    }
}

impl Step {
    /// Goes backwards: `read_later` says which values the instructions after this one read.
    fn new(instruction: &Instruction, first_output: usize, read_later: &mut [bool]) -> Result<Self> {
        let outputs = first_output..first_output + instruction.outputs.len();
        let unused = outputs.filter(|&id| !read_later[id]).collect();
        let mut last_use: Vec<bool> =
            instruction.inputs.iter().rev().map(|&id| !std::mem::replace(&mut read_later[id], true)).collect();
        last_use.reverse();
        let nested = match lifted_fold(instruction) {
            Some(fold) => vec![Plan::new(&fold)?],
            None => instruction.op.nested().into_iter().map(Plan::new).collect::<Result<Vec<_>>>()?,
        };
        let tape = match &instruction.op {
            Op::Fused(attrs) => fused::compile(attrs).map(Arc::new),
            _ => None,
        };
        Ok(Self { last_use, first_output, unused, nested, tape })
    }

    fn operands(&self, instruction: &Instruction, values: &mut [Option<Value>]) -> Result<Vec<Value>> {
        debug_assert_eq!(self.first_output, values.len());
        let read = |(&id, &last): (&usize, &bool)| {
            let value = if last { values[id].take() } else { values[id].clone() };
            value.ok_or_else(|| lost(id))
        };
        instruction.inputs.iter().zip(&self.last_use).map(read).collect()
    }
}

/// The program of a custom fold for all of its results at once, where there is one.
fn lifted_fold(instruction: &Instruction) -> Option<Program> {
    let (Op::CustomReduce(CustomReduce { body, .. }) | Op::CustomWindowReduce(CustomWindowReduce { body, .. })) =
        &instruction.op
    else {
        return None;
    };
    let results = instruction.outputs.first()?.shape.iter().product();
    lift(body, 2, results)
}

fn lost(id: usize) -> Error {
    Error::invalid("program", format!("value {id} was freed before its last use"))
}
