//! A backward pass that computes again instead of keeping: the program runs without a tape, and only what lies between its
//! segments is kept. On the way back each segment runs again, with a tape of its own.

use std::time::Instant;

use burn_backend::AutodiffBackend;
use burn_backend::ops::FloatTensorOps;
use burn_dispatch::{Dispatch, DispatchTensor};
use serde::Deserialize;

use super::cuts::{balanced, every, last_reads};
use super::gradient::{Pass, expect_parameters, expect_type, is_tracked, scalar_loss, track};
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
    segments: Vec<Segment>,
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
struct Run<'a> {
    values: Vec<Option<Value>>,
    gradients: Vec<Option<Value>>,
    device: &'a Device,
}

impl Checkpointed {
    /// `None` when there is one segment only.
    pub(super) fn new(executable: &Executable, params: usize, how: Checkpointing) -> Result<Option<Self>> {
        // A chain of layers that is one operation can't be cut.
        let program = &executable.without("rows")?;
        let ends = match how {
            Checkpointing::Off => return Ok(None),
            Checkpointing::Balanced => balanced(program),
            Checkpointing::Every(0) => return Err(Error::invalid("fit", "segments of 0 operations; take at least 1")),
            Checkpointing::Every(count) => every(program.instructions.len(), count),
        };
        if ends.len() < 2 {
            return Ok(None);
        }
        Ok(Some(Self {
            params,
            types: executable.input_types().to_vec(),
            captures: executable.captures().to_vec(),
            outputs: program.outputs.clone(),
            values: program.value_types().len(),
            segments: segments(program, params, &ends)?,
        }))
    }

    /// As [`gradients`](super::gradients).
    pub(super) fn gradients(&self, inputs: Vec<Value>, device: &Device) -> Result<Pass> {
        self.check(&inputs)?;
        let start = Instant::now();
        let mut run = self.run(inputs, device);
        self.segments.iter().try_for_each(|segment| segment.forth(&mut run))?;
        let outputs = self.outputs.iter().map(|&id| value(&run.values, id)).collect::<Result<Vec<_>>>()?;
        let one = Value::full(&scalar_loss(&outputs)?.ty(), 1.0, device)?;
        run.gradients[self.outputs[0]] = Some(one);
        let forward = start.elapsed();
        self.segments.iter().rev().try_for_each(|segment| segment.back(&mut run))?;
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
        Run { values, gradients: vec![None; self.values], device }
    }
}

impl Segment {
    fn operands(&self, values: &[Option<Value>]) -> Result<Vec<Value>> {
        self.reads.iter().map(|&id| value(values, id)).collect()
    }

    /// Runs and leaves what is read behind it.
    fn forth(&self, run: &mut Run<'_>) -> Result<()> {
        let results = self.plan.run(self.operands(&run.values)?, run.device)?;
        self.writes.iter().zip(results).for_each(|(&id, value)| run.values[id] = Some(value));
        Ok(())
    }

    /// Runs again, and hands the gradients of what it writes on to what it reads.
    fn back(&self, run: &mut Run<'_>) -> Result<()> {
        if self.writes.iter().any(|&id| run.gradients[id].is_some()) {
            let mut operands = self.operands(&run.values)?;
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
    /// Goes back from `root` and adds what arrives at the leaves.
    fn collect(&mut self, root: DispatchTensor, leaves: Vec<(usize, DispatchTensor)>) {
        let mut all = Dispatch::backward(root);
        for (id, leaf) in leaves {
            let Some(part) = Dispatch::grad_remove(&leaf, &mut all) else { continue };
            let dtype = match &self.values[id] {
                Some(value) => value.dtype(),
                None => continue,
            };
            let sum = match self.gradients[id].take() {
                Some(sum) => Dispatch::float_add(sum.into_tensor(), part),
                None => part,
            };
            self.gradients[id] = Some(Value::new(dtype, sum));
        }
    }
}

fn value(values: &[Option<Value>], id: usize) -> Result<Value> {
    let lost = || Error::invalid("program", format!("value {id} was freed before its last use"));
    values[id].clone().ok_or_else(lost)
}

fn segments(program: &Program, params: usize, ends: &[usize]) -> Result<Vec<Segment>> {
    let (varied, last) = (varied(program, params), last_reads(program));
    let mut first = program.inputs.len();
    let starts = [0].into_iter().chain(ends.iter().copied());
    let cut = |(start, &end): (usize, &usize)| {
        let segment = segment(program, start..end, first, &last)?;
        first += program.instructions[start..end].iter().map(|i| i.outputs.len()).sum::<usize>();
        let of_parameters = (0..segment.reads.len()).filter(|&at| varied[segment.reads[at]]).collect();
        Ok(Segment { varied: of_parameters, ..segment })
    };
    starts.zip(ends).map(cut).collect()
}

/// The instructions of `range`, whose first result is the value `first`.
fn segment(program: &Program, range: std::ops::Range<usize>, first: usize, last: &[Option<usize>]) -> Result<Segment> {
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
    Ok(Segment { plan, reads, varied: vec![], writes })
}

/// What the instructions read of the values before `first`, in order.
fn reads(instructions: &[Instruction], first: usize) -> Vec<usize> {
    let mut reads: Vec<usize> = instructions.iter().flat_map(|i| &i.inputs).copied().filter(|&id| id < first).collect();
    reads.sort_unstable();
    reads.dedup();
    reads
}

/// For each value whether it may depend on a parameter in a way that has a gradient.
fn varied(program: &Program, params: usize) -> Vec<bool> {
    let mut varied: Vec<bool> = (0..program.inputs.len()).map(|id| id < params).collect();
    for instruction in &program.instructions {
        let reads = instruction.inputs.iter().any(|&id| varied[id]);
        varied.extend(instruction.outputs.iter().map(|ty| reads && ty.dtype.is_float()));
    }
    varied
}
