//! A prepared program together with the tensors it captured.

use std::sync::{Arc, OnceLock};

use crate::adjoint::{cut_off, differentiate, is_first, obstacle};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::exec::held::Held;
use crate::exec::{Outcome, Plan};
#[cfg(feature = "gpu")]
use crate::gpu;
use crate::passes;
use crate::program::{Op, Program};
use crate::types::{TensorType, Type};
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
    captures: Held,
    /// The program before the passes, and those that are left out.
    source: Arc<(Program, Vec<String>)>,
    gradient: OnceLock<(usize, Option<Arc<Executable>>)>,
    has_batch_groups: OnceLock<bool>,
    followed: OnceLock<Option<Arc<Executable>>>,
    #[cfg(feature = "gpu")]
    there: Arc<OnceLock<There>>,
}

/// What a GPU runs.
#[cfg(feature = "gpu")]
#[derive(Debug)]
struct There {
    plan: Plan,
    recorded: gpu::Recorded,
}

impl Executable {
    /// Prepares `program`, whose last inputs are `captures`, after all [passes] but those named.
    ///
    /// # Errors
    ///
    /// As [`Executable::new`] and [`passes::optimise`].
    pub fn optimised(program: &Program, captures: Vec<Value>, disabled: &[String]) -> Result<Self> {
        let source = Arc::new((program.clone(), disabled.to_vec()));
        let program = passes::optimise_with(program, &captures, disabled)?;
        let keeps = disabled.iter().any(|name| name == passes::LIVENESS);
        Self::over(if keeps { Plan::keeping(&program)? } else { Plan::new(&program)? }, captures, source)
    }

    /// Prepares `program`, whose last inputs are `captures`.
    ///
    /// # Errors
    ///
    /// As [`Plan::new`]; [`Error::Invalid`] when `captures` are not of the types of the last inputs.
    pub fn new(program: &Program, captures: Vec<Value>) -> Result<Self> {
        let all = passes::names().filter(|name| *name != passes::LIVENESS).map(String::from).collect();
        Self::over(Plan::new(program)?, captures, Arc::new((program.clone(), all)))
    }

    fn over(plan: Plan, captures: Vec<Value>, source: Arc<(Program, Vec<String>)>) -> Result<Self> {
        let program = plan.program();
        let own = program.inputs.len().checked_sub(captures.len());
        let declared = own.and_then(|own| program.inputs.get(own..)).unwrap_or_default();
        if own.is_none() || declared.iter().zip(&captures).any(|(ty, value)| *ty != value.ty()) {
            return Err(Error::invalid("program", "the captured tensors are not its trailing inputs"));
        }
        Ok(Self {
            #[cfg(feature = "gpu")]
            there: Arc::default(),
            plan,
            captures: Held::new(captures),
            source,
            gradient: OnceLock::new(),
            has_batch_groups: OnceLock::new(),
            followed: OnceLock::new(),
        })
    }

    /// What answers, after everything else, the gradients of the first result with respect to the first `params` inputs;
    /// `None` where an operation has no rule for that. It is made once.
    pub(crate) fn gradient(&self, params: usize) -> Option<Arc<Executable>> {
        let make = || {
            let (program, disabled) = &*self.source;
            let gradient = differentiate(program, params)?;
            Self::optimised(&gradient, self.captures.values().to_vec(), disabled).ok().map(Arc::new)
        };
        let (known, gradient) = self.gradient.get_or_init(|| (params, make()));
        if *known == params { gradient.clone() } else { make() }
    }

    /// Whether there is a convolution with groups of the batch.
    pub(crate) fn has_batch_groups(&self) -> bool {
        *self.has_batch_groups.get_or_init(|| has_batch_groups(self.program()))
    }

    /// This for a tape that follows it as it runs: nothing that the first result does not depend on is on it.
    pub(crate) fn followed(&self) -> &Executable {
        let make = || {
            let (program, disabled) = &*self.source;
            let program = cut_off(program, &is_first(program))?;
            Self::optimised(&program, self.captures.values().to_vec(), disabled).ok().map(Arc::new)
        };
        self.followed.get_or_init(make).as_deref().unwrap_or(self)
    }

    /// The operation that no gradient passes on its way from the first result to one of the first `params` inputs, and the
    /// type of what it answers.
    pub(crate) fn obstacle(&self, params: usize) -> Option<(String, Type)> {
        let program = &self.source.0;
        let params: Vec<bool> = (0..program.inputs.len()).map(|id| id < params).collect();
        obstacle(program, &params, &is_first(program))
    }

    /// The program as the passes but this one make it.
    pub(crate) fn without(&self, pass: &str) -> Result<Program> {
        let (program, disabled) = &*self.source;
        passes::optimise_with(program, self.captures(), &[disabled.as_slice(), &[pass.to_string()]].concat())
    }

    /// The program as it was given.
    pub fn program(&self) -> &Program {
        self.plan.program()
    }

    /// The text of the program, with the names of [`patterns`](passes::patterns::text).
    pub fn text(&self) -> String {
        passes::patterns::text(self.program(), &self.source.1)
    }

    /// The captured tensors.
    pub fn captures(&self) -> &[Value] {
        self.captures.values()
    }

    /// Types of the inputs without the captures.
    pub fn input_types(&self) -> &[TensorType] {
        let inputs = &self.program().inputs;
        &inputs[..inputs.len() - self.captures.values().len()]
    }

    /// Runs the program on `inputs` and the captures.
    ///
    /// # Errors
    ///
    /// As [`Plan::run`].
    pub fn run(&self, mut inputs: Vec<Value>, device: &Device) -> Result<Vec<Value>> {
        self.complete(&mut inputs, device)?;
        match self.recorded(&inputs, device)? {
            Some(results) => Ok(results),
            None => self.plan(device)?.run(inputs, device),
        }
    }

    /// Runs the program on `inputs` and the captures, to its end or to its first call into the host.
    ///
    /// # Errors
    ///
    /// As [`Plan::start`].
    pub fn start(&self, mut inputs: Vec<Value>, device: &Device) -> Result<Outcome> {
        self.complete(&mut inputs, device)?;
        match self.recorded(&inputs, device)? {
            Some(results) => Ok(Outcome::Done(results)),
            None => self.plan(device)?.start(inputs, device),
        }
    }

    /// The results of all inputs, where a GPU has recorded the program.
    fn recorded(&self, inputs: &[Value], device: &Device) -> Result<Option<Vec<Value>>> {
        #[cfg(feature = "gpu")]
        if let Device::Gpu(adapter) = device {
            self.plan.check_inputs(inputs)?;
            let there = self.there()?;
            return there.recorded.run(&there.plan, inputs, *adapter);
        }
        let (_, _) = (inputs, device);
        Ok(None)
    }

    /// What a device runs.
    fn plan(&self, device: &Device) -> Result<&Plan> {
        #[cfg(feature = "gpu")]
        if let Device::Gpu(_) = device {
            return Ok(&self.there()?.plan);
        }
        let _ = device;
        Ok(&self.plan)
    }

    /// What a GPU runs, which is made when it is first asked for.
    #[cfg(feature = "gpu")]
    fn there(&self) -> Result<&There> {
        if let Some(there) = self.there.get() {
            return Ok(there);
        }
        let disabled = &self.source.1;
        let off = |name: &str| disabled.iter().any(|off| off == name);
        let program = passes::for_gpu(self.program(), disabled);
        let plan = if off(passes::LIVENESS) { Plan::keeping(&program)? } else { Plan::new(&program)? };
        let recorded = gpu::Recorded::new(&program, !off(passes::RECORDING));
        Ok(self.there.get_or_init(|| There { plan, recorded }))
    }

    /// Adds the captures. What is read on a GPU is brought there once, and not by each instruction that reads it.
    fn complete(&self, inputs: &mut Vec<Value>, device: &Device) -> Result<()> {
        if *device != Device::Cpu {
            let unused = self.plan.unused_inputs();
            for (_, value) in inputs.iter_mut().enumerate().filter(|(id, _)| !unused.contains(id)) {
                *value = value.clone().to_device(device)?;
            }
        }
        inputs.extend(self.captures.on(device)?);
        Ok(())
    }
}

fn has_batch_groups(program: &Program) -> bool {
    let groups = |op: &Op| matches!(op, Op::Conv(attrs) if attrs.batch_group_size > 1);
    program
        .instructions
        .iter()
        .any(|instruction| groups(&instruction.op) || instruction.op.nested().into_iter().any(has_batch_groups))
}
