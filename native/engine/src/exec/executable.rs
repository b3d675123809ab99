//! A prepared program together with the tensors it captured.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::exec::{Outcome, Plan};
use crate::passes;
use crate::program::Program;
use crate::types::TensorType;
use crate::value::Value;

/// A [`Plan`] with the values of its program's trailing inputs.
///
/// ```
/// use ex_burn_engine::{Device, TensorType, Type, Value, exec::Executable, program::Program};
///
/// let ty = TensorType::new(Type::F32, [2]);
/// let pair = Program { inputs: vec![ty.clone(), ty.clone()], instructions: vec![], outputs: vec![1, 0] };
/// let captured = Value::full(&ty, 1.0, &Device::Cpu)?;
/// let executable = Executable::new(&pair, vec![captured])?;
/// let outputs = executable.run(vec![Value::full(&ty, 2.0, &Device::Cpu)?], &Device::Cpu)?;
/// assert_eq!(executable.input_types(), [ty]);
/// assert_eq!(outputs[0].clone().into_bytes()?[..4], 1.0f32.to_le_bytes());
/// # Ok::<(), ex_burn_engine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Executable {
    plan: Plan,
    captures: Vec<Value>,
}

impl Executable {
    /// Prepares `program`, whose last inputs are `captures`, after all [passes] but those named.
    ///
    /// # Errors
    ///
    /// As [`Executable::new`] and [`passes::optimise`].
    pub fn optimised(program: &Program, captures: Vec<Value>, disabled: &[String]) -> Result<Self> {
        let program = passes::optimise(program, disabled)?;
        let keeps = disabled.iter().any(|name| name == passes::LIVENESS);
        Self::over(if keeps { Plan::keeping(&program)? } else { Plan::new(&program)? }, captures)
    }

    /// Prepares `program`, whose last inputs are `captures`.
    ///
    /// # Errors
    ///
    /// As [`Plan::new`]; [`Error::Invalid`] when `captures` are not of the types of the last inputs.
    pub fn new(program: &Program, captures: Vec<Value>) -> Result<Self> {
        Self::over(Plan::new(program)?, captures)
    }

    fn over(plan: Plan, captures: Vec<Value>) -> Result<Self> {
        let program = plan.program();
        let own = program.inputs.len().checked_sub(captures.len());
        let declared = own.and_then(|own| program.inputs.get(own..)).unwrap_or_default();
        if own.is_none() || declared.iter().zip(&captures).any(|(ty, value)| *ty != value.ty()) {
            return Err(Error::invalid("program", "the captured tensors are not its trailing inputs"));
        }
        Ok(Self { plan, captures })
    }

    /// The program as it was given.
    pub fn program(&self) -> &Program {
        self.plan.program()
    }

    /// The captured tensors.
    pub fn captures(&self) -> &[Value] {
        &self.captures
    }

    /// Types of the inputs without the captures.
    pub fn input_types(&self) -> &[TensorType] {
        let inputs = &self.program().inputs;
        &inputs[..inputs.len() - self.captures.len()]
    }

    /// Runs the program on `inputs` and the captures.
    ///
    /// # Errors
    ///
    /// As [`Plan::run`].
    pub fn run(&self, mut inputs: Vec<Value>, device: &Device) -> Result<Vec<Value>> {
        inputs.extend_from_slice(&self.captures);
        self.plan.run(inputs, device)
    }

    /// Runs the program on `inputs` and the captures, to its end or to its first call into the host.
    ///
    /// # Errors
    ///
    /// As [`Plan::start`].
    pub fn start(&self, mut inputs: Vec<Value>, device: &Device) -> Result<Outcome> {
        inputs.extend_from_slice(&self.captures);
        self.plan.start(inputs, device)
    }
}
