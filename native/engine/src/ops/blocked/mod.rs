//! Regions that run together with what makes their operand, or with what reads their result, by blocks.

mod conv;
mod product;
mod table;

pub(crate) use product::is_sum;

use crate::cpu::tape::Tape;
use crate::error::Result;
use crate::exec::Plan;
use crate::ops::{Call, fused};
use crate::program::{Axis, Extent, Fused, Instruction, Op};
use crate::value::Value;

/// By blocks on plain tensors in the CPU's memory, elsewhere one after the other.
pub(super) fn run(call: Call<'_>) -> Result<Vec<Value>> {
    let [plan] = call.nested else { return Err(call.invalid("has no body")) };
    let parts = Parts::of(plan).filter(|_| call.inputs.iter().all(|input| input.flex().is_some()));
    match parts.map(|parts| parts.run(&call)).transpose()?.flatten() {
        Some(results) => Ok(results),
        None => plan.run(call.inputs, call.device),
    }
}

/// What runs together.
struct Parts<'a> {
    before: Option<&'a Instruction>,
    region: (&'a Fused, &'a Instruction),
    tape: &'a Tape,
    after: Option<&'a Instruction>,
}

impl<'a> Parts<'a> {
    fn of(plan: &'a Plan) -> Option<Self> {
        let instructions = &plan.program().instructions;
        let number = instructions.iter().position(|instruction| matches!(instruction.op, Op::Fused(_)))?;
        let (before, after) = match (&instructions[..number], &instructions[number + 1..]) {
            ([], [after]) => (None, Some(after)),
            ([before], []) => (Some(before), None),
            ([before], [after]) => (Some(before), Some(after)),
            _ => return None,
        };
        let region = &instructions[number];
        let Op::Fused(fused) = &region.op else { return None };
        // The region reads what comes before element by element.
        let made = plan.program().inputs.len();
        let mut operands = region.inputs.iter().zip(&fused.extents);
        let comes_whole = operands.all(|(&id, extent)| id < made || id == made && *extent == Extent::Whole);
        comes_whole.then_some(Self { before, region: (fused, region), tape: plan.tape(number)?, after })
    }

    /// The results; `None` where there is no way to compute them by blocks.
    fn run(&self, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
        let op = |instruction: Option<&'a Instruction>| instruction.map(|instruction| (&instruction.op, instruction));
        match (op(self.before), op(self.after)) {
            (Some((Op::Dot(dot), before)), None) => product::linear(self, (dot, before), call),
            (Some((Op::Dot(dot), before)), Some((Op::Dot(last), after))) => {
                product::attend(self, (dot, before), (last, after), call)
            }
            (Some((Op::Conv(conv), before)), None) => conv::run(self, (conv, before), call),
            (Some((Op::Take(Axis { axis: 0 }), before)), None) => table::take(self, before, call),
            (None, Some((Op::TakeAlongAxis(attrs), after))) => table::pick(self, (attrs, after), call),
            _ => Ok(None),
        }
    }

    /// The operands of an instruction of the body, which are those of the call.
    fn read<const N: usize>(&self, call: &Call<'_>, instruction: &Instruction) -> Option<[Value; N]> {
        let read = instruction.inputs.iter().map(|&id| call.inputs.get(id).cloned());
        read.collect::<Option<Vec<_>>>()?.try_into().ok()
    }

    /// The operands of the region as the tape reads them, without what comes before.
    fn operands(&self, call: &Call<'_>) -> Vec<Option<Value>> {
        let (fused, instruction) = self.region;
        let operands = instruction.inputs.iter().zip(&fused.extents);
        operands.map(|(&id, extent)| Some(fused::place(fused, call.inputs.get(id)?.clone(), *extent))).collect()
    }
}
