//! Calls into the host from runs that can't stop for them: those that autodiff follows, and programs inside operations.

use std::cell::{Cell, RefCell};

use crate::error::Result;
use crate::exec::{Machine, Outcome};
use crate::value::Value;

/// Answers calls: takes the number of the function and its arguments, gives its results.
pub type Host = Box<dyn FnMut(u64, Vec<Value>) -> Result<Vec<Value>>>;

thread_local! {
    static HOST: RefCell<Option<Host>> = const { RefCell::new(None) };
    static REPLAYS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body`; calls into the host by programs that it runs to their end on this thread are answered by `host`.
///
/// ```
/// use ex_burn_engine::exec::{Plan, with_host};
/// use ex_burn_engine::program::{Callback, Instruction, Op, Program};
/// use ex_burn_engine::{Device, TensorType, Type, Value};
///
/// let ty = TensorType::new(Type::F32, []);
/// let call = Op::RuntimeCall(Callback { id: 7 });
/// let call = Instruction { op: call, inputs: vec![0], outputs: vec![ty.clone()] };
/// let plan = Plan::new(&Program { inputs: vec![ty.clone()], instructions: vec![call], outputs: vec![1] })?;
///
/// let one = Value::full(&ty, 1.0, &Device::Cpu)?;
/// let double = Box::new(|_id, values: Vec<Value>| Ok(vec![Value::full(&values[0].ty(), 2.0, &Device::Cpu)?]));
/// let results = with_host(double, || plan.run(vec![one], &Device::Cpu))?;
/// assert_eq!(results[0].to_f64()?, 2.0);
/// # Ok::<(), ex_burn_engine::Error>(())
/// ```
pub fn with_host<T>(host: Host, body: impl FnOnce() -> T) -> T {
    let _restore = OuterHost(HOST.replace(Some(host)));
    body()
}

/// Runs `body`, which repeats what has run before: its hooks are passed over.
pub(crate) fn replay<T>(body: impl FnOnce() -> T) -> T {
    let _restore = OuterReplay(REPLAYS.replace(true));
    body()
}

/// Goes on with a run after a call, which the host of this thread answers.
pub(super) fn answer(id: u64, values: Vec<Value>, machine: Machine) -> Result<Outcome> {
    if REPLAYS.get() && machine.at_hook() {
        return machine.resume(vec![]);
    }
    // While it answers there is none: a function of the host has a host of its own.
    let Some(mut host) = HOST.take() else { return Err(machine.refusal()) };
    let results = host(id, values.iter().map(Value::untracked).collect());
    HOST.set(Some(host));
    machine.resume(results?)
}

/// Puts the host of an outer run back, after a panic too.
struct OuterHost(Option<Host>);

impl Drop for OuterHost {
    fn drop(&mut self) {
        HOST.set(self.0.take());
    }
}

/// As [`OuterHost`], for replays.
struct OuterReplay(bool);

impl Drop for OuterReplay {
    fn drop(&mut self) {
        REPLAYS.set(self.0);
    }
}
