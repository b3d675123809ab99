//! Training runs: a native thread that tells its owner what happens by messages, and waits for answers between epochs.
//!
//! # Programs
//!
//! A *step program* takes `params ++ states ++ batch` (then its captures) and answers `[loss | metrics] ++ new_states`:
//! `loss` is a float scalar, each metric a real scalar, each new state has the type of its state. The batch tensors share
//! the length of their first axis, which is the program's batch size. An *evaluation program* takes the same and answers
//! `[loss | metrics]`. With a loss scale both take it, a scalar of `f32`, behind the states, and a step program multiplies its
//! loss by it. With `weighted` both answer the weight of the batch behind the metrics. There is one program for each batch size: for `n` rows in batches of `b` that is `b`, and `rem(n, b)`
//! for the short last batch. All programs answer the same number of metrics.
//!
//! # Functions
//!
//! All answer `{:ok, result}` or `{:error, {kind, map}}`. `executable` is what `program_new` made, `tensor` any tensor
//! reference; parameters and optimizer state come and go in the order given.
//!
//! ```text
//! train_gradients_dirty(executable, n_params, [tensor], checkpointing) -> {outputs :: [tensor], gradients :: [tensor]}
//! ```
//!
//! One forward and backward pass. The inputs are `params ++ rest` without captures; the first output is the loss. Any program
//! whose first output is a float scalar will do. A parameter that the loss does not depend on has a gradient of zeros.
//! `checkpointing` is `:off`, `:balanced` or `{:every, n_instructions}`. Hooks are passed over.
//!
//! ```text
//! train_check_loss_dirty(executable, n_params)
//! ```
//!
//! An error where the first output leads to one of the first `n_params` inputs through complex numbers.
//!
//! ```text
//! train_profile_dirty(executable, [tensor], config, job) -> {forward, backward, optimizer}
//! ```
//!
//! Seconds that the parts of one step take, which is not kept. The inputs are a batch; of the job only parameters and states
//! are used, and the optimizer.
//!
//! ```text
//! train_start(tag :: term, config, job) -> handle
//!
//! config = %{
//!   epochs: pos_integer,          # number of the last epoch
//!   first_epoch: pos_integer,     # 1, or where a resumed run goes on
//!   batch_size: pos_integer,
//!   shuffle: boolean,             # an order for each epoch, from `seed` and the epoch's number alone
//!   seed: 0..2**64-1,
//!   learning_rate: float,         # with `rates` what these are multiplied by
//!   optimizer: {name, %{option => value}} | nil,   # with all options, see the engine's `Rule`; nil with an update program
//!   gradients: :autodiff | :program,   # by autodiff, or answered by step programs after the new states
//!   checkpointing: :off | :balanced | {:every, pos_integer},   # what autodiff keeps for the backward pass
//!   clip_value: float | nil,      # bound of every element of a gradient
//!   clip_norm: float | nil,       # bound of the norm of all gradients together, once they are clipped
//!   weight_decay: float,          # share of each parameter that is added to its gradient
//!   weighted: boolean,            # whether programs answer the weight of a batch; else it is the number of its rows
//!   accumulate: pos_integer,      # batches that make a step; their gradients are averaged by the weights of the batches
//!   skip_non_finite: boolean,     # leaves batches out whose loss or gradient is not finite
//!   pause_every: pos_integer | nil,    # batches of an epoch between two :pause events
//!   progress: boolean             # whether :progress events are sent
//! }
//! job = %{
//!   steps: [executable],          # one for each batch size; [] when batches are fed
//!   params: [tensor],             # float tensors
//!   states: [tensor],
//!   data: [tensor] | nil,         # rows along the first axis; nil: the owner feeds batches
//!   validation: [{[executable], [tensor]}],   # rows of one shape each, with a program for each batch size
//!   update: executable | nil,     # an optimizer as a program: params ++ gradients ++ state -> params ++ state
//!   optimizer_state: {count, slots} | nil   # from train_optimizer_state; nil starts afresh; of an update program {0, [state]}
//!   means: means | nil,           # of a :pause event: the first epoch goes on behind it; a run that is fed gets what follows
//!   rates: [float],               # of each of the optimizer's steps from its first one, the last one of all later ones, or []
//!   loss_scale: {factor, good_steps, interval | nil} | nil   # from train_loss_scale; with an interval it changes, see `LossScale`
//! }
//! ```
//!
//! Checks everything, then starts the thread; every map key must be there.
//! The calling process is the owner. When it ends, or when the handle is garbage, the thread ends within one batch.
//!
//! ```text
//! train_feed(handle, executable, [tensor]) -> boolean
//! train_feed_end(handle) -> boolean
//! ```
//!
//! Give one batch, with the step program of its size, to a run without `data`; end the epoch's batches. One batch may be
//! fed for each that a `:want_batches` event asked for in this epoch, more are refused. False when the run is over.
//!
//! ```text
//! train_continue(handle, :continue | {:learning_rate, float} | :halt) -> boolean
//! ```
//!
//! Answers an `:epoch` or `:pause` event. False when the run is over; an error when neither waits.
//!
//! ```text
//! train_arguments(handle) -> [tensor]
//! train_resume(handle, [tensor]) -> boolean
//! ```
//!
//! Take the arguments of the call that a `:call` event told of, and go on with its results; a hook has none.
//!
//! ```text
//! train_stop(handle) -> boolean
//! ```
//!
//! Ends the run within one batch, then comes `{:done, :stopped}`. False when it was over already.
//!
//! ```text
//! train_parameters(handle) -> {params :: [tensor], states :: [tensor]}
//! train_optimizer_state(handle) -> {count :: non_neg_integer, slots :: [[tensor]]}
//! ```
//!
//! The values after the last good step, at any time, also after the end; a step is good when the loss after it is finite.
//! While an epoch or a pause waits for its answer the two fit together. `slots` has one list for each of the optimizer's moments (sgd:
//! none, or the trace; adam: mu and nu), with one tensor for each parameter; of an update program, one list with its state. Memory is shared, not copied, until the next step.
//!
//! ```text
//! train_loss_scale(handle) -> {factor :: float, good_steps :: non_neg_integer, interval | nil} | nil
//! ```
//!
//! What losses are multiplied by, as of the last good step.
//!
//! ```text
//! train_failure(handle) -> {epoch, step, [tensor]} | nil
//! ```
//!
//! The step that ended the run by an error, and what its program was given: parameters, states and batch.
//!
//! # Messages
//!
//! The owner gets `{:ex_burn_train, tag, event}`. Numbers are floats, or `:nan`, `:infinity`, `:neg_infinity`.
//!
//! ```text
//! {:progress, %{epoch: n, step: n, steps: n | nil, loss: number, metrics: [number], samples_per_second: number}}
//! {:epoch, %{epoch: n, loss: number, metrics: [number], val_loss: number | nil, val_metrics: [number] | nil,
//!            learning_rate: float, updates: n, seconds: float, steps: n, samples: n, skipped: n}}
//! {:pause, %{epoch: n, means: %{sums: [bits], weight: bits, samples: n, batches: n, skipped: n}}}
//! {:call, n}
//! {:want_batches, n}
//! {:done, :finished | :halted | :stopped}
//! {:failed, {kind, map}}
//! ```
//!
//! `loss` and `metrics` are means over the epoch so far, weighted by batch size. `:progress` comes at most every 100 ms and
//! after an epoch's last step; `steps` is nil for fed batches. Every `:epoch`, the last one too, waits for `train_continue`.
//! `:call` has the number of a function that a program calls, which waits for `train_resume`.
//! `:want_batches` comes first in each epoch of a run that is fed and again when a batch is taken; it counts for that epoch
//! only. `skipped` counts batches left out. `:done` or `:failed` is the last message. `:failed` carries the same term as an `{:error, _}` answer; a loss or
//! gradient that is not finite is `{:non_finite, %{what: "loss" | "gradient" | "parameter", value: text, epoch: n, step: n, …}}`, and
//! the update of that step has not been applied.

mod owner;
mod term;

use ex_burn_engine::Result;
use ex_burn_engine::exec::with_host;
use ex_burn_engine::train::{self, Failure, OptimizerState, Session};
use rustler::{Env, LocalPid, Monitor, Resource, ResourceArc, Term};

use crate::boundary::guard;
use crate::error::NifError;
use crate::program::Executable;
use crate::tensor::{Tensors, resources, values};
use crate::term::decode;
use owner::Owner;
use term::JobTerm;

/// Named in every error that the caller of `fit` can cause.
const OP: &str = "fit";

/// A run. Garbage collection stops it.
struct Handle(Session);

// The session guards what the thread changes with a mutex, and the thread catches its own panics.
impl std::panic::RefUnwindSafe for Handle {}

#[rustler::resource_impl]
impl Resource for Handle {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _env: Env<'a>, _owner: LocalPid, _monitor: Monitor) {
        self.0.stop();
    }
}

/// Passes over hooks, which have no results. Other calls miss theirs, which is an error.
fn without_hooks<T>(body: impl FnOnce() -> T) -> T {
    with_host(Box::new(|_, _| Ok(vec![])), body)
}

/// One forward and backward pass.
#[rustler::nif(schedule = "DirtyCpu")]
fn train_gradients_dirty(
    executable: ResourceArc<Executable>,
    params: usize,
    inputs: Tensors,
    checkpointing: Term<'_>,
) -> Result<(Tensors, Tensors), NifError> {
    guard("compute_gradients", || {
        let inputs = values("compute_gradients", &inputs)?;
        let checkpointing = decode("compute_gradients", checkpointing)?;
        let pass = without_hooks(|| train::checkpointed(&executable.0, params, inputs, checkpointing))?;
        Ok((resources(pass.outputs), resources(pass.gradients)))
    })
}

/// An error where autodiff can't follow the loss.
#[rustler::nif(schedule = "DirtyCpu")]
fn train_check_loss_dirty(executable: ResourceArc<Executable>, params: usize) -> Result<(), NifError> {
    guard("loss", || train::check_loss(&executable.0, params))
}

/// Seconds that a forward pass, a backward pass and the optimizer take.
#[rustler::nif(schedule = "DirtyCpu")]
fn train_profile_dirty(
    executable: ResourceArc<Executable>,
    batch: Tensors,
    config: Term<'_>,
    job: JobTerm,
) -> Result<(f64, f64, f64), NifError> {
    guard("profile_step", || {
        let (batch, config, job) = (values(OP, &batch)?, decode(OP, config)?, job.job()?);
        let times = without_hooks(|| train::profile(&executable.0, batch, config, job))?;
        Ok(times.map(|time| time.as_secs_f64()).into())
    })
}

/// Starts a run.
#[rustler::nif(schedule = "DirtyCpu")]
fn train_start<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    config: Term<'a>,
    job: JobTerm,
) -> Result<ResourceArc<Handle>, NifError> {
    guard(OP, || {
        let owner = env.pid();
        let handle = ResourceArc::new(Handle(Session::start(decode(OP, config)?, job.job()?, Owner::new(owner, tag))?));
        if env.monitor(&handle, &owner).is_none() {
            handle.0.stop();
        }
        Ok(handle)
    })
}

/// Gives a batch to a run without data.
#[rustler::nif]
fn train_feed(
    handle: ResourceArc<Handle>,
    executable: ResourceArc<Executable>,
    batch: Tensors,
) -> Result<bool, NifError> {
    guard(OP, || handle.0.feed(executable.0.clone(), values(OP, &batch)?))
}

/// Ends an epoch's batches.
#[rustler::nif]
fn train_feed_end(handle: ResourceArc<Handle>) -> Result<bool, NifError> {
    guard(OP, || handle.0.end_feed())
}

/// Answers the event of an epoch.
#[rustler::nif]
fn train_continue(handle: ResourceArc<Handle>, answer: Term<'_>) -> Result<bool, NifError> {
    guard(OP, || handle.0.answer(decode(OP, answer)?))
}

/// The arguments of a call.
#[rustler::nif]
fn train_arguments(handle: ResourceArc<Handle>) -> Result<Tensors, NifError> {
    guard(OP, || Ok(resources(handle.0.arguments()?)))
}

/// Goes on after a call.
#[rustler::nif]
fn train_resume(handle: ResourceArc<Handle>, results: Tensors) -> Result<bool, NifError> {
    guard(OP, || handle.0.resume(values(OP, &results)?))
}

/// The step that ended a run.
#[rustler::nif]
fn train_failure(handle: ResourceArc<Handle>) -> Result<Option<(usize, usize, Tensors)>, NifError> {
    guard(OP, || {
        let term = |Failure { epoch, step, inputs }| (epoch, step, resources(inputs));
        Ok(handle.0.failure().map(term))
    })
}

/// Ends a run within one batch.
#[rustler::nif]
fn train_stop(handle: ResourceArc<Handle>) -> Result<bool, NifError> {
    guard(OP, || Ok(handle.0.stop()))
}

/// Parameters and states; waits while an update is applied.
#[rustler::nif(schedule = "DirtyCpu")]
fn train_parameters(handle: ResourceArc<Handle>) -> Result<(Tensors, Tensors), NifError> {
    guard(OP, || {
        let (params, states) = handle.0.parameters();
        Ok((resources(params), resources(states)))
    })
}

/// What losses are multiplied by.
#[rustler::nif]
fn train_loss_scale(handle: ResourceArc<Handle>) -> Result<Option<(f64, u64, Option<u64>)>, NifError> {
    guard(OP, || Ok(handle.0.loss_scale().map(|scale| (scale.factor, scale.good, scale.interval))))
}

/// The optimizer's memory; waits while an update is applied.
#[rustler::nif(schedule = "DirtyCpu")]
fn train_optimizer_state(handle: ResourceArc<Handle>) -> Result<(u64, Vec<Tensors>), NifError> {
    guard(OP, || {
        let OptimizerState { count, slots } = handle.0.optimizer_state();
        Ok((count, slots.into_iter().map(resources).collect()))
    })
}
