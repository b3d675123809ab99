//! Constant folding: what is computed from constants alone is computed once, now.
//!
//! A constant repeats one element, so elementwise operations and changes of shape answer constants too.

use super::writer::{Writer, rewrite};
use crate::device::Device;
use crate::exec;
use crate::ops::fused::kernel;
use crate::program::{Constant, Instruction, Op, Program};
use crate::types::TensorType;
use crate::value::Value;

/// The program without operations on constants.
pub(super) fn fold(program: &Program) -> Program {
    rewrite(program, folded)
}

/// The constant that an instruction makes of constants.
pub(super) fn folded(writer: &mut Writer, instruction: &Instruction) -> Option<usize> {
    let constants: Vec<&Constant> = instruction.inputs.iter().map(|&id| writer.constant(id)).collect::<Option<_>>()?;
    let [out] = instruction.outputs.as_slice() else { return None };
    let bytes = match &instruction.op {
        Op::Reshape | Op::Broadcast(_) | Op::Transpose(_) | Op::Reverse(_) | Op::Slice(_) => constants[0].bytes.clone(),
        op => {
            let types: Vec<_> = instruction.inputs.iter().map(|&id| writer.ty(id).dtype).collect();
            kernel(op, &types, out.dtype)?;
            let one = |(&id, constant): (&usize, &&Constant)| {
                let scalar = TensorType::new(writer.ty(id).dtype, []);
                Value::from_bytes(&scalar, constant.bytes.clone(), &Device::Cpu).ok()
            };
            let operands = instruction.inputs.iter().zip(&constants).map(one).collect::<Option<Vec<_>>>()?;
            let results = exec::instruction(op, operands, &[TensorType::new(out.dtype, [])], &Device::Cpu).ok()?;
            results.into_iter().next()?.into_bytes().ok()?
        }
    };
    Some(writer.one(Op::Constant(Constant { bytes }), vec![], out))
}
