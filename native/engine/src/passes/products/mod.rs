//! Products together: those of one matrix with others, and those that are added up, are products of larger matrices.
//!
//! Many small products take longer than a large one, of which each element of the operands is brought to the registers
//! once, and which is shared out among the threads. They are found where a layer runs step by step, in the unrolled loop
//! and in its gradient.

mod columns;
mod rows;
mod sums;
mod wide;

use super::hoisting::is_invariant;
use super::writer::Writer;
use super::{cse, dead};
use crate::program::{Axes, Axis, Dot, Instruction, Op, Program};
use crate::types::{TensorType, Type};

/// Most numbers that are multiplied in a product that is worth to be joined with others.
const LARGEST: usize = 1 << 24;

/// Fewest times that what is joined is read: bringing matrices together takes as long as a small product.
const FEWEST: usize = 4;

/// The program with fewer and larger products.
pub(super) fn merge(program: &Program) -> Program {
    let program = cse::share(&dead::remove(program));
    let program = cse::share(&columns::join(&program, &|_| false));
    let program = cse::share(&rows::join(&program));
    let program = dead::remove(&cse::share(&sums::join(&dead::remove(&program), &|_| false)));
    let mut program = dead::remove(&cse::share(&wide::join(&program)));
    for instruction in &mut program.instructions {
        let state = instruction.outputs.len();
        if let Op::While(attrs) = &mut instruction.op {
            // What stays is brought side by side once.
            let stays = |id: usize| id < attrs.body.inputs.len() && is_invariant(&attrs.body, id, state);
            let columns = dead::remove(&cse::share(&columns::join(&attrs.body, &stays)));
            attrs.body = dead::remove(&cse::share(&sums::join(&columns, &stays)));
        }
    }
    program
}

/// A product of two matrices of one type of floats.
struct Product<'a> {
    dot: &'a Dot,
    operands: [usize; 2],
    /// The axis of each operand that is summed over, and the other one.
    contract: [usize; 2],
    free: [usize; 2],
    out: &'a TensorType,
}

impl<'a> Product<'a> {
    fn of(instruction: &'a Instruction, types: &[&TensorType]) -> Option<Self> {
        let Op::Dot(dot) = &instruction.op else { return None };
        let [left, right] = instruction.inputs[..] else { return None };
        let ([contract_left], [contract_right]) = (&dot.lhs_contract[..], &dot.rhs_contract[..]) else { return None };
        let out = &instruction.outputs[0];
        let is_matrix = |id: usize| types[id].shape.len() == 2 && types[id].dtype == out.dtype;
        let is_plain = matches!(out.dtype, Type::F32 | Type::F64) && dot.lhs_batch.is_empty();
        let contract = [*contract_left, *contract_right];
        let fits = is_plain && is_matrix(left) && is_matrix(right);
        let product = Self { dot, operands: [left, right], contract, free: contract.map(|axis| 1 - axis), out };
        (fits && !out.shape.contains(&0) && product.numbers(types) <= LARGEST).then_some(product)
    }

    /// Numbers that are multiplied.
    fn numbers(&self, types: &[&TensorType]) -> usize {
        self.inner(types).saturating_mul(self.out.shape[0] * self.out.shape[1])
    }

    /// How long the sums are.
    fn inner(&self, types: &[&TensorType]) -> usize {
        types[self.operands[0]].shape[self.contract[0]]
    }
}

/// The values one after the other along an axis.
fn concatenate(writer: &mut Writer, parts: Vec<usize>, axis: usize) -> usize {
    let mut ty = writer.ty(parts[0]).clone();
    ty.shape[axis] = parts.iter().map(|&id| writer.ty(id).shape[axis]).sum();
    writer.one(Op::Concatenate(Axis { axis }), parts, &ty)
}

/// Right operands with the axis that is summed over first: a copy of them then lies as products read it.
fn upright(writer: &mut Writer, parts: Vec<usize>, contract: usize) -> Vec<usize> {
    if contract == 0 {
        return parts;
    }
    let mut turned = |id: usize| {
        let mut ty = writer.ty(id).clone();
        ty.shape.reverse();
        writer.one(Op::Transpose(Axes { axes: vec![1, 0] }), vec![id], &ty)
    };
    parts.into_iter().map(&mut turned).collect()
}

/// Copies an instruction with its operands' new ids; answers the id of its first result.
fn copy(writer: &mut Writer, instruction: &Instruction, ids: &[usize]) -> usize {
    let inputs = instruction.inputs.iter().map(|&id| ids[id]).collect();
    writer.emit(instruction.op.clone(), inputs, instruction.outputs.clone())
}
