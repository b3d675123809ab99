//! Tensors and operations on GPUs, through CubeCL kernels of our own and Burn's products of `f32`.
//!
//! An operation runs there when one of its operands is there. What has no kernel goes through [`fallback`].

mod adapter;
mod conv;
pub mod fallback;
mod fill;
mod finite;
mod formula;
mod gather;
mod kernel;
mod launch;
mod movement;
mod product;
mod reduce;
mod staged;
mod step;
mod transfer;
mod window;
mod writer;

pub use adapter::Adapter;
pub(crate) use finite::marks;
pub(crate) use transfer::{Reading, download, upload};

use crate::device::Device;
use crate::error::Result;
use crate::ops::Call;
use crate::program::{Extent, Fused, Instruction, Op, Program};
use crate::types::TensorType;
use crate::value::Value;
use launch::{Operand, Work};

/// The GPU that an operation runs on: where its first operand on a GPU is, else the one asked for.
pub(crate) fn adapter_of(call: &Call<'_>) -> Option<Adapter> {
    let held = call.inputs.iter().find_map(Value::adapter);
    held.or(match call.device {
        Device::Gpu(adapter) => Some(*adapter),
        Device::Cpu => None,
    })
}

/// Runs one operation on a GPU.
///
/// # Errors
///
/// As the operation says; [`Error::Invalid`] when the GPU fails, and where there is no kernel and the CPU may not help.
pub(crate) fn run(mut call: Call<'_>, adapter: Adapter) -> Result<Vec<Value>> {
    call.inputs = call.inputs.into_iter().map(|value| upload(value, adapter)).collect::<Result<_>>()?;
    match native(&mut call, adapter)? {
        Some(results) => Ok(results),
        None => fallback::run(call, adapter),
    }
}

/// The results, where there is a kernel.
fn native(call: &mut Call<'_>, adapter: Adapter) -> Result<Option<Vec<Value>>> {
    match call.op {
        Op::Fused(attrs) => fused(attrs, call, adapter).map(Some),
        Op::Blocked(_) | Op::Rows(_) => body(call).map(Some),
        Op::StopGrad | Op::CustomGrad(_) => Ok(call.inputs.first().cloned().map(|value| vec![value])),
        _ if !call.inputs.iter().all(|value| value.cube().is_some()) => Ok(None),
        Op::Constant(_) | Op::Iota(_) | Op::Eye => created(call, adapter),
        Op::Dot(attrs) => Ok(product::dot(attrs, call, adapter)?.map(|value| vec![value])),
        Op::Reduce(attrs) => Ok(reduce::run(attrs, call, adapter)?.map(|value| vec![value])),
        Op::Pad(_) | Op::Concatenate(_) | Op::Stack(_) | Op::PutSlice => {
            Ok(fill::run(call, adapter)?.map(|value| vec![value]))
        }
        Op::WindowReduce(attrs) => Ok(window::reduce(attrs, call, adapter)?.map(|value| vec![value])),
        Op::Conv(attrs) => Ok(conv::conv(attrs, call, adapter)?.map(|value| vec![value])),
        Op::Take(_) | Op::TakeAlongAxis(_) | Op::Gather(_) | Op::DynamicSlice(_) => {
            Ok(gather::run(call, adapter)?.map(|value| vec![value]))
        }
        op => {
            if let [x] = call.inputs.as_slice()
                && let Some(moved) = movement::run(op, x, call.out()?, adapter)?
            {
                return Ok(Some(vec![moved]));
            }
            elementwise(call, adapter)
        }
    }
}

/// Constants and counts; those of types that have no steps are made on the host.
fn created(call: &Call<'_>, adapter: Adapter) -> Result<Option<Vec<Value>>> {
    let out = call.out()?;
    let written = match call.op {
        Op::Iota(attrs) => writer::count(attrs.axis, out.dtype).map(|(steps, result)| (steps, vec![result])),
        op => {
            let instruction = Instruction { op: op.clone(), inputs: vec![], outputs: vec![out.clone()] };
            writer::write(&Program { inputs: vec![], instructions: vec![instruction], outputs: vec![0] })
        }
    };
    if let Some((steps, results)) = written {
        let work = Work { adapter, shape: out.shape.clone(), operands: vec![], steps, results, types: call.outputs };
        return work.run().map(Some);
    }
    let call =
        Call { op: call.op, inputs: vec![], outputs: call.outputs, nested: &[], tape: None, device: &Device::Cpu };
    let results = crate::ops::run(call)?;
    results.into_iter().map(|value| upload(value, adapter)).collect::<Result<_>>().map(Some)
}

/// The program inside an operation, step by step.
fn body(call: &mut Call<'_>) -> Result<Vec<Value>> {
    // Rows are not cut here.
    let [program, ..] = call.nested else { return Err(call.invalid("has no region")) };
    program.run(std::mem::take(&mut call.inputs), call.device)
}

/// An operation on its own as a region of one.
fn elementwise(call: &Call<'_>, adapter: Adapter) -> Result<Option<Vec<Value>>> {
    if !matches!(call.op, Op::Unary(_) | Op::Binary(_) | Op::Cast | Op::Select | Op::Clip) {
        return Ok(None);
    }
    let out = call.out()?;
    let inputs: Vec<TensorType> = call.inputs.iter().map(Value::ty).collect();
    let instruction =
        Instruction { op: call.op.clone(), inputs: (0..inputs.len()).collect(), outputs: vec![out.clone()] };
    let program = Program { outputs: vec![inputs.len()], inputs, instructions: vec![instruction] };
    let Some((steps, results)) = writer::write(&program) else { return Ok(None) };
    let operands: Option<Vec<Operand>> =
        call.inputs.iter().map(|value| Operand::broadcast(value, &out.shape)).collect();
    let Some(operands) = operands else { return Ok(None) };
    Work { adapter, shape: out.shape.clone(), operands, steps, results, types: call.outputs }.run().map(Some)
}

/// A region of several operations as one kernel where it is elementwise, one for each fold where rows are folded, else step by
/// step.
fn fused(attrs: &Fused, call: &mut Call<'_>, adapter: Adapter) -> Result<Vec<Value>> {
    let buffers = call.inputs.len() + call.outputs.len() + 1;
    let fits = buffers <= adapter.client()?.properties().hardware.max_bindings as usize;
    let plain = fits && call.outputs.iter().all(|out| out.shape == attrs.shape);
    let written = if plain { writer::write(&attrs.body) } else { None };
    let operands: Option<Vec<Operand>> =
        call.inputs.iter().zip(&attrs.extents).map(|(value, extent)| placed(attrs, value, *extent)).collect();
    match written.zip(operands) {
        Some(((steps, results), operands)) => {
            Work { adapter, shape: attrs.shape.clone(), operands, steps, results, types: call.outputs }.run()
        }
        None => match staged::run(attrs, call, adapter)? {
            Some(results) => Ok(results),
            None => body(call),
        },
    }
}

fn placed(attrs: &Fused, value: &Value, extent: Extent) -> Option<Operand> {
    let tensor = value.cube()?.clone();
    match extent {
        Extent::Whole => Operand::broadcast(value, &attrs.shape),
        Extent::One => Some(Operand { tensor, start: 0, strides: vec![0; attrs.shape.len()] }),
        Extent::Row => {
            let rows = attrs.shape.len() - attrs.row_axes;
            let lines =
                transfer::reshaped(value, value.dtype(), &[&attrs.shape[..rows], &vec![1; attrs.row_axes]].concat())?;
            Operand::broadcast(&lines, &attrs.shape)
        }
    }
}
