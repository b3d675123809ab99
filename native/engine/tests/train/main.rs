//! Training against closed forms and published rules, computed here in plain `f64` loops.

mod checkpoints;
mod gradients;
mod linear;
mod loops;
mod matrices;
mod optimizers;
mod orders;
mod owners;
mod runs;
mod setups;
#[path = "../tools/weighed.rs"]
mod weighed;
