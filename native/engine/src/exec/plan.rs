//! A program made ready to run many times.

use std::iter::repeat_n;
use std::sync::Arc;

use crate::cpu::tape::Tape;
use crate::device::{Device, threads};
use crate::error::{Error, Result};
use crate::exec::bound::Bound;
use crate::exec::held::Held;
use crate::exec::serial::Serial;
use crate::exec::{Machine, Outcome, host};
use crate::ops::fused;
use crate::program::{Instruction, Op, Program, Rows};
use crate::value::Value;

/// A checked program with the last use of each value, so that memory is given back or reused as soon as it can be. Cloning
/// shares it.
#[derive(Clone, Debug)]
pub struct Plan(Arc<Prepared>);

#[derive(Debug)]
struct Prepared {
    program: Program,
    steps: Vec<Step>,
    unused_inputs: Vec<usize>,
    /// For each of the program's outputs: whether no later one is the same value.
    last_output: Vec<bool>,
    /// How many values there are.
    values: usize,
    /// What it says as the condition of a loop, where that is a comparison of integers.
    bound: Option<Bound>,
}

/// What an instruction needs besides itself.
#[derive(Debug)]
pub(super) struct Step {
    /// For each operand: whether this is the last read of its value.
    last_use: Vec<bool>,
    /// Id of the first result.
    first_output: usize,
    /// Results that nobody reads.
    unused: Vec<usize>,
    nested: Vec<Plan>,
    tape: Option<Tape>,
    /// Whether the result may share the operand's memory: see [`lends`].
    lends: bool,
    /// The result of a constant, which is made once.
    constant: Option<Held>,
    #[cfg(feature = "gpu")]
    memo: crate::gpu::Memo,
}

impl Plan {
    /// Prepares `program`.
    ///
    /// # Errors
    ///
    /// As [`Program::check`].
    pub fn new(program: &Program) -> Result<Self> {
        program.check()?;
        Ok(Self::checked(program.clone(), false, usize::MAX))
    }

    /// Prepares `program` so that all of its values are kept to the end of a run, and none is written over.
    ///
    /// # Errors
    ///
    /// As [`Program::check`].
    pub fn keeping(program: &Program) -> Result<Self> {
        program.check()?;
        Ok(Self::checked(program.clone(), true, usize::MAX))
    }

    /// The inputs from number `captures` on are those of a loop that stay the same.
    fn checked(program: Program, keeps: bool, captures: usize) -> Self {
        let mut read_later = vec![keeps; program.value_types().len()];
        let values = read_later.len();
        let mut is_output = vec![false; values];
        let mut last_output: Vec<bool> =
            program.outputs.iter().rev().map(|&id| !std::mem::replace(&mut is_output[id], true)).collect();
        last_output.reverse();
        program.outputs.iter().for_each(|&id| read_later[id] = true);
        let mut first_output = values;
        let mut steps = Vec::with_capacity(program.instructions.len());
        for instruction in program.instructions.iter().rev() {
            first_output -= instruction.outputs.len();
            steps.push(Step::new(instruction, first_output, &mut read_later, keeps));
        }
        steps.reverse();
        lends(&program, captures).into_iter().for_each(|number: usize| steps[number].lends = true);
        let unused_inputs = (0..program.inputs.len()).filter(|&id| !read_later[id]).collect();
        let bound = Bound::of(&program);
        Self(Arc::new(Prepared { program, steps, unused_inputs, last_output, values, bound }))
    }

    /// The program as it was given.
    pub fn program(&self) -> &Program {
        &self.0.program
    }

    /// Runs the program on `inputs` and answers its outputs.
    ///
    /// # Errors
    ///
    /// As [`Plan::start`]; [`Error::Invalid`] when the program calls into the host and the thread
    /// [has none](crate::exec::with_host).
    pub fn run(&self, inputs: Vec<Value>, device: &Device) -> Result<Vec<Value>> {
        let mut outcome = self.start(inputs, device)?;
        loop {
            match outcome {
                Outcome::Done(results) => return Ok(results),
                Outcome::Call { id, values, machine } => outcome = host::answer(id, values, *machine)?,
            }
        }
    }

    /// Runs the program on `inputs` to its end or to its first call into the host.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] or [`Error::Mismatch`] when `inputs` are not what the program declares, else as the operations say.
    pub fn start(&self, inputs: Vec<Value>, device: &Device) -> Result<Outcome> {
        self.check_inputs(&inputs)?;
        Machine::start(self, inputs, device)
    }

    /// The region of the instruction with this number made ready.
    pub(crate) fn tape(&self, number: usize) -> Option<&Tape> {
        self.0.steps.get(number)?.tape()
    }

    /// The instruction with this number.
    pub(super) fn step(&self, number: usize) -> Option<(&Instruction, &Step)> {
        self.program().instructions.get(number).zip(self.0.steps.get(number))
    }

    /// Inputs that nobody reads.
    pub(crate) fn unused_inputs(&self) -> &[usize] {
        &self.0.unused_inputs
    }

    /// Whether somebody reads the input with this number.
    pub(super) fn reads_input(&self, id: usize) -> bool {
        self.0.unused_inputs.binary_search(&id).is_err()
    }

    /// What the program says as the condition of a loop, where that needs no run.
    pub(super) fn bound(&self) -> Option<Bound> {
        self.0.bound
    }

    /// How many values there are, inputs and results.
    pub(super) fn values(&self) -> usize {
        self.0.values
    }

    /// The program's results among all of its values, at the end.
    pub(super) fn results(&self, values: &mut [Option<Value>]) -> Result<Vec<Value>> {
        taken(values, &self.program().outputs, &self.0.last_output)
    }

    pub(super) fn check_inputs(&self, inputs: &[Value]) -> Result<()> {
        let declared = &self.program().inputs;
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
    fn new(instruction: &Instruction, first_output: usize, read_later: &mut [bool], keeps: bool) -> Self {
        let outputs = first_output..first_output + instruction.outputs.len();
        let unused = outputs.filter(|&id| !read_later[id]).collect();
        let mut last_use: Vec<bool> =
            instruction.inputs.iter().rev().map(|&id| !std::mem::replace(&mut read_later[id], true)).collect();
        last_use.reverse();
        let (nested, tape) = prepared(instruction, keeps);
        Self {
            last_use,
            first_output,
            unused,
            nested,
            tape,
            lends: false,
            constant: constant(instruction),
            #[cfg(feature = "gpu")]
            memo: Default::default(),
        }
    }

    /// The result that is known already.
    pub(super) fn constant(&self, device: &Device) -> Result<Option<Vec<Value>>> {
        self.constant.as_ref().map(|constant| constant.on(device)).transpose()
    }

    /// The region of a fused instruction made ready.
    pub(super) fn tape(&self) -> Option<&Tape> {
        self.tape.as_ref()
    }

    /// Where a GPU keeps the kernel of the instruction.
    #[cfg(feature = "gpu")]
    pub(super) fn memo(&self) -> &crate::gpu::Memo {
        &self.memo
    }

    /// Whether the result may share the operand's memory.
    pub(super) fn lends(&self) -> bool {
        self.lends
    }

    /// Prepared forms of the programs inside the instruction.
    pub(super) fn nested(&self) -> &[Plan] {
        &self.nested
    }

    /// Adds the instruction's results to the values.
    pub(super) fn accept(&self, results: Vec<Value>, values: &mut Vec<Option<Value>>) {
        values.extend(results.into_iter().map(Some));
        self.unused.iter().for_each(|&id| values[id] = None);
    }

    /// The instruction's operands among all values, which lose those that nobody reads later.
    pub(super) fn operands(&self, instruction: &Instruction, values: &mut [Option<Value>]) -> Result<Vec<Value>> {
        debug_assert_eq!(self.first_output, values.len());
        taken(values, &instruction.inputs, &self.last_use)
    }
}

/// Most instructions in all plans of one program of rows. Making plans takes time, and in a long program waiting is a small part
/// of it.
const COPIED: usize = 4096;

/// How many plans there are of a program that runs on several cores: they wait for each other wherever they count who holds
/// what a plan holds.
fn copies(attrs: &Rows) -> usize {
    let most = COPIED / instructions(&attrs.block).max(1);
    attrs.blocks.min(threads()).min(most.max(1))
}

/// How many instructions a program has, with those inside of others.
fn instructions(program: &Program) -> usize {
    let inside = program.instructions.iter().flat_map(|instruction| instruction.op.nested());
    program.instructions.len() + inside.map(instructions).sum::<usize>()
}

/// Prepared forms of the programs inside an instruction, and its loop.
fn prepared(instruction: &Instruction, keeps: bool) -> (Vec<Plan>, Option<Tape>) {
    if let Some(Serial { step, looped }) = Serial::new(instruction) {
        let (setup, tape) = looped.map(|looped| (looped.setup, looped.tape)).unzip();
        let programs = [step].into_iter().chain(setup);
        return (programs.map(|program| Plan::checked(program, false, usize::MAX)).collect(), tape);
    }
    let captures = if let Op::While(_) = &instruction.op { instruction.outputs.len() } else { usize::MAX };
    let plan = |nested: &Program| Plan::checked(nested.clone(), keeps, captures);
    let nested = match &instruction.op {
        Op::Rows(attrs) => [&attrs.whole].into_iter().chain(repeat_n(&attrs.block, copies(attrs))).map(plan).collect(),
        op => op.nested().into_iter().map(plan).collect(),
    };
    let tape = if let Op::Fused(attrs) = &instruction.op { fused::compile(attrs) } else { None };
    (nested, tape)
}

/// The slices of what a loop captures that regions and products alone read. They need no copy, though they are small parts: the
/// loop holds all of that memory anyway, nobody writes to it, and the slices do not outlive an iteration.
fn lends(program: &Program, captures: usize) -> Vec<usize> {
    let mut next = program.inputs.len();
    let captured = captures..next;
    if captured.is_empty() {
        return vec![];
    }
    let mut slices = vec![];
    // The number of the slice whose elements each value is.
    let mut of: Vec<Option<usize>> = vec![None; program.value_types().len()];
    let mut kept: Vec<usize> = vec![];
    for (number, instruction) in program.instructions.iter().enumerate() {
        match (&instruction.op, &instruction.inputs[..]) {
            (Op::DynamicSlice(_), &[sequence, ..]) if captured.contains(&sequence) => {
                of[next] = Some(number);
                slices.push(number);
            }
            (Op::Reshape, &[x]) => of[next] = of[x],
            (Op::Fused(_) | Op::Dot(_) | Op::Blocked(_), _) => (),
            _ => kept.extend(instruction.inputs.iter().filter_map(|&id| of[id])),
        }
        next += instruction.outputs.len();
    }
    kept.extend(program.outputs.iter().filter_map(|&id| of[id]));
    slices.retain(|slice| !kept.contains(slice));
    slices
}

/// The result of a constant.
fn constant(instruction: &Instruction) -> Option<Held> {
    let (Op::Constant(_), [out]) = (&instruction.op, &instruction.outputs[..]) else { return None };
    let results = super::instruction(&instruction.op, vec![], std::slice::from_ref(out), &Device::Cpu);
    results.ok().map(Held::new)
}

/// The values with these ids, which are not kept where this is the last that is wanted of them.
fn taken(values: &mut [Option<Value>], ids: &[usize], last: &[bool]) -> Result<Vec<Value>> {
    let mut taken = Vec::with_capacity(ids.len());
    for (&id, &last) in ids.iter().zip(last) {
        let value = if last { values[id].take() } else { values[id].clone() };
        taken.push(value.ok_or_else(|| lost(id))?);
    }
    Ok(taken)
}

fn lost(id: usize) -> Error {
    Error::invalid("program", format!("value {id} was freed before its last use"))
}
