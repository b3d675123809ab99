//! The engine of ExBurn: runs tensor programs on [Burn](burn_dispatch) and trains them with its autodiff.
//!
//! A [`Program`](program::Program) is plain data. [`exec`] runs it, one instruction at a time or as a prepared
//! [`Plan`](exec::Plan), on [`Value`](value::Value)s that live on a [`Device`](device::Device). [`ops`] holds the one
//! implementation of each operation. [`train`] drives a program's gradient descent.

mod adjoint;
mod cpu;
pub mod device;
pub mod error;
pub mod exec;
pub mod file;
mod float8;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod manifest;
pub mod memory;
pub mod ops;
pub mod packing;
pub mod panics;
pub mod passes;
pub mod program;
pub mod scalar;
#[cfg(unix)]
pub mod segment;
pub mod train;
pub mod types;
pub mod value;

pub use device::Device;
pub use error::{Error, Result};
pub use types::{Class, TensorType, Type};
pub use value::Value;

/// Differs between checkouts, so that two of them can share a target folder: cargo tells their builds apart by it.
const _: Option<&str> = option_env!("EX_BURN_CHECKOUT");
