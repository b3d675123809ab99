//! A program in the middle of its run.

use std::mem;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::exec::Plan;
use crate::ops::{self, Call};
use crate::program::Op;
use crate::value::Value;

/// The values that a frame has computed so far, without those that nobody reads any more.
pub(super) type Values = Vec<Option<Value>>;

/// A plan, the values it has computed so far and what it runs for.
#[derive(Debug)]
pub(super) struct Frame {
    plan: Plan,
    values: Values,
    /// Number of the instruction that runs next, or that waits for its results.
    next: usize,
    role: Role,
}

/// What a program runs for. A program inside of an instruction runs for the next instruction of the frame below.
#[derive(Debug)]
pub(super) enum Role {
    /// The whole program.
    Main,
    /// Whether a loop goes on from this state.
    Condition { state: Vec<Value>, captures: Vec<Value> },
    /// The next state of a loop.
    Body { captures: Vec<Value> },
    /// Whether a branch is taken.
    Predicate { number: usize, operands: Vec<Value> },
    /// The branch that was taken.
    Branch,
}

/// Why a frame can't go on by itself.
pub(super) enum Event {
    /// A program inside of its next instruction runs first.
    Enter(Frame),
    /// Its next instruction is a call into the host.
    Call { id: u64, values: Vec<Value> },
    /// Its program has ended, with these results.
    End(Vec<Value>),
}

impl Frame {
    /// The types of `inputs` are right.
    pub(super) fn new(plan: Plan, inputs: Vec<Value>, role: Role) -> Self {
        Self::over(plan, inputs.into_iter().map(Some).collect(), role)
    }

    /// [`Frame::new`] with `values`, the inputs, in memory that was another frame's.
    fn over(plan: Plan, mut values: Values, role: Role) -> Self {
        plan.unused_inputs().iter().for_each(|&id| values[id] = None);
        values.reserve(plan.values().saturating_sub(values.len()));
        Self { plan, values, next: 0, role }
    }

    /// Runs instructions up to one that needs others to run, or to the end.
    pub(super) fn advance(&mut self, device: &Device) -> Result<Event> {
        while let Some((instruction, step)) = self.plan.step(self.next) {
            if let Some(constant) = step.constant(device)? {
                step.accept(constant, &mut self.values);
                self.next += 1;
                continue;
            }
            let inputs = step.operands(instruction, &mut self.values)?;
            match &instruction.op {
                Op::While(_) => return self.enter_loop(inputs).map(Event::Enter),
                Op::Cond(_) => return self.choice(0, inputs).map(Event::Enter),
                Op::Hook(call) | Op::RuntimeCall(call) => return Ok(Event::Call { id: call.id, values: inputs }),
                op => {
                    let (outputs, nested) = (&instruction.outputs, step.nested());
                    let (tape, lends) = (step.tape(), step.lends());
                    let call = Call {
                        op,
                        inputs,
                        outputs,
                        nested,
                        tape,
                        lends,
                        #[cfg(feature = "gpu")]
                        memo: Some(step.memo()),
                        device,
                    };
                    let results = ops::run(call)?;
                    step.accept(results, &mut self.values);
                    self.next += 1;
                }
            }
        }
        self.plan.results(&mut self.values).map(Event::End)
    }

    /// Takes the results of the next instruction, which is then done.
    pub(super) fn accept(&mut self, results: Vec<Value>) {
        if let Some((_, step)) = self.plan.step(self.next) {
            step.accept(results, &mut self.values);
            self.next += 1;
        }
    }

    /// Whether the next instruction, a call, declares these results.
    pub(super) fn check_results(&self, results: &[Value]) -> Result<()> {
        let Some((instruction, _)) = self.plan.step(self.next) else { return Ok(()) };
        ops::check_results(&instruction.op, results, &instruction.outputs)
    }

    /// Whether the next instruction is a hook.
    pub(super) fn is_at_hook(&self) -> bool {
        self.plan.step(self.next).is_some_and(|(instruction, _)| matches!(instruction.op, Op::Hook(_)))
    }

    /// Name of the next instruction's operation.
    pub(super) fn op_name(&self) -> String {
        self.plan.step(self.next).map_or_else(|| "program".into(), |(instruction, _)| instruction.op.name())
    }

    /// What the frame, which has ended, ran for, and the memory of its values, now empty.
    pub(super) fn end(&mut self) -> (Role, Values) {
        let mut values = mem::take(&mut self.values);
        values.clear();
        (mem::replace(&mut self.role, Role::Main), values)
    }

    /// The next instruction is a loop: whether it starts.
    fn enter_loop(&self, mut operands: Vec<Value>) -> Result<Frame> {
        let state = self.plan.step(self.next).map_or(0, |(instruction, _)| instruction.outputs.len());
        let captures = operands.split_off(state);
        self.condition(operands, captures, Values::new())
    }

    /// The next instruction is a loop: whether it goes on from `state`, where that needs no run of its condition.
    pub(super) fn goes_on(&self, state: &[Value], captures: &[Value]) -> Option<bool> {
        self.nested(0).ok()?.bound()?.holds(state, captures)
    }

    /// The next instruction is a loop: whether it goes on from `state`. Values go to `memory`, which is empty.
    pub(super) fn condition(&self, state: Vec<Value>, captures: Vec<Value>, mut memory: Values) -> Result<Frame> {
        let plan = self.nested(0)?;
        extend(&mut memory, &state, &plan, Value::untracked);
        extend(&mut memory, &captures, &plan, Value::untracked);
        Ok(Frame::over(plan, memory, Role::Condition { state, captures }))
    }

    /// The next instruction is a loop: its next state. Values go to `memory`, which is empty.
    pub(super) fn body(&self, state: Vec<Value>, captures: Vec<Value>, mut memory: Values) -> Result<Frame> {
        let plan = self.nested(1)?;
        memory.extend(state.into_iter().map(Some));
        extend(&mut memory, &captures, &plan, Value::clone);
        Ok(Frame::over(plan, memory, Role::Body { captures }))
    }

    /// The next instruction has branches: whether to take branch `number`, or that branch where no predicate is left.
    pub(super) fn choice(&self, number: usize, operands: Vec<Value>) -> Result<Frame> {
        if number == self.predicates() {
            return self.branch(number, operands);
        }
        let plain = operands.iter().map(Value::untracked).collect();
        Ok(Frame::new(self.nested(number)?, plain, Role::Predicate { number, operands }))
    }

    /// The next instruction has branches: branch `number`.
    pub(super) fn branch(&self, number: usize, operands: Vec<Value>) -> Result<Frame> {
        Ok(Frame::new(self.nested(self.predicates() + number)?, operands, Role::Branch))
    }

    /// There is one branch more than predicates.
    fn predicates(&self) -> usize {
        self.plan.step(self.next).map_or(0, |(_, step)| step.nested().len() / 2)
    }

    fn nested(&self, number: usize) -> Result<Plan> {
        let step = self.plan.step(self.next).map(|(_, step)| step);
        let plan = step.and_then(|step| step.nested().get(number)).cloned();
        plan.ok_or_else(|| Error::invalid(self.op_name(), format!("has no program {number}")))
    }
}

/// Adds the next inputs of `plan`, those that it reads, by `take`.
fn extend(values: &mut Values, inputs: &[Value], plan: &Plan, take: impl Fn(&Value) -> Value) {
    let first = values.len();
    let read = |(i, value): (usize, &Value)| plan.reads_input(first + i).then(|| take(value));
    values.extend(inputs.iter().enumerate().map(read));
}
