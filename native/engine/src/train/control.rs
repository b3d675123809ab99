//! Where a run and its owner meet: stopping, answers and fed batches.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::exec::Executable;
use crate::value::Value;

/// Fed batches that may wait while a step runs.
pub(super) const DEPTH: usize = 2;

/// What the owner says when an epoch is over.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Go on.
    Continue,
    /// Go on with another learning rate.
    LearningRate(f64),
    /// End here.
    Halt,
}

/// Rows with the program of their number.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) executable: Arc<Executable>,
    pub(super) tensors: Vec<Value>,
    pub(super) rows: usize,
}

/// A step that ended the run.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Epoch, from 1.
    pub epoch: usize,
    /// Step within the epoch, from 1.
    pub step: usize,
    /// What its program was given: parameters, states and batch.
    pub inputs: Vec<Value>,
}

/// What comes next for a run that is fed.
#[derive(Debug)]
pub(super) enum Next {
    Batch(Batch),
    /// The epoch has no more batches.
    End,
    Stopped,
}

/// Shared by the thread and the handle.
#[derive(Debug, Default)]
pub(super) struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stop: bool,
    over: bool,
    /// The run waits for the answer to an epoch.
    waiting: bool,
    answer: Option<Answer>,
    /// The epoch takes more batches.
    feeding: bool,
    queue: VecDeque<Batch>,
    call: HostCall,
    failure: Option<Failure>,
}

/// Where a call into the host stands.
#[derive(Debug, Default)]
enum HostCall {
    #[default]
    None,
    /// Nobody has asked for its arguments yet.
    Arguments(Vec<Value>),
    Running,
    Results(Vec<Value>),
}

/// The owner's side. Each answers false when the run is over.
impl Control {
    pub(super) fn stop(&self) -> bool {
        self.change(|state| {
            state.stop = true;
            state.queue.clear();
            Ok(())
        })
        .unwrap_or(false)
    }

    pub(super) fn answer(&self, answer: Answer) -> Result<bool> {
        self.change(|state| {
            if !std::mem::take(&mut state.waiting) {
                return Err(Error::invalid("fit", "no epoch waits for an answer"));
            }
            state.answer = Some(answer);
            Ok(())
        })
    }

    pub(super) fn feed(&self, batch: Batch) -> Result<bool> {
        self.change(|state| match state.feeding {
            false => Err(Error::invalid("fit", "the run takes no batches now; feed them when it asks for them")),
            true if state.queue.len() >= DEPTH => {
                Err(Error::invalid("fit", format!("{DEPTH} batches wait already; feed one when the run asks for it")))
            }
            true => {
                state.queue.push_back(batch);
                Ok(())
            }
        })
    }

    pub(super) fn end_feed(&self) -> Result<bool> {
        self.change(|state| match std::mem::take(&mut state.feeding) {
            true => Ok(()),
            false => Err(Error::invalid("fit", "the run takes no batches now, so there is no end of them")),
        })
    }

    /// Arguments of the call that waits.
    pub(super) fn arguments(&self) -> Result<Vec<Value>> {
        let mut state = self.state.lock();
        match std::mem::take(&mut state.call) {
            HostCall::Arguments(values) => {
                state.call = HostCall::Running;
                Ok(values)
            }
            other => {
                state.call = other;
                Err(Error::invalid("fit", "no call waits for its arguments to be taken"))
            }
        }
    }

    pub(super) fn resume(&self, results: Vec<Value>) -> Result<bool> {
        self.change(|state| {
            if !matches!(state.call, HostCall::Running) {
                return Err(Error::invalid("fit", "no call waits for results"));
            }
            state.call = HostCall::Results(results);
            Ok(())
        })
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        self.state.lock().failure.clone()
    }

    fn change(&self, change: impl FnOnce(&mut State) -> Result<()>) -> Result<bool> {
        let mut state = self.state.lock();
        if state.over || state.stop {
            return Ok(false);
        }
        change(&mut state)?;
        self.changed.notify_all();
        Ok(true)
    }
}

/// The thread's side.
impl Control {
    pub(super) fn stopped(&self) -> bool {
        self.state.lock().stop
    }

    /// Marks the end: the owner's calls have no effect any more.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.over = true;
        state.queue.clear();
    }

    /// From now on one answer is taken.
    pub(super) fn expect_answer(&self) {
        self.state.lock().waiting = true;
    }

    /// Waits for the answer; `None` when stopped.
    pub(super) fn wait_answer(&self) -> Option<Answer> {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(answer) = state.answer.take() {
                return Some(answer);
            }
            self.changed.wait(&mut state);
        }
    }

    /// Keeps the arguments of a call.
    pub(super) fn call(&self, arguments: Vec<Value>) {
        self.state.lock().call = HostCall::Arguments(arguments);
    }

    /// Waits for the results of the call; `None` when stopped.
    pub(super) fn wait_results(&self) -> Option<Vec<Value>> {
        let mut state = self.state.lock();
        while !state.stop {
            match std::mem::take(&mut state.call) {
                HostCall::Results(results) => return Some(results),
                other => state.call = other,
            }
            self.changed.wait(&mut state);
        }
        None
    }

    /// Remembers the step that ends the run.
    pub(super) fn fail(&self, failure: Failure) {
        self.state.lock().failure = Some(failure);
    }

    /// From now on batches are taken, until the owner ends them.
    pub(super) fn open_feed(&self) {
        self.state.lock().feeding = true;
    }

    /// Whether the owner may feed more in this epoch.
    pub(super) fn feeding(&self) -> bool {
        self.state.lock().feeding
    }

    pub(super) fn wait_batch(&self) -> Next {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return Next::Stopped;
            }
            if let Some(batch) = state.queue.pop_front() {
                return Next::Batch(batch);
            }
            if !state.feeding {
                return Next::End;
            }
            self.changed.wait(&mut state);
        }
    }
}
