//! Single operations and whole programs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use ex_burn_engine::passes::{self, patterns};
use ex_burn_engine::program::{Op, Program};
use ex_burn_engine::{Device, Error, Result, TensorType, exec};
use rustler::{Atom, Env, Resource, ResourceArc, Term};

use crate::boundary::{guard, guard_deep};
use crate::caller::while_caller_lives;
use crate::continuation::{Answer, Continuation};
use crate::device::found;
use crate::error::NifError;
use crate::list::List;
use crate::pace::Pace;
use crate::tensor::{Tensor, Tensors, TypeTerm, resources, values};
use crate::term::{decode, decode_deep};

/// A program made ready to run, with its captures, and how long that takes.
pub(crate) struct Executable(pub(crate) Arc<exec::Executable>, Pace);

// As for `Tensor`: running borrows the captures and never changes them.
impl std::panic::RefUnwindSafe for Executable {}

#[rustler::resource_impl]
impl Resource for Executable {}

impl Executable {
    fn new(executable: exec::Executable) -> Self {
        let pace = Pace::of(executable.program());
        Self(Arc::new(executable), pace)
    }

    /// [`Self::run`] on the CPU, timed.
    fn run_timed(&self, inputs: &Tensors, donated: &Tensors) -> Result<Answer> {
        self.1.timed(|| self.run(inputs, donated, &Device::Cpu))
    }

    /// Runs on the values of `inputs`; those `donated` lose theirs to the run.
    fn run(&self, inputs: &Tensors, donated: &Tensors, device: &Device) -> Result<Answer> {
        let mut inputs = values("program", inputs)?;
        donated.iter().for_each(|tensor| drop(tensor.take()));
        if *device != Device::Cpu {
            // Once, and not wherever they are read.
            inputs = inputs.into_iter().map(|value| value.to_device(device)).collect::<Result<_>>()?;
        }
        self.0.start(inputs, device)?.try_into()
    }
}

/// The term of an operation without attributes: a name, or its kind and a name.
type Plain = (Option<Atom>, Atom);

thread_local! {
    /// The operations without attributes that were met. There are few.
    static PLAIN: RefCell<HashMap<Plain, Rc<Op>>> = RefCell::default();
}

/// The operation of a term. Those that are an atom or a pair of atoms are decoded once.
fn operation(term: Term<'_>) -> Result<Rc<Op>> {
    let alone = |_| term.decode().map(|name: Atom| (None, name));
    let Ok(key) = term.decode().map(|(tag, name): (Atom, Atom)| (Some(tag), name)).or_else(alone) else {
        return decode("instruction", term).map(Rc::new);
    };
    if let Some(op) = PLAIN.with_borrow(|known| known.get(&key).cloned()) {
        return Ok(op);
    }
    let op: Rc<Op> = decode("instruction", term).map(Rc::new)?;
    PLAIN.with_borrow_mut(|known| known.insert(key, op.clone()));
    Ok(op)
}

fn run_instruction(
    op: Term<'_>,
    inputs: &Tensors,
    outputs: List<TypeTerm>,
    device: &Device,
) -> Result<Tensors, NifError> {
    let op = guard("instruction", || operation(op))?;
    let outputs: Vec<TensorType> = outputs.0.into_iter().map(|ty| ty.0).collect();
    guard(&*op, || {
        if let Some(ty) = outputs.iter().find(|ty| ty.checked_len().is_none()) {
            return Err(Error::invalid(op.name(), format!("{ty} is larger than memory")));
        }
        let inputs = values(&*op, inputs)?;
        Ok(resources(exec::instruction(&op, inputs, &outputs, device)?))
    })
}

/// Runs one operation.
#[rustler::nif]
fn instruction_run(env: Env<'_>, op: Term<'_>, inputs: Tensors, outputs: List<TypeTerm>) -> Result<Tensors, NifError> {
    let elements = outputs.iter().filter_map(|ty| ty.0.checked_len()).fold(0, usize::saturating_add);
    reported(env, elements, || run_instruction(op, &inputs, outputs, &Device::Cpu))
}

/// Elements of results after which the caller's timeslice ends.
const TIMESLICE: usize = 20_000;

/// Tells the VM how much of the caller's timeslice of a millisecond the work took, so that other processes come to run.
/// Results count too: between timeslices the VM frees what was collected.
fn reported<T>(env: Env<'_>, elements: usize, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    let percent = (elements * 100 / TIMESLICE).max(start.elapsed().as_micros() as usize / 10).min(100);
    if percent > 0 {
        rustler::schedule::consume_timeslice(env, percent as i32);
    }
    result
}

/// [`instruction_run`] for work that may take long.
#[rustler::nif(schedule = "DirtyCpu")]
fn instruction_run_dirty(
    env: Env<'_>,
    op: Term<'_>,
    inputs: Tensors,
    outputs: List<TypeTerm>,
) -> Result<Tensors, NifError> {
    while_caller_lives(env, || run_instruction(op, &inputs, outputs, &Device::Cpu))
}

/// [`instruction_run`] on the device of this kind and number.
#[rustler::nif(schedule = "DirtyCpu")]
fn instruction_run_on(
    env: Env<'_>,
    op: Term<'_>,
    inputs: Tensors,
    outputs: List<TypeTerm>,
    kind: String,
    index: usize,
) -> Result<Tensors, NifError> {
    let device = guard("device", || found(&kind, index))?;
    while_caller_lives(env, || run_instruction(op, &inputs, outputs, &device))
}

/// Prepares `program`; `captures` are the values of its last inputs.
pub(crate) fn executable(program: &Program, captures: &[ResourceArc<Tensor>]) -> Result<ResourceArc<Executable>> {
    let executable = exec::Executable::new(program, values("program", captures)?)?;
    Ok(ResourceArc::new(Executable::new(executable)))
}

/// Prepares a program; `captures` are the values of its last inputs.
#[rustler::nif(schedule = "DirtyCpu")]
fn program_new(
    program: Term<'_>,
    captures: Tensors,
    disabled: Vec<String>,
) -> Result<ResourceArc<Executable>, NifError> {
    guard_deep("program", || {
        let captures = values("program", &captures)?;
        let executable = exec::Executable::optimised(&decode_deep("program", program)?, captures, &disabled)?;
        Ok(ResourceArc::new(Executable::new(executable)))
    })
}

/// The names of the passes over programs.
#[rustler::nif]
fn program_passes() -> Vec<&'static str> {
    passes::names().collect()
}

/// Prepares a program from its JSON form.
#[rustler::nif(schedule = "DirtyCpu")]
fn program_from_json(json: String, captures: Tensors) -> Result<ResourceArc<Executable>, NifError> {
    guard_deep("program", || {
        let program: Program = serde_json::from_str(&json).map_err(|e| Error::invalid("program", e))?;
        executable(&program, &captures)
    })
}

/// The JSON form of a program, if it can be read again: programs may nest deeper than a file holds them.
#[rustler::nif(schedule = "DirtyCpu")]
fn program_to_json(executable: ResourceArc<Executable>) -> Result<String, NifError> {
    guard_deep("program", || {
        let json = serde_json::to_string(executable.0.program()).map_err(|e| Error::invalid("program", e))?;
        serde_json::from_str::<Program>(&json).map_err(|e| Error::invalid("program", e))?;
        Ok(json)
    })
}

/// The text form of a program.
#[rustler::nif(schedule = "DirtyCpu")]
fn program_text(executable: ResourceArc<Executable>) -> Result<String, NifError> {
    guard_deep("program", || Ok(executable.0.text()))
}

/// The patterns found in a program by name, each with the type of the result there.
#[rustler::nif(schedule = "DirtyCpu")]
fn program_patterns(executable: ResourceArc<Executable>) -> Result<Vec<(&'static str, TypeTerm)>, NifError> {
    guard_deep("program", || {
        let found = patterns::found(executable.0.program());
        Ok(found.into_iter().map(|(pattern, ty)| (pattern.name(), TypeTerm(ty))).collect())
    })
}

/// Types of the inputs without the captures, and of the outputs.
#[rustler::nif]
fn program_types(executable: ResourceArc<Executable>) -> Result<(Vec<TypeTerm>, Vec<TypeTerm>), NifError> {
    guard("program", || {
        let inputs = executable.0.input_types().iter().cloned().map(TypeTerm).collect();
        Ok((inputs, executable.0.program().output_types().into_iter().map(TypeTerm).collect()))
    })
}

/// The captured tensors.
#[rustler::nif]
fn program_captures(executable: ResourceArc<Executable>) -> Result<Tensors, NifError> {
    guard("program", || Ok(resources(executable.0.captures().to_vec())))
}

/// Whether the program has shown that its runs on the CPU are short enough for the caller's scheduler.
#[rustler::nif]
fn program_is_brief(executable: ResourceArc<Executable>) -> bool {
    executable.1.is_brief()
}

/// Runs a small program. The run may write over the memory of inputs that are `donated`, which end with it.
#[rustler::nif]
fn program_run(
    env: Env<'_>,
    executable: ResourceArc<Executable>,
    inputs: Tensors,
    donated: Tensors,
) -> Result<Answer, NifError> {
    reported(env, 0, || guard("program", || executable.run_timed(&inputs, &donated)))
}

/// [`program_run`] for work that may take long.
#[rustler::nif(schedule = "DirtyCpu")]
fn program_run_dirty(
    env: Env<'_>,
    executable: ResourceArc<Executable>,
    inputs: Tensors,
    donated: Tensors,
) -> Result<Answer, NifError> {
    while_caller_lives(env, || guard("program", || executable.run_timed(&inputs, &donated)))
}

/// [`program_run`] on the device of this kind and number.
#[rustler::nif(schedule = "DirtyCpu")]
fn program_run_on(
    env: Env<'_>,
    executable: ResourceArc<Executable>,
    inputs: Tensors,
    donated: Tensors,
    kind: String,
    index: usize,
) -> Result<Answer, NifError> {
    while_caller_lives(env, || guard("program", || executable.run(&inputs, &donated, &found(&kind, index)?)))
}

/// Goes on with a small program that waited for the results of a call.
#[rustler::nif]
fn program_resume(env: Env<'_>, run: ResourceArc<Continuation>, results: Tensors) -> Result<Answer, NifError> {
    reported(env, 0, || guard("program", || run.resume(&results)))
}

/// [`program_resume`] for work that may take long.
#[rustler::nif(schedule = "DirtyCpu")]
fn program_resume_dirty(env: Env<'_>, run: ResourceArc<Continuation>, results: Tensors) -> Result<Answer, NifError> {
    while_caller_lives(env, || guard("program", || run.resume(&results)))
}
