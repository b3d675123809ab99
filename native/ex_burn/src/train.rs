//! Training runs: a native thread that tells its owner what happens by messages, and waits for answers between epochs.
//!
//! # Programs
//!
//! A *step program* takes `params ++ states ++ batch` (then its captures) and answers `[loss | metrics] ++ new_states`:
//! `loss` is a float scalar, each metric a real scalar, each new state has the type of its state. The batch tensors share
//! the length of their first axis, which is the program's batch size. An *evaluation program* takes the same and answers
//! `[loss | metrics]`. There is one program for each batch size: for `n` rows in batches of `b` that is `b`, and `rem(n, b)`
//! for the short last batch. All programs answer the same number of metrics.
//!
//! # Functions
//!
//! All answer `{:ok, result}` or `{:error, {kind, map}}`. `executable` is what `program_new` made, `tensor` any tensor
//! reference; parameters and optimizer state come and go in the order given.
//!
//! ```text
//! train_gradients_dirty(executable, n_params, [tensor]) -> {outputs :: [tensor], gradients :: [tensor]}
//! ```
//!
//! One forward and backward pass. The inputs are `params ++ rest` without captures; the first output is the loss. Any program
//! whose first output is a float scalar will do. A parameter that the loss does not depend on has a gradient of zeros.
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
//!   learning_rate: float,
//!   optimizer: {:sgd, %{momentum: float | nil, nesterov: boolean}}
//!            | {:adam, %{b1: float, b2: float, eps: float, eps_root: float}},
//!   progress: boolean             # whether :progress events are sent
//! }
//! job = %{
//!   steps: [executable],          # one for each batch size; [] when batches are fed
//!   evaluations: [executable],    # one for each batch size; [] without validation
//!   params: [tensor],             # float tensors
//!   states: [tensor],
//!   data: [tensor] | nil,         # rows along the first axis; nil: the owner feeds batches
//!   validation: [tensor] | nil,
//!   optimizer_state: {count, slots} | nil   # from train_optimizer_state; nil starts afresh
//! }
//! ```
//!
//! Checks everything, then starts the thread; every map key must be there, and numbers said to be floats must be floats.
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
//! Answers an `:epoch` event. False when the run is over; an error when no epoch waits.
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
//! The values after the last good step, at any time, also after the end. While an epoch waits for its answer the two fit
//! together. `slots` has one list for each of the optimizer's moments (sgd: none, or the trace; adam: mu and nu), with one
//! tensor for each parameter. Memory is shared, not copied, until the next step.
//!
//! # Messages
//!
//! The owner gets `{:ex_burn_train, tag, event}`. Numbers are floats, or `:nan`, `:infinity`, `:neg_infinity`.
//!
//! ```text
//! {:progress, %{epoch: n, step: n, steps: n | nil, loss: number, metrics: [number], samples_per_second: number}}
//! {:epoch, %{epoch: n, loss: number, metrics: [number], val_loss: number | nil, val_metrics: [number] | nil,
//!            learning_rate: float, seconds: float, steps: n, samples: n}}
//! {:want_batches, n}
//! {:done, :finished | :halted | :stopped}
//! {:failed, {kind, map}}
//! ```
//!
//! `loss` and `metrics` are means over the epoch so far, weighted by batch size. `:progress` comes at most every 100 ms and
//! after an epoch's last step; `steps` is nil for fed batches. Every `:epoch`, the last one too, waits for `train_continue`.
//! `:want_batches` comes first in each epoch of a run that is fed and again when a batch is taken; it counts for that epoch
//! only. `:done` or `:failed` is the last message. `:failed` carries the same term as an `{:error, _}` answer; a loss or
//! gradient that is not finite is `{:non_finite, %{what: "loss" | "gradient", value: text, epoch: n, step: n, …}}`, and
//! the update of that step has not been applied.
