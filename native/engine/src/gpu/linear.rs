//! A product and what is done to each of its elements, as one kernel.

use super::launch::Operand;
use super::tiled::After;
use super::{Adapter, placed, product, writer};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{Extent, Fused, Instruction, Op, Program};
use crate::types::Type;
use crate::value::Value;

/// Buffers that a product has besides the operands of what follows.
const BUFFERS: usize = 5;

/// The result of a product of `f32` and an elementwise region over it; `None` for something else.
pub(super) fn run(call: &Call<'_>, adapter: Adapter) -> Result<Option<Vec<Value>>> {
    let [plan] = call.nested else { return Ok(None) };
    let Some((dot, region, fused)) = parts(plan.program()) else { return Ok(None) };
    let Op::Dot(attrs) = &dot.op else { return Ok(None) };
    let bindings = adapter.client()?.properties().hardware.max_bindings as usize;
    if region.inputs.len() + BUFFERS > bindings {
        return Ok(None);
    }
    let Some(after) = after(region, fused, plan.program().inputs.len(), call) else { return Ok(None) };
    let inputs = dot.inputs.iter().map(|&id| call.inputs[id].clone()).collect();
    let inner = Call::plain(&dot.op, inputs, &dot.outputs, call.device);
    let product = product::then(attrs, &inner, after, adapter)?;
    Ok(product
        .and_then(|value| super::transfer::reshaped(&value, Type::F32, &call.outputs[0].shape))
        .map(|value| vec![value]))
}

/// The product and the region, where these are all and their only results are of `f32` and of one shape.
fn parts(program: &Program) -> Option<(&Instruction, &Instruction, &Fused)> {
    let [dot, region] = &program.instructions[..] else { return None };
    let Op::Fused(fused) = &region.op else { return None };
    let made = program.inputs.len();
    let single = |instruction: &Instruction| match &instruction.outputs[..] {
        [out] => out.dtype == Type::F32 && out.shape == fused.shape,
        _ => false,
    };
    let reads = region.inputs.iter().zip(&fused.extents).filter(|(id, _)| **id >= made).map(|(_, extent)| *extent);
    let fits = single(dot) && single(region) && reads.eq([Extent::Whole]) && program.outputs == [made + 1];
    fits.then_some((dot, region, fused))
}

/// The steps of the region, with the product before its other operands.
fn after(region: &Instruction, fused: &Fused, made: usize, call: &Call<'_>) -> Option<After> {
    let own = region.inputs.iter().position(|&id| id == made)?;
    let others = (0..region.inputs.len()).filter(|&input| input != own);
    let order: Vec<usize> = [own].into_iter().chain(others).collect();
    let mut places: Vec<usize> = (0..fused.body.value_types().len()).collect();
    order.iter().enumerate().for_each(|(place, &input)| places[input] = place);
    let moved = |instruction: &Instruction| Instruction {
        inputs: instruction.inputs.iter().map(|&id| places[id]).collect(),
        ..instruction.clone()
    };
    let body = Program {
        inputs: order.iter().map(|&input| fused.body.inputs[input].clone()).collect(),
        instructions: fused.body.instructions.iter().map(moved).collect(),
        outputs: fused.body.outputs.iter().map(|&id| places[id]).collect(),
    };
    let operands: Option<Vec<Operand>> = order[1..]
        .iter()
        .map(|&input| placed(fused, call.inputs.get(region.inputs[input])?, fused.extents[input]))
        .collect();
    let (steps, results) = writer::write(&body)?;
    Some(After { operands: operands?, steps, result: *results.first()? })
}
