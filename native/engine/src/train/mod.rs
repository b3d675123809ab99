//! Training: gradients by Burn's autodiff, optimizers, and the loop that runs epochs on a thread of its own.

mod control;
mod data;
mod event;
mod finite;
mod gradient;
mod job;
mod means;
mod optimizer;
mod run;
mod session;

pub use control::Answer;
pub use data::order;
pub use event::{Ending, EpochReport, Event, Observer, Progress};
pub use gradient::{Pass, gradients};
pub use job::{Config, Job};
pub use optimizer::{Adam, Optimizer, OptimizerState, Rule, Sgd};
pub use session::Session;
