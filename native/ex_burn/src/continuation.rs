//! Runs of programs that wait while the BEAM answers a call.

use ex_burn_engine::exec::{Machine, Outcome};
use ex_burn_engine::{Device, Error, Result};
use parking_lot::Mutex;
use rustler::{Encoder, Env, Resource, ResourceArc, Term};

use crate::tensor::{Tensor, Tensors, resources, values};

rustler::atoms! { call }

/// A run in the middle of a call, until it goes on. One that nobody holds any more ends.
pub(crate) struct Continuation(Mutex<Option<Box<Machine>>>);

// As for `Tensor`: a run that panics is gone.
impl std::panic::RefUnwindSafe for Continuation {}

#[rustler::resource_impl]
impl Resource for Continuation {}

impl Continuation {
    /// Goes on with the results of the call.
    pub(crate) fn resume(&self, results: &[ResourceArc<Tensor>]) -> Result<Answer> {
        let results = values("program", results)?;
        let machine = self.0.lock().take();
        let machine = machine.ok_or_else(|| Error::invalid("program", "has gone on after this call already"))?;
        machine.resume(results)?.try_into()
    }
}

/// How far a run came: its results, or `{:call, number, arguments, continuation}`.
pub(crate) enum Answer {
    Done(Tensors),
    Call(u64, Tensors, ResourceArc<Continuation>),
}

impl TryFrom<Outcome> for Answer {
    type Error = Error;

    fn try_from(outcome: Outcome) -> Result<Self> {
        Ok(match outcome {
            Outcome::Done(results) => Self::Done(resources(results)),
            Outcome::Call { id, values, machine } => {
                // The host reads the arguments.
                let values = values.into_iter().map(|value| value.to_device(&Device::Cpu)).collect::<Result<_>>()?;
                Self::Call(id, resources(values), ResourceArc::new(Continuation(Mutex::new(Some(machine)))))
            }
        })
    }
}

impl Encoder for Answer {
    fn encode<'a>(&self, env: Env<'a>) -> Term<'a> {
        match self {
            Self::Done(results) => results.encode(env),
            Self::Call(id, arguments, continuation) => (call(), id, arguments, continuation).encode(env),
        }
    }
}
