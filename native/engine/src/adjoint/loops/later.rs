//! Sums that are added up after a loop: the products of all iterations are one product of what all of them multiply, which
//! is faster, and leaves the rows of a batch to themselves in the loop.

use std::collections::{BTreeSet, HashSet};

use crate::adjoint::builder::{Builder, wide};
use crate::passes::writer::reads;
use crate::program::{Binary, Dot, Fold, Instruction, Op, Program, Reduce};

/// What is multiplied is kept for that where it has at most so many times as many elements as the product.
const MOST: usize = 16;

/// A product, or a sum, of values of one iteration.
pub(super) struct Term {
    /// Number of the input to whose gradient it is added.
    pub(super) input: usize,
    fold: Instruction,
    /// The changes of shape that follow, the last one first.
    turns: Vec<Instruction>,
}

impl Term {
    /// Ids of what it reads.
    pub(super) fn operands(&self) -> &[usize] {
        &self.fold.inputs
    }

    /// Computes it from the values of all iterations, of which each is a row of an operand.
    pub(super) fn of_all(&self, b: &mut Builder, operands: &[usize]) -> usize {
        let moved = |axes: &[usize]| axes.iter().map(|axis| axis + 1).collect::<Vec<_>>();
        let rows = |axes: &[usize]| [vec![0], moved(axes)].concat();
        let op = match &self.fold.op {
            Op::Dot(dot) => Op::Dot(Dot {
                lhs_contract: rows(&dot.lhs_contract),
                lhs_batch: moved(&dot.lhs_batch),
                rhs_contract: rows(&dot.rhs_contract),
                rhs_batch: moved(&dot.rhs_batch),
            }),
            Op::Reduce(reduce) => Op::Reduce(Reduce { axes: reduce.axes.as_deref().map(rows), ..reduce.clone() }),
            op => op.clone(),
        };
        let out = &self.fold.outputs[0];
        let fold = b.emit(op, operands, wide(out.dtype), &out.shape);
        self.turns.iter().rev().fold(fold, |id, turn| {
            let out = &turn.outputs[0];
            b.emit(turn.op.clone(), &[id], wide(out.dtype), &out.shape)
        })
    }
}

/// The ids of a sum before and after an iteration, and the number of the input whose gradient it is.
pub(super) struct Sum {
    pub(super) input: usize,
    pub(super) before: usize,
    pub(super) after: usize,
}

/// What an iteration adds to those of the sums that are better computed behind the loop.
pub(super) fn terms(program: &Program, sums: impl Iterator<Item = Sum>) -> Vec<Term> {
    let found = Found { builder: Builder::of(program), reads: reads(program) };
    let all: Vec<Vec<Term>> = sums.filter_map(|sum| found.terms(&sum)).collect();
    let products = all.iter().flatten().filter(|term| matches!(term.fold.op, Op::Dot(_)));
    let kept: HashSet<usize> = products.flat_map(Term::operands).copied().collect();
    // What only a sum of columns reads is not worth to be kept.
    let is_worth = |terms: &Vec<Term>| terms.iter().flat_map(Term::operands).all(|id| kept.contains(id));
    all.into_iter().filter(is_worth).flatten().collect()
}

/// The ids of all that terms read.
pub(super) fn operands(terms: &[Term]) -> BTreeSet<usize> {
    terms.iter().flat_map(Term::operands).copied().collect()
}

struct Found {
    builder: Builder,
    reads: Vec<usize>,
}

impl Found {
    /// What is added to a sum; `None` where that can't be told apart, or is not worth it.
    fn terms(&self, sum: &Sum) -> Option<Vec<Term>> {
        let (mut terms, mut rest) = (vec![], sum.after);
        while rest != sum.before {
            let maker = self.builder.maker(rest).filter(|_| self.reads[rest] == 1)?;
            let (Op::Binary(Binary::Add), [left, right]) = (&maker.op, &maker.inputs[..]) else { return None };
            terms.push(self.term(sum.input, *right)?);
            rest = *left;
        }
        (self.reads[sum.before] == 1).then_some(terms)
    }

    fn term(&self, input: usize, mut id: usize) -> Option<Term> {
        let mut turns = vec![];
        loop {
            let maker = self.builder.maker(id)?;
            match &maker.op {
                Op::Cast => {}
                Op::Reshape | Op::Transpose(_) => turns.push(maker.clone()),
                Op::Dot(_) | Op::Reduce(Reduce { fold: Fold::Sum, axes: Some(_), .. }) => {
                    let term = Term { input, fold: maker.clone(), turns };
                    return self.is_small(&term).then_some(term);
                }
                _ => return None,
            }
            id = maker.inputs[0];
        }
    }

    fn is_small(&self, term: &Term) -> bool {
        let elements = |shape: &[usize]| shape.iter().product::<usize>();
        let read: usize = term.operands().iter().map(|&id| elements(&self.builder.ty(id).shape)).sum();
        !matches!(term.fold.op, Op::Dot(_)) || read <= MOST * elements(&term.fold.outputs[0].shape)
    }
}
