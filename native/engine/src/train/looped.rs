//! A loop in a backward pass that computes again instead of keeping: its state is kept before one iteration of several. On the
//! way back the iterations between two of these run again with a tape, the last ones first.

use burn_backend::AutodiffBackend;
use burn_backend::ops::FloatTensorOps;
use burn_dispatch::Dispatch;

use super::checkpointed::Run;
use super::gradient::{is_tracked, track};
use crate::adjoint::steady;
use crate::device::Device;
use crate::error::Result;
use crate::exec::{Plan, check_stopped, replay};
use crate::ops::seeded;
use crate::program::{Instruction, Op, Program, While};
use crate::value::Value;

/// A loop of a step program. Values are numbered as in the whole program.
#[derive(Debug)]
pub(super) struct Loop {
    condition: Plan,
    body: Plan,
    /// The first state, then what the loop reads beside it.
    reads: Vec<usize>,
    /// The last state is the values from here on.
    first: usize,
    /// For each of `reads` whether it depends on a parameter in some iteration.
    varied: Vec<bool>,
    /// For each part of the state whether iterations write into it and never read it, so that going back does not need what
    /// is in it: such as the results of all steps of a recurrent layer.
    written: Vec<bool>,
}

/// Gradients of the state, or of what else a loop reads.
type Gradients = Vec<Option<Value>>;

impl Loop {
    /// `None` where the instruction is no loop, or none that parameters go through. `of_parameters` tells which values
    /// depend on one.
    pub(super) fn new(instruction: &Instruction, first: usize, of_parameters: &[bool]) -> Result<Option<Self>> {
        let Op::While(op) = &instruction.op else { return Ok(None) };
        let reads = instruction.inputs.clone();
        let states = instruction.outputs.len();
        let varied = steady(op, &reads.iter().map(|&id| of_parameters[id]).collect::<Vec<_>>(), states);
        if !varied[..states].contains(&true) {
            return Ok(None);
        }
        let written = (0..states).map(|part| is_written_only(op, part)).collect();
        let (condition, body) = (Plan::new(&op.condition)?, Plan::new(&op.body)?);
        Ok(Some(Self { condition, body, reads, first, varied, written }))
    }

    /// Runs and leaves the last state.
    pub(super) fn forth(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut state, captures) = self.operands(run)?;
        let mut trace = Trace { every: 1, iterations: 0, states: vec![] };
        while self.goes_on(&state, &captures, run.device)? {
            check_stopped("while")?;
            trace.keep(&state, &self.written);
            state = self.next(state, &captures, run.device)?;
        }
        for (part, value) in state.into_iter().enumerate() {
            run.values[self.first + part] = Some(value);
        }
        run.traces.push(trace);
        Ok(())
    }

    /// Hands the gradients of the last state on to what the loop reads.
    pub(super) fn back(&self, run: &mut Run<'_>) -> Result<()> {
        let results = self.first..self.first + self.written.len();
        run.values[results.clone()].fill(None);
        let mut gradients: Gradients = run.gradients[results].iter_mut().map(Option::take).collect();
        let Some(mut trace) = run.traces.pop().filter(|_| gradients.iter().any(Option::is_some)) else { return Ok(()) };
        let (_, captures) = self.operands(run)?;
        let mut of_captures = vec![None; captures.len()];
        while let Some(state) = trace.states.pop() {
            let start = trace.states.len() * trace.every;
            let count = trace.iterations - start;
            gradients = self.again(state, &captures, count, gradients, &mut of_captures, run.device)?;
            trace.iterations = start;
        }
        for (&id, gradient) in self.reads.iter().zip(gradients.into_iter().chain(of_captures)) {
            add(&mut run.gradients[id], gradient);
        }
        Ok(())
    }

    /// The first state, and what else is read.
    fn operands(&self, run: &Run<'_>) -> Result<(Vec<Value>, Vec<Value>)> {
        let mut operands = self.reads.iter().map(|&id| run.value(id)).collect::<Result<Vec<_>>>()?;
        let captures = operands.split_off(self.written.len());
        Ok((operands, captures))
    }

    fn goes_on(&self, state: &[Value], captures: &[Value], device: &Device) -> Result<bool> {
        let answer = self.condition.run([state, captures].concat(), device)?;
        Ok(answer.first().is_some_and(|value| value.to_f64().is_ok_and(|number| number != 0.0)))
    }

    fn next(&self, mut state: Vec<Value>, captures: &[Value], device: &Device) -> Result<Vec<Value>> {
        state.extend_from_slice(captures);
        self.body.run(state, device)
    }

    /// Runs `count` iterations again from a `state`, goes back through them from the `gradients` behind them, and answers
    /// those before them.
    fn again(
        &self,
        state: Vec<Option<Value>>,
        captures: &[Value],
        count: usize,
        gradients: Gradients,
        of_captures: &mut Gradients,
        device: &Device,
    ) -> Result<Gradients> {
        let types = &self.body.program().inputs;
        let unread =
            |(part, value): (usize, Option<Value>)| value.map_or_else(|| Value::full(&types[part], 0.0, device), Ok);
        let mut operands = state.into_iter().enumerate().map(unread).collect::<Result<Vec<_>>>()?;
        operands.extend_from_slice(captures);
        let tracked = (0..operands.len()).filter(|&at| self.varied[at]);
        let leaves = tracked.map(|at| Ok((at, track((at, &mut operands[at]))?))).collect::<Result<Vec<_>>>()?;
        let captures = operands.split_off(self.written.len());
        let last = replay(|| (0..count).try_fold(operands, |state, _| self.next(state, &captures, device)))?;
        let mut before = vec![None; last.len()];
        let root = seeded(last.into_iter().zip(gradients).filter_map(|(value, gradient)| Some((value, gradient?))))?;
        let root = root.tensor().clone();
        if is_tracked(&root) {
            let mut all = Dispatch::backward(root);
            for (at, leaf) in leaves {
                let part = Dispatch::grad_remove(&leaf, &mut all).map(|part| Value::new(types[at].dtype, part));
                match at.checked_sub(before.len()) {
                    None => before[at] = part,
                    Some(capture) => add(&mut of_captures[capture], part),
                }
            }
        }
        Ok(before)
    }
}

/// States before iterations, of which one of `every` so many is kept. While the number of iterations grows, fewer are kept: about
/// as many as lie between two of them.
#[derive(Debug)]
pub(super) struct Trace {
    every: usize,
    iterations: usize,
    states: Vec<Vec<Option<Value>>>,
}

impl Trace {
    /// The state before the next iteration, without what is `written` only.
    fn keep(&mut self, state: &[Value], written: &[bool]) {
        if self.iterations.is_multiple_of(self.every) {
            let kept = state.iter().zip(written).map(|(value, &written)| (!written).then(|| value.clone()));
            self.states.push(kept.collect());
        }
        self.iterations += 1;
        if self.states.len() > 2 * self.every {
            let mut number = 0;
            self.states.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every *= 2;
        }
    }
}

/// Adds a part to a gradient.
pub(super) fn add(sum: &mut Option<Value>, part: Option<Value>) {
    *sum = match (sum.take(), part) {
        (Some(sum), Some(part)) => {
            let dtype = sum.dtype();
            Some(Value::new(dtype, Dispatch::float_add(sum.into_tensor(), part.into_tensor())))
        }
        (sum, part) => sum.or(part),
    };
}

/// Whether all that happens to a part of the state is that a slice of it is replaced.
fn is_written_only(op: &While, part: usize) -> bool {
    let [in_condition, in_body] = [&op.condition, &op.body].map(|program| readers(program, part));
    let result = op.body.outputs[part];
    let mut id = op.body.inputs.len();
    for instruction in &op.body.instructions {
        if id == result {
            let replaces = matches!(instruction.op, Op::PutSlice) && instruction.inputs.first() == Some(&part);
            return replaces && (in_condition, in_body) == (0, 1) && readers(&op.body, result) == 1;
        }
        id += instruction.outputs.len();
    }
    false
}

/// How often a value is read or answered.
fn readers(program: &Program, id: usize) -> usize {
    let reads = program.instructions.iter().flat_map(|instruction| &instruction.inputs);
    reads.chain(&program.outputs).filter(|&&read| read == id).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{TensorType, Type};

    #[test]
    fn of_many_states_the_root_is_kept() {
        let number = |n: usize| Value::full(&TensorType::new(Type::F64, []), n as f64, &Device::Cpu).unwrap();
        let mut trace = Trace { every: 1, iterations: 0, states: vec![] };
        for count in 0..1000 {
            trace.keep(&[number(count), number(0)], &[false, true]);
            for (place, state) in trace.states.iter().enumerate() {
                assert_eq!(state[0].as_ref().unwrap().to_f64().unwrap(), (place * trace.every) as f64);
                assert!(state[1].is_none());
            }
        }
        assert_eq!((trace.every, trace.states.len(), trace.iterations), (32, 32, 1000));
    }
}
