//! Sums that are added up after a loop: the products of all iterations are one product of what all of them multiply, which
//! is larger, so faster, and leaves the rows of a batch to themselves in the loop.

use super::step::Step;
use crate::adjoint::builder::Builder;
use crate::passes::writer::reads;
use crate::program::{Axes, Binary, Dot, Fold, Instruction, Op, Program, Reduce};

/// So many times as many elements as a product has may be kept for it in each iteration.
const MOST: usize = 16;

/// A product, or a sum, of values of all iterations.
pub(super) struct Term {
    /// Number of the input to whose gradient it is added.
    pub(super) input: usize,
    /// What it computes in one iteration.
    pub(super) fold: Instruction,
    /// The changes of shape that follow, the last one first.
    turns: Vec<Instruction>,
}

impl Term {
    /// What it computes from values of all iterations, whose first axis is theirs.
    pub(super) fn all(&self, b: &mut Builder, operands: &[usize]) -> usize {
        let moved = |axes: &[usize]| axes.iter().map(|axis| axis + 1).collect::<Vec<_>>();
        let of_all = |axes: &[usize]| [vec![0], moved(axes)].concat();
        let op = match &self.fold.op {
            Op::Dot(dot) => Op::Dot(Dot {
                lhs_contract: of_all(&dot.lhs_contract),
                lhs_batch: moved(&dot.lhs_batch),
                rhs_contract: of_all(&dot.rhs_contract),
                rhs_batch: moved(&dot.rhs_batch),
            }),
            Op::Reduce(reduce) => Op::Reduce(Reduce { axes: reduce.axes.as_deref().map(of_all), ..reduce.clone() }),
            op => op.clone(),
        };
        let dtype = wide(self.fold.outputs[0].dtype);
        let fold = b.emit(op, operands, dtype, &self.fold.outputs[0].shape);
        self.turns.iter().rev().fold(fold, |id, turn| b.emit(turn.op.clone(), &[id], dtype, &turn.outputs[0].shape))
    }
}

/// Takes sums out of the way back through one iteration of `rounds`.
pub(super) fn put_off(step: &mut Step, rounds: usize) {
}
