//! Training: gradients by Burn's autodiff, optimizers, and the loop that runs epochs on a thread of its own.

mod accumulated;
mod checkpointed;
mod control;
mod cuts;
mod data;
mod event;
mod finite;
mod gradient;
mod job;
mod looped;
mod means;
mod model;
mod optimizer;
mod pace;
mod passes;
mod profile;
mod run;
mod scaling;
mod session;
mod step;

pub use checkpointed::Checkpointing;
pub use control::{Answer, Failure};
pub use data::order;
pub use event::{Ending, EpochReport, Event, Observer, Progress};
pub use gradient::{Pass, answered, check_loss, gradients};
pub use job::{Config, Gradients, Job, Validation};
pub use means::Means;
pub use optimizer::{
    Adagrad, Adam, Adamw, Clip, Lamb, Lion, Muon, Optimizer, OptimizerState, Prepare, Rmsprop, Rule, Sgd,
};
pub use passes::checkpointed;
pub use profile::profile;
pub use scaling::LossScale;
pub use session::Session;
