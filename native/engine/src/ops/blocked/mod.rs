//! Products of matrices that run together with a region, by blocks of rows.

use crate::cpu;
use crate::cpu::tape::Tape;
use crate::error::Result;
use crate::exec::Plan;
use crate::ops::dot::Roles;
use crate::ops::{Call, fused};
use crate::program::{Dot, Extent, Fused, Instruction, Op};
use crate::value::Value;

/// By blocks on plain tensors in the CPU's memory, elsewhere one after the other.
pub(super) fn run(call: Call<'_>) -> Result<Vec<Value>> {
    let [plan] = call.nested else { return Err(call.invalid("has no body")) };
    match Parts::of(plan).filter(|_| call.inputs.iter().all(|input| input.flex().is_some())) {
        Some(parts) => parts.run(&call),
        None => plan.run(call.inputs, call.device),
    }
}

/// What runs together.
struct Parts<'a> {
    product: (&'a Dot, &'a Instruction),
    region: (&'a Fused, &'a Instruction),
    tape: &'a Tape,
    last: Option<(&'a Dot, &'a Instruction)>,
}

impl<'a> Parts<'a> {
    fn of(plan: &'a Plan) -> Option<Self> {
        let (first, others) = plan.program().instructions.split_first()?;
        let (second, last) = others.split_first()?;
        let (Op::Dot(dot), Op::Fused(fused)) = (&first.op, &second.op) else { return None };
        let last = match last {
            [] => None,
            [instruction] => match &instruction.op {
                Op::Dot(dot) => Some((dot, instruction)),
                _ => return None,
            },
            _ => return None,
        };
        // The region reads the product as it comes: element by element.
        let product = plan.program().inputs.len();
        let mut operands = second.inputs.iter().zip(&fused.extents);
        let comes_whole = operands.all(|(&id, extent)| id < product || id == product && *extent == Extent::Whole);
        comes_whole.then_some(Self { product: (dot, first), region: (fused, second), tape: plan.tape(1)?, last })
    }

    fn run(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        let (dot, instruction) = self.product;
        let [left, right] = [0, 1].map(|operand| call.inputs[instruction.inputs[operand]].clone());
        let lhs = Roles::new(call, &left, &dot.lhs_batch, &dot.lhs_contract)?;
        let rhs = Roles::new(call, &right, &dot.rhs_batch, &dot.rhs_contract)?;
        let left = lhs.matrices(left, &lhs.free, lhs.contract);
        let right = rhs.matrices(right, rhs.contract, &rhs.free);
        let elements = |shape: &[usize]| shape.iter().product::<usize>();
        let (height, columns) = (left.shape(), right.shape());
        if elements(&height[..height.len() - 1]) * columns[columns.len() - 1] != elements(&self.region.0.shape) {
            return Err(call.invalid("the region is not of the shape of the product"));
        }
        let operands = self.operands(call);
        let rows = self.tape.rows(&operands, self.last.is_none())?;
        let dtype = left.dtype();
        let Some((dot, instruction)) = self.last else {
            cpu::for_types!(dtype, T => cpu::linear::<T>(&left, &right, &rows), F32 f32, F64 f64)?;
            return Ok(rows.finish());
        };
        let values = call.inputs[instruction.inputs[1]].clone();
        let roles = Roles::new(call, &values, &dot.rhs_batch, &dot.rhs_contract)?;
        let values = roles.matrices(values, roles.contract, &roles.free);
        let attend = || cpu::for_types!(dtype, T => cpu::attend::<T>(&left, &right, &rows, &values), F32 f32, F64 f64);
        Ok(vec![attend()?.reshape(&call.out()?.shape)])
    }

    /// The operands of the region as the tape reads them, without the product.
    fn operands(&self, call: &Call<'_>) -> Vec<Option<Value>> {
        let (fused, instruction) = self.region;
        let operands = instruction.inputs.iter().zip(&fused.extents);
        operands.map(|(&id, extent)| Some(fused::place(fused, call.inputs.get(id)?.clone(), *extent))).collect()
    }
}
