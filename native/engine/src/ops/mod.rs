//! The one implementation of each operation, a file per family, for every rank and type.
//!
//! An operation receives its operands and the declared types of its results. Operands come as Nx gives them: neither
//! promoted to a common type nor broadcast to a common shape.

mod all_close;
mod autodiff;
mod binary;
mod blocked;
mod cast;
mod check;
mod complex;
mod conv;
mod create;
mod custom_reduce;
mod dot;
mod emulate;
pub(crate) mod fft;
pub(crate) mod fused;
mod gradient;
mod index;
mod linalg;
mod memory;
mod order;
pub(crate) mod promote;
mod real;
mod reduce;
mod rows;
mod select;
mod shape;
mod sort;
mod unary;
pub(crate) mod window;
mod window_scatter;

use crate::cpu::tape::Tape;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::exec::Plan;
use crate::program::Op;
use crate::types::TensorType;
use crate::value::Value;

pub(crate) use autodiff::seeded;
pub(crate) use blocked::is_sum;
pub use cast::cast;
pub(crate) use dot::is_small;
pub use shape::broadcast_to;

/// One operation about to run.
#[derive(Debug)]
pub struct Call<'a> {
    /// The operation and its attributes.
    pub op: &'a Op,
    /// The operands.
    pub inputs: Vec<Value>,
    /// Declared types of the results.
    pub outputs: &'a [TensorType],
    /// Prepared forms of the programs inside the operation, in the order of [`Op::nested`]; of [`Op::Rows`] the second one for
    /// several cores. A custom fold may be one of vectors; one with a `tape` is followed by what makes the tape's other operands.
    pub nested: &'a [Plan],
    /// The region of a [`Op::Fused`] or the step of a custom fold made ready, where it can be.
    pub(crate) tape: Option<&'a Tape>,
    /// The kernel of a GPU, where it is kept.
    #[cfg(feature = "gpu")]
    pub(crate) memo: Option<&'a crate::gpu::Memo>,
    /// Whether a small slice may share its operand's memory.
    pub(crate) lends: bool,
    /// Where results are made.
    pub device: &'a Device,
}

impl<'a> Call<'a> {
    /// An operation without programs inside, of which nothing has been made ready.
    pub(crate) fn plain(op: &'a Op, inputs: Vec<Value>, outputs: &'a [TensorType], device: &'a Device) -> Self {
        Self {
            op,
            inputs,
            outputs,
            nested: &[],
            tape: None,
            lends: false,
            #[cfg(feature = "gpu")]
            memo: None,
            device,
        }
    }
}

impl Call<'_> {
    /// The operands, when there are `N` of them.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] otherwise.
    pub fn args<const N: usize>(&mut self) -> Result<[Value; N]> {
        let got = self.inputs.len();
        std::mem::take(&mut self.inputs).try_into().map_err(|_| self.invalid(format!("takes {N} operands, got {got}")))
    }

    /// Declared type of the first result.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when none is declared.
    pub fn out(&self) -> Result<&TensorType> {
        self.outputs.first().ok_or_else(|| self.invalid("declares no result"))
    }

    /// The error for an operation that the device lacks for the result's type.
    pub fn unsupported(&self) -> Error {
        let Ok(out) = self.out() else { return self.invalid("declares no result") };
        Error::Unsupported { op: self.op.name(), dtype: out.dtype, device: self.device.to_string() }
    }

    /// The error for operands that make no sense.
    pub fn invalid(&self, reason: impl std::fmt::Display) -> Error {
        Error::invalid(self.op.name(), reason)
    }
}

/// The error for an operation that has no kernel for elements like those of `x`.
fn unsupported(op: impl Into<&'static str>, x: &Value) -> Error {
    Error::Unsupported { op: op.into().into(), dtype: x.dtype(), device: x.device().to_string() }
}

/// Runs one operation and checks its results against their declared types.
///
/// # Errors
///
/// As the operation says; [`Error::Mismatch`] when a result differs from its declaration; [`Error::Invalid`] when there is not
/// enough memory.
pub fn run(call: Call<'_>) -> Result<Vec<Value>> {
    memory::check(&call)?;
    let (op, outputs) = (call.op, call.outputs);
    let results = on_device(call)?;
    check_results(op, &results, outputs)?;
    Ok(results)
}

/// An error when an operation's results are not as declared.
pub(crate) fn check_results(op: &Op, results: &[Value], outputs: &[TensorType]) -> Result<()> {
    if results.len() != outputs.len() {
        return Err(Error::invalid(op.name(), format!("makes {} results, {} declared", results.len(), outputs.len())));
    }
    for (value, expected) in results.iter().zip(outputs) {
        if !value.has_type(expected) {
            return Err(Error::Mismatch { op: op.name(), expected: expected.clone(), got: value.ty() });
        }
    }
    Ok(())
}

#[cfg(feature = "gpu")]
fn on_device(call: Call<'_>) -> Result<Vec<Value>> {
    match crate::gpu::adapter_of(&call) {
        Some(adapter) => crate::gpu::run(call, adapter),
        None => dispatch(call),
    }
}

#[cfg(not(feature = "gpu"))]
fn on_device(call: Call<'_>) -> Result<Vec<Value>> {
    dispatch(call)
}

fn dispatch(call: Call<'_>) -> Result<Vec<Value>> {
    if emulate::is_needed(&call) { emulate::run(call) } else { native(call) }
}

/// Runs an operation in the types it is given, and in the order in which its operands lie.
fn native(call: Call<'_>) -> Result<Vec<Value>> {
    match order::elementwise(&call) {
        Some(order) => order::reordered(&order, call, in_order),
        None => in_order(call),
    }
}

fn in_order(call: Call<'_>) -> Result<Vec<Value>> {
    let one = |result: Result<Value>| result.map(|value| vec![value]);
    match call.op {
        Op::Constant(attrs) => one(create::constant(attrs, call)),
        Op::Iota(attrs) => one(create::iota(attrs, call)),
        Op::Eye => one(create::eye(call)),
        Op::Unary(op) => one(unary::run(*op, call)),
        Op::Binary(op) => one(binary::run(*op, call)),
        Op::Cast => one(cast::as_type(call)),
        Op::Bitcast => one(cast::bitcast(call)),
        Op::Select => one(select::select(call)),
        Op::Clip => one(select::clip(call)),
        Op::Reshape => one(shape::reshape(call)),
        Op::Broadcast(attrs) => one(shape::broadcast(attrs, call)),
        Op::Transpose(attrs) => one(shape::transpose(attrs, call)),
        Op::Reverse(attrs) => one(shape::reverse(attrs, call)),
        Op::Pad(attrs) => one(shape::pad(attrs, call)),
        Op::Concatenate(attrs) => one(shape::concatenate(attrs, call)),
        Op::Stack(attrs) => one(shape::stack(attrs, call)),
        Op::Slice(attrs) => one(index::slice(attrs, call)),
        Op::DynamicSlice(attrs) => one(index::dynamic_slice(attrs, call)),
        Op::PutSlice => one(index::put_slice(call)),
        Op::Gather(attrs) => one(index::gather(attrs, call)),
        Op::IndexedAdd(attrs) => one(index::indexed_add(attrs, call)),
        Op::IndexedPut(attrs) => one(index::indexed_put(attrs, call)),
        Op::Take(attrs) => one(index::take(attrs, call)),
        Op::TakeAlongAxis(attrs) => one(index::take_along_axis(attrs, call)),
        Op::Dot(attrs) => one(dot::dot(attrs, call)),
        Op::Conv(attrs) => one(conv::conv(attrs, call)),
        Op::Reduce(attrs) => one(reduce::reduce(attrs, call)),
        Op::ArgReduce(attrs) => one(reduce::arg_reduce(attrs, call)),
        Op::Cumulative(attrs) => one(reduce::cumulative(attrs, call)),
        Op::Sort(attrs) => one(sort::sort(attrs, call)),
        Op::Argsort(attrs) => one(sort::argsort(attrs, call)),
        Op::TopK(attrs) => sort::top_k(attrs, call),
        Op::WindowReduce(attrs) => one(window::reduce(attrs, call)),
        Op::Fft(attrs) => one(fft::fft(attrs, call)),
        Op::Fft2(attrs) => one(fft::fft2(attrs, call)),
        Op::TriangularSolve(attrs) => linalg::triangular_solve(attrs, call),
        Op::Linalg(op) => linalg::linalg(op, call),
        Op::StopGrad => one(autodiff::stop_grad(call)),
        Op::CustomGrad(attrs) => one(autodiff::custom_grad(attrs, call)),
        Op::CustomReduce(attrs) => one(custom_reduce::reduce(attrs, call)),
        Op::CustomWindowReduce(attrs) => one(custom_reduce::window_reduce(attrs, call)),
        Op::WindowScatter(attrs) => one(window_scatter::scatter(attrs, call)),
        Op::AllClose(attrs) => one(all_close::all_close(attrs, call)),
        Op::Fused(attrs) => fused::run(attrs, call),
        Op::Blocked(_) => blocked::run(call),
        Op::Rows(attrs) => rows::run(attrs, call),
        Op::While(_) | Op::Cond(_) | Op::Hook(_) | Op::RuntimeCall(_) => {
            Err(call.invalid("runs as a part of a program only"))
        }
    }
}
