//! Tensors and operations on GPUs, through CubeCL kernels of our own.
//!
//! An operation runs there when one of its operands is there. What has no kernel goes through [`fallback`].

mod adapter;
mod ask;
mod attend;
mod checked;
mod close;
mod complex;
mod conv;
mod copy;
pub mod exact;
pub mod fallback;
mod fill;
mod finite;
mod formula;
mod fourier;
mod functions;
mod gather;
mod kernel;
mod known;
mod launch;
mod layouts;
mod linear;
mod lines;
mod mapped;
mod memo;
mod memory;
mod movement;
mod order;
mod parts;
mod places;
mod product;
mod recorded;
mod reduce;
mod rows;
mod running;
mod small;
mod staged;
mod step;
mod stepwise;
mod tables;
mod tiled;
mod transfer;
mod triangular;
mod update;
mod wait;
mod window;
mod writer;

pub use adapter::Adapter;
pub(crate) use finite::marks;
pub(crate) use memo::Memo;
pub use memory::Memory;
pub(crate) use recorded::Recorded;
pub use recorded::replays;
pub(crate) use transfer::{Reading, download, upload};

use crate::device::Device;
use crate::error::Result;
use crate::exec::Plan;
use crate::ops::Call;
use crate::program::{Extent, Fused, Instruction, Op, Program};
use crate::types::{TensorType, Type};
use crate::value::Value;
use launch::{Operand, Work};
use memo::Ready;

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
    places::bring(&mut call, adapter)?;
    if let Some(results) = memo::run(&call, adapter)? {
        return Ok(results);
    }
    match native(&mut call, adapter)? {
        Some(results) => Ok(results),
        None => fallback::run(call, adapter),
    }
}

/// The results, where there is a kernel.
fn native(call: &mut Call<'_>, adapter: Adapter) -> Result<Option<Vec<Value>>> {
    match call.op {
        Op::Fused(attrs) => fused(attrs, call, adapter).map(Some),
        Op::Blocked(_) => {
            for way in [attend::run, linear::run] {
                if let Some(results) = way(call, adapter)? {
                    return Ok(Some(results));
                }
            }
            body(call).map(Some)
        }
        Op::Rows(_) => body(call).map(Some),
        Op::StopGrad | Op::CustomGrad(_) => Ok(call.inputs.first().cloned().map(|value| vec![value])),
        Op::Reshape if call.inputs.iter().all(|value| value.cube().is_none()) => reshaped_there(call).map(Some),
        _ if !call.inputs.iter().all(|value| value.cube().is_some()) => Ok(None),
        _ if parts::serves(call) => Ok(parts::run(call, adapter)?.map(|value| vec![value])),
        Op::Constant(_) | Op::Iota(_) | Op::Eye => created(call, adapter),
        Op::Dot(attrs) => Ok(product::dot(attrs, call, adapter)?.map(|value| vec![value])),
        Op::Reduce(attrs) => Ok(reduce::run(attrs, call, adapter)?.map(|value| vec![value])),
        Op::ArgReduce(attrs) => Ok(order::arg_reduce(attrs, call, adapter)?.map(|value| vec![value])),
        Op::Sort(_) | Op::Argsort(_) | Op::TopK(_) => order::run(call, adapter),
        Op::Cumulative(attrs) => Ok(running::cumulative(attrs, call, adapter)?.map(|value| vec![value])),
        Op::IndexedAdd(attrs) | Op::IndexedPut(attrs) => {
            Ok(update::indexed(attrs, call, adapter)?.map(|value| vec![value]))
        }
        Op::WindowScatter(attrs) => Ok(update::window_scatter(attrs, call, adapter)?.map(|value| vec![value])),
        Op::AllClose(attrs) => Ok(close::all_close(attrs, call, adapter)?.map(|value| vec![value])),
        Op::Pad(_) | Op::Concatenate(_) | Op::Stack(_) | Op::PutSlice => {
            Ok(fill::run(call, adapter)?.map(|value| vec![value]))
        }
        Op::Fft(_) | Op::Fft2(_) => Ok(fourier::run(call, adapter)?.map(|value| vec![value])),
        Op::TriangularSolve(attrs) => Ok(triangular::solve(attrs, call, adapter)?.map(|value| vec![value])),
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
    let call = Call::plain(call.op, vec![], call.outputs, &Device::Cpu);
    let results = crate::ops::run(call)?;
    results.into_iter().map(|value| upload(value, adapter)).collect::<Result<_>>().map(Some)
}

/// What has no place on a GPU stays where it is under another shape: nothing is computed.
fn reshaped_there(call: &Call<'_>) -> Result<Vec<Value>> {
    crate::ops::run(Call::plain(call.op, call.inputs.clone(), call.outputs, &Device::Cpu))
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
    if complex::is_complex(call) {
        return Ok(complex::run(call, adapter)?.map(|value| vec![value]));
    }
    if let Some(check) = checked::check(call)? {
        return if check.fails(adapter)? { Ok(None) } else { alone(call.op, &call.inputs, call.outputs, adapter) };
    }
    match region(call.op, &call.inputs, call.outputs, adapter) {
        Some(work) => memo::keep(Ready::Map(work.mapped()?), call, adapter),
        None => Ok(None),
    }
}

/// A region of one operation.
fn alone(op: &Op, values: &[Value], types: &[TensorType], adapter: Adapter) -> Result<Option<Vec<Value>>> {
    region(op, values, types, adapter).map(Work::run).transpose()
}

fn region<'a>(op: &Op, values: &[Value], types: &'a [TensorType], adapter: Adapter) -> Option<Work<'a>> {
    let [out] = types else { return None };
    let inputs: Vec<TensorType> = values.iter().map(Value::ty).collect();
    let instruction = Instruction { op: op.clone(), inputs: (0..inputs.len()).collect(), outputs: types.to_vec() };
    let program = Program { outputs: vec![inputs.len()], inputs, instructions: vec![instruction] };
    let (steps, results) = writer::write(&program)?;
    let operands =
        values.iter().map(|value| Operand::broadcast(value, &out.shape)).collect::<Option<Vec<Operand>>>()?;
    Some(Work { adapter, shape: out.shape.clone(), operands, steps, results, types })
}

/// The value as numbers of `dtype`, where there is a kernel for it.
fn cast(value: &Value, dtype: Type, adapter: Adapter) -> Result<Option<Value>> {
    if value.dtype() == dtype {
        return Ok(value.cube().map(|_| value.clone()));
    }
    if value.cube().is_none() {
        return Ok(None);
    }
    let types = [TensorType::new(dtype, value.shape())];
    Ok(alone(&Op::Cast, std::slice::from_ref(value), &types, adapter)?.and_then(|mut values| values.pop()))
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
            let work = Work { adapter, shape: attrs.shape.clone(), operands, steps, results, types: call.outputs };
            memo::keep(Ready::Map(work.mapped()?), call, adapter)?.ok_or_else(launch::lost)
        }
        None => {
            if let Some(results) = rows::run(attrs, call, adapter)? {
                return Ok(results);
            }
            match staged::run(attrs, call, adapter)? {
                Some(results) => Ok(results),
                None => stepwise(attrs, call),
            }
        }
    }
}

/// The region step by step.
fn stepwise(attrs: &Fused, call: &mut Call<'_>) -> Result<Vec<Value>> {
    match stepwise::program(attrs) {
        Some(program) => Plan::new(&program)?.run(std::mem::take(&mut call.inputs), call.device),
        None => body(call),
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
