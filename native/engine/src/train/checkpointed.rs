//! A backward pass that computes again instead of keeping: the program runs without a tape, and only what lies between its
//! segments is kept. On the way back each segment runs again, with a tape of its own. A loop is cut between its iterations.

use std::time::Instant;

use burn_backend::AutodiffBackend;
use burn_dispatch::{Dispatch, DispatchTensor};
use serde::Deserialize;

use super::cuts::{balanced, every, last_reads};
use super::gradient::{Pass, expect_parameters, expect_type, is_tracked, scalar_loss, track};
use super::looped::{Loop, Trace, add};
use crate::adjoint::dependent;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::exec::{Executable, Plan, replay};
use crate::ops::seeded;
use crate::program::{Instruction, Program};
use crate::types::TensorType;
use crate::value::Value;

/// Which values autodiff keeps for the backward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checkpointing {
    /// All that it needs.
    #[default]
    Off,
    /// Those between segments that are chosen so that the least memory is needed.
    Balanced,
    /// Those between segments of so many instructions.
    Every(usize),
}

/// A step program in segments.
#[derive(Debug)]
pub(super) struct Checkpointed {
    params: usize,
    types: Vec<TensorType>,
    captures: Vec<Value>,
    outputs: Vec<usize>,
    /// How many values the whole program has.
    values: usize,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Segment(Segment),
    Loop(Loop),
}

/// Instructions that follow one another. Values are numbered as in the whole program.
#[derive(Debug)]
struct Segment {
    plan: Plan,
    reads: Vec<usize>,
    /// Numbers among `reads` of those that depend on a parameter.
    varied: Vec<usize>,
    /// What is read behind the segment.
    writes: Vec<usize>,
}

/// Values of the whole program, and gradients of the loss by them.
pub(super) struct Run<'a> {
    pub(super) values: Vec<Option<Value>>,
    pub(super) gradients: Vec<Option<Value>>,
    /// Of loops that are done, the last one last.
    pub(super) traces: Vec<Trace>,
    pub(super) device: &'a Device,
}

impl Checkpointed {
    /// `None` when there is one segment only.
    pub(super) fn new(executable: &Executable, params: usize, how: Checkpointing) -> Result<Option<Self>> {
        // A chain of layers that is one operation can't be cut.
        let program = &executable.followed().without("rows")?;
        let ends = match how {
            Checkpointing::Off => return Ok(None),
            Checkpointing::Balanced => balanced(program),
            Checkpointing::Every(0) => return Err(Error::invalid("fit", "segments of 0 operations; take at least 1")),
            Checkpointing::Every(count) => every(program.instructions.len(), count),
        };
        let parts = parts(program, params, &ends)?;
        if let [Part::Segment(_)] | [] = &parts[..] {
            return Ok(None);
        }
        Ok(Some(Self {
            params,
            types: executable.input_types().to_vec(),
            captures: executable.captures().to_vec(),
            outputs: program.outputs.clone(),
            values: program.value_types().len(),
            parts,
        }))
    }

    /// As [`gradients`](super::gradients).
    pub(super) fn gradients(&self, inputs: Vec<Value>, device: &Device) -> Result<Pass> {
        self.check(&inputs)?;
        let start = Instant::now();
        let mut run = self.run(inputs, device);
        self.parts.iter().try_for_each(|part| part.forth(&mut run))?;
        let outputs = self.outputs.iter().map(|&id| run.value(id)).collect::<Result<Vec<_>>>()?;
        let one = Value::full(&scalar_loss(&outputs)?.ty(), 1.0, device)?;
        run.gradients[self.outputs[0]] = Some(one);
        let forward = start.elapsed();
        self.parts.iter().rev().try_for_each(|part| part.back(&mut run))?;
        let gradient = |(ty, gradient): (_, Option<Value>)| match gradient {
            Some(gradient) => expect_type(gradient, ty),
            None => Value::full(ty, 0.0, device),
        };
        let gradients = self.types[..self.params].iter().zip(run.gradients).map(gradient).collect::<Result<_>>()?;
        Ok(Pass { outputs, gradients, times: [forward, start.elapsed() - forward] })
    }

    fn check(&self, inputs: &[Value]) -> Result<()> {
        if inputs.len() != self.types.len() {
            let reason = format!("takes {} inputs, got {}", self.types.len(), inputs.len());
            return Err(Error::invalid("program", reason));
        }
        expect_parameters(&inputs[..self.params])
    }

    fn run<'a>(&self, mut inputs: Vec<Value>, device: &'a Device) -> Run<'a> {
        inputs.extend_from_slice(&self.captures);
        let mut values: Vec<Option<Value>> = inputs.into_iter().map(Some).collect();
        values.resize(self.values, None);
        Run { values, gradients: vec![None; self.values], traces: vec![], device }
    }
}

impl Part {
    fn forth(&self, run: &mut Run<'_>) -> Result<()> {
        match self {
            Self::Segment(segment) => segment.forth(run),
            Self::Loop(part) => part.forth(run),
        }
    }

    fn back(&self, run: &mut Run<'_>) -> Result<()> {
        match self {
            Self::Segment(segment) => segment.back(run),
            Self::Loop(part) => part.back(run),
        }
    }
}

impl Segment {
    fn operands(&self, run: &Run<'_>) -> Result<Vec<Value>> {
        self.reads.iter().map(|&id| run.value(id)).collect()
    }

    /// Runs and leaves what is read behind it.
    fn forth(&self, run: &mut Run<'_>) -> Result<()> {
        let results = self.plan.run(self.operands(run)?, run.device)?;
        self.writes.iter().zip(results).for_each(|(&id, value)| run.values[id] = Some(value));
        Ok(())
    }

    /// Runs again, and hands the gradients of what it writes on to what it reads.
    fn back(&self, run: &mut Run<'_>) -> Result<()> {
        if self.writes.iter().any(|&id| run.gradients[id].is_some()) {
            let mut operands = self.operands(run)?;
            let leaves = self.leaves(&mut operands)?;
            let results = replay(|| self.plan.run(operands, run.device))?;
            let upstream = self.writes.iter().zip(results);
            let upstream: Vec<_> =
                upstream.filter_map(|(&id, value)| Some((value, run.gradients[id].take()?))).collect();
            let root = seeded(upstream)?.tensor().clone();
            if is_tracked(&root) {
                run.collect(root, leaves);
            }
        }
        for &id in &self.writes {
            (run.values[id], run.gradients[id]) = (None, None);
        }
        Ok(())
    }

    /// Puts the operands that depend on a parameter at the start of a tape.
    fn leaves(&self, operands: &mut [Value]) -> Result<Vec<(usize, DispatchTensor)>> {
        self.varied.iter().map(|&at| Ok((self.reads[at], track((at, &mut operands[at]))?))).collect()
    }
}

impl Run<'_> {
    pub(super) fn value(&self, id: usize) -> Result<Value> {
        let lost = || Error::invalid("program", format!("value {id} was freed before its last use"));
        self.values[id].clone().ok_or_else(lost)
    }

    /// Goes back from `root` and adds what arrives at the leaves.
    fn collect(&mut self, root: DispatchTensor, leaves: Vec<(usize, DispatchTensor)>) {
        let mut all = Dispatch::backward(root);
        for (id, leaf) in leaves {
            let Some(value) = &self.values[id] else { continue };
            let part = Dispatch::grad_remove(&leaf, &mut all).map(|part| Value::new(value.dtype(), part));
            add(&mut self.gradients[id], part);
        }
    }
}

/// The program cut at `ends` and around loops.
fn parts(program: &Program, params: usize, ends: &[usize]) -> Result<Vec<Part>> {
    let inputs = (0..program.inputs.len()).map(|id| id < params).collect::<Vec<_>>();
    let (varied, last) = (dependent(program, &inputs), last_reads(program));
    let (mut parts, mut first, mut start) = (vec![], program.inputs.len(), 0);
    let mut next = first;
    for (number, instruction) in program.instructions.iter().enumerate() {
        let found = Loop::new(instruction, next, &varied)?;
        next += instruction.outputs.len();
        let behind = number + 1;
        let end = if found.is_some() { number } else { behind };
        if end > start && (found.is_some() || ends.contains(&behind)) {
            parts.push(Part::Segment(segment(program, start..end, first, &last, &varied)?));
            start = end;
        }
        if let Some(found) = found {
            parts.push(Part::Loop(found));
            start = behind;
        }
        if start == behind {
            first = next;
        }
    }
    Ok(parts)
}

/// The instructions of `range`, whose first result is the value `first`.
fn segment(
    program: &Program,
    range: std::ops::Range<usize>,
    first: usize,
    last: &[Option<usize>],
    of_parameters: &[bool],
) -> Result<Segment> {
    let mut instructions = program.instructions[range.clone()].to_vec();
    let reads = reads(&instructions, first);
    let count = instructions.iter().map(|i| i.outputs.len()).sum::<usize>();
    let local = |id: usize| match reads.binary_search(&id) {
        Ok(at) => at,
        Err(_) => reads.len() + id - first,
    };
    instructions.iter_mut().flat_map(|i| &mut i.inputs).for_each(|id| *id = local(*id));
    let writes: Vec<usize> =
        (first..first + count).filter(|&id| last[id].is_some_and(|last| last >= range.end)).collect();
    let types = program.value_types();
    let inputs = reads.iter().map(|&id| types[id].clone()).collect();
    let outputs = writes.iter().map(|&id| local(id)).collect();
    let plan = Plan::new(&Program { inputs, instructions, outputs })?;
    let varied = (0..reads.len()).filter(|&at| of_parameters[reads[at]]).collect();
    Ok(Segment { plan, reads, varied, writes })
}

/// What the instructions read of the values before `first`, in order.
fn reads(instructions: &[Instruction], first: usize) -> Vec<usize> {
    let mut reads: Vec<usize> = instructions.iter().flat_map(|i| &i.inputs).copied().filter(|&id| id < first).collect();
    reads.sort_unstable();
    reads.dedup();
    reads
}
