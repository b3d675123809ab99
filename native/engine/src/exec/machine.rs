//! Runs plans. Loops and branches are frames on a stack of its own, so that a run can stop in the middle of them, for a call
//! into the host, and go on later on any thread.

use std::mem;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::exec::frame::{Event, Frame, Role, Values};
use crate::exec::{Plan, check_stopped};
use crate::value::Value;

/// How far a run came.
#[derive(Debug)]
pub enum Outcome {
    /// To its end, with these results.
    Done(Vec<Value>),
    /// To a call into the host.
    Call {
        /// Number the host gave to the function.
        id: u64,
        /// Its arguments.
        values: Vec<Value>,
        /// The run, which waits for the function's results.
        machine: Box<Machine>,
    },
}

/// A run that waits for the results of a call into the host. Dropping it ends the run.
///
/// ```
/// use ex_burn_engine::exec::{Executable, Outcome};
/// use ex_burn_engine::program::{Callback, Instruction, Op, Program};
/// use ex_burn_engine::{Device, TensorType, Type, Value};
///
/// let ty = TensorType::new(Type::F32, []);
/// let call = Op::RuntimeCall(Callback { id: 7 });
/// let call = Instruction { op: call, inputs: vec![0], outputs: vec![ty.clone()] };
/// let program = Program { inputs: vec![ty.clone()], instructions: vec![call], outputs: vec![1] };
///
/// let executable = Executable::new(&program, vec![])?;
/// let one = Value::full(&ty, 1.0, &Device::Cpu)?;
/// let Outcome::Call { id: 7, values, machine } = executable.start(vec![one], &Device::Cpu)? else { panic!() };
/// assert_eq!(values[0].to_f64()?, 1.0);
/// let Outcome::Done(results) = machine.resume(vec![Value::full(&ty, 2.0, &Device::Cpu)?])? else { panic!() };
/// assert_eq!(results[0].to_f64()?, 2.0);
/// # Ok::<(), ex_burn_engine::Error>(())
/// ```
#[derive(Debug)]
pub struct Machine {
    current: Frame,
    /// Frames whose next instruction waits for the programs inside of it, the outermost first.
    outer: Vec<Frame>,
    device: Device,
}

impl Machine {
    /// Runs `plan` to its end or to the first call. The types of `inputs` are right.
    pub(super) fn start(plan: &Plan, inputs: Vec<Value>, device: &Device) -> Result<Outcome> {
        let current = Frame::new(plan.clone(), inputs, Role::Main);
        Self { current, outer: Vec::new(), device: device.clone() }.go()
    }

    /// Goes on with the `results` of the call, to the end or to the next call.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] or [`Error::Mismatch`] when `results` are not what the call declares, else as the operations say.
    pub fn resume(mut self, results: Vec<Value>) -> Result<Outcome> {
        self.current.check_results(&results)?;
        self.current.accept(results);
        self.go()
    }

    /// Whether the run waits at a hook, which has no results.
    pub(super) fn at_hook(&self) -> bool {
        self.current.is_at_hook()
    }

    /// The error for a call where no host can answer.
    pub(super) fn refusal(&self) -> Error {
        Error::invalid(self.current.op_name(), "calls into the host, which can't answer in the middle of this run")
    }

    fn go(mut self) -> Result<Outcome> {
        loop {
            match self.current.advance(&self.device)? {
                Event::Enter(frame) => self.outer.push(mem::replace(&mut self.current, frame)),
                Event::Call { id, values } => return Ok(Outcome::Call { id, values, machine: Box::new(self) }),
                Event::End(results) => {
                    if let Some(results) = self.leave(results)? {
                        return Ok(Outcome::Done(results));
                    }
                }
            }
        }
    }

    /// Goes on after the program of the current frame, whose results these are. Answers them when it was the last.
    fn leave(&mut self, results: Vec<Value>) -> Result<Option<Vec<Value>>> {
        let Some(outer) = self.outer.last() else { return Ok(Some(results)) };
        let (role, memory) = self.current.end();
        match role {
            Role::Condition { state, captures } => {
                let goes_on = is_true(&results)?;
                self.iterate(goes_on, state, captures, memory)?;
            }
            Role::Body { captures } => match outer.goes_on(&results, &captures) {
                Some(goes_on) => self.iterate(goes_on, results, captures, memory)?,
                None => self.current = outer.condition(results, captures, memory)?,
            },
            Role::Predicate { number, operands } if is_true(&results)? => {
                self.current = outer.branch(number, operands)?;
            }
            Role::Predicate { number, operands } => self.current = outer.choice(number + 1, operands)?,
            Role::Branch | Role::Main => self.give_back(results),
        }
        Ok(None)
    }

    /// The loop goes on from `state`, or ends with it.
    fn iterate(&mut self, goes_on: bool, state: Vec<Value>, captures: Vec<Value>, memory: Values) -> Result<()> {
        match self.outer.last().filter(|_| goes_on) {
            Some(outer) => {
                check_stopped("while")?;
                self.current = outer.body(state, captures, memory)?;
            }
            None => self.give_back(state),
        }
        Ok(())
    }

    /// Hands results of the programs inside an instruction to the frame of that instruction.
    fn give_back(&mut self, results: Vec<Value>) {
        if let Some(outer) = self.outer.pop() {
            self.current = outer;
            self.current.accept(results);
        }
    }
}

/// Any number but zero is true, NaN too.
fn is_true(predicate: &[Value]) -> Result<bool> {
    match predicate {
        [value] => Ok(value.to_f64()? != 0.0),
        _ => Ok(false),
    }
}
