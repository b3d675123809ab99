//! Products of matrices that run together with a region, by blocks of rows.

use half::{bf16, f16};

use super::Parts;
use crate::cpu;
use crate::error::Result;
use crate::ops::dot::{Roles, compute_type};
use crate::ops::{Call, broadcast_to, cast};
use crate::program::{Binary, Dot, Fused, Instruction, Op};
use crate::value::Value;

/// A product and the region of its rows.
pub(super) fn linear(parts: &Parts<'_>, product: (&Dot, &Instruction), call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    let [left, right] = matrices(parts, product, call)?;
    if left.rank() == 2 && left.shape()[0] < cpu::GEMM_ROWS && is_sum(parts.region.0) {
        return sum(parts, &left, &right, call);
    }
    let operands = parts.operands(call);
    let rows = parts.tape.rows(&operands, true)?;
    cpu::for_types!(left.dtype(), T => cpu::linear::<T>(&left, &right, &rows), F32 f32, F64 f64)?;
    Ok(Some(rows.finish()))
}

/// Whether a region adds up its operands, each once.
pub(crate) fn is_sum(region: &Fused) -> bool {
    let body = &region.body;
    let mut reads = vec![0; body.inputs.len() + body.instructions.len()];
    let read = body.instructions.iter().flat_map(|instruction| &instruction.inputs).chain(&body.outputs);
    read.for_each(|&id| reads[id] += 1);
    let adds = |instruction: &Instruction| instruction.op == Op::Binary(Binary::Add) && instruction.outputs.len() == 1;
    let out = body.instructions.last().map(|last| last.outputs[0].dtype);
    let is_plain = body.inputs.iter().all(|ty| Some(ty.dtype) == out);
    is_plain && body.instructions.iter().all(adds) && reads.iter().all(|&reads| reads == 1)
}

/// A product of few rows and what is added to it; `None` where other ways to multiply are faster.
fn sum(parts: &Parts<'_>, left: &Value, right: &Value, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
    let (region, instruction) = parts.region;
    let matrix = [left.shape()[0], right.shape()[1]];
    let added = instruction.inputs.iter().filter_map(|&id| call.inputs.get(id));
    let addends: Vec<Value> = added.map(|value| broadcast_to(value.clone(), &region.shape).reshape(&matrix)).collect();
    let sum = cpu::for_types!(left.dtype(), T => cpu::matmul_onto::<T>(left, right, &addends), F32 f32, F64 f64)?;
    Ok(sum.map(|sum| vec![sum.reshape(&region.shape)]))
}

/// A product, the region of its rows, and a product of these.
pub(super) fn attend(
    parts: &Parts<'_>,
    product: (&Dot, &Instruction),
    (last, instruction): (&Dot, &Instruction),
    call: &Call<'_>,
) -> Result<Option<Vec<Value>>> {
    let out = call.out()?;
    if out.shape.contains(&0) {
        return Ok(None);
    }
    let [left, right] = matrices(parts, product, call)?;
    let values = call.inputs[instruction.inputs[1]].clone();
    let roles = Roles::new(call, &values, &last.rhs_batch, &last.rhs_contract)?;
    let values = roles.matrices(values, roles.contract, &roles.free);
    let operands = parts.operands(call);
    let rows = parts.tape.rows(&operands, false)?;
    let wide = compute_type(out.dtype);
    let [left, right, values] = [cast(left, wide)?, cast(right, wide)?, cast(values, wide)?];
    let attended = cpu::for_types!(out.dtype, S => {
        cpu::attend::<<S as cpu::Float>::Math, S>(&left, &right, &rows, &values)
    }, F32 f32, F64 f64, F16 f16, BF16 bf16)?;
    Ok(Some(vec![cast(attended, out.dtype)?.reshape(&out.shape)]))
}

/// The operands of the first product as matrices.
fn matrices(parts: &Parts<'_>, (dot, instruction): (&Dot, &Instruction), call: &Call<'_>) -> Result<[Value; 2]> {
    let operands = parts.read(call, instruction);
    let [left, right] = operands.ok_or_else(|| call.invalid("its product reads what is made after it"))?;
    let [left, right] = if are_matrices(dot, [&left, &right]) {
        [left, right]
    } else {
        let lhs = Roles::new(call, &left, &dot.lhs_batch, &dot.lhs_contract)?;
        let rhs = Roles::new(call, &right, &dot.rhs_batch, &dot.rhs_contract)?;
        [lhs.matrices(left, &lhs.free, lhs.contract), rhs.matrices(right, rhs.contract, &rhs.free)]
    };
    let elements = |shape: &[usize]| shape.iter().product::<usize>();
    let (height, columns) = (left.shape(), right.shape());
    if elements(&height[..height.len() - 1]) * columns[columns.len() - 1] != elements(&parts.region.0.shape) {
        return Err(call.invalid("the region is not of the shape of the product"));
    }
    Ok([left, right])
}

/// Whether the operands are the matrices of a product already.
fn are_matrices(dot: &Dot, operands: [&Value; 2]) -> bool {
    operands.iter().all(|value| value.rank() == 2) && dot.lhs_contract == [1] && dot.rhs_contract == [0]
}
