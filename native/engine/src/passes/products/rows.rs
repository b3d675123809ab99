//! Products of several matrices with one: the product of all of these, one below the other.

use std::collections::HashMap;

use super::{FEWEST, Product, concatenate, copy};
use crate::passes::writer::{Writer, makers};
use crate::program::{Instruction, Op, Program, Slice};
use crate::types::TensorType;

/// Most rows of a product that is worth to be joined: more fill the registers well enough.
const FEW_ROWS: usize = 256;

/// A right operand and the axes that are summed over.
type Right = (usize, [usize; 2]);

/// The program with fewer products. Left operands count that are parts of what is there when the first product is computed.
pub(super) fn join(program: &Program) -> Program {
    let mut rows = Rows::of(program);
    let groups = rows.groups();
    for instruction in &program.instructions {
        let group = rows.product(instruction).and_then(|product| {
            let lefts = groups.get(&right(&product))?;
            lefts.contains(&product.operands[0]).then_some((product, lefts))
        });
        let first = match group {
            Some((product, lefts)) => rows.part(&product, lefts),
            None => copy(&mut rows.writer, instruction, &rows.ids),
        };
        rows.ids.extend(first..first + instruction.outputs.len());
    }
    let outputs = program.outputs.iter().map(|&id| rows.ids[id]).collect();
    rows.writer.finish(outputs)
}

struct Rows<'a> {
    program: &'a Program,
    types: Vec<&'a TensorType>,
    makers: Vec<Option<usize>>,
    writer: Writer,
    ids: Vec<usize>,
    /// What was written ahead of its turn, and the products that are there.
    early: HashMap<usize, usize>,
    whole: HashMap<Right, usize>,
}

impl<'a> Rows<'a> {
    fn of(program: &'a Program) -> Self {
        Self {
            program,
            types: program.value_types(),
            makers: makers(program),
            writer: Writer::new(&program.inputs),
            ids: (0..program.inputs.len()).collect(),
            early: HashMap::new(),
            whole: HashMap::new(),
        }
    }

    fn product(&self, instruction: &'a Instruction) -> Option<Product<'a>> {
        Product::of(instruction, &self.types).filter(|product| product.out.shape[0] <= FEW_ROWS)
    }

    /// For each right operand the left ones, in order.
    fn groups(&self) -> HashMap<Right, Vec<usize>> {
        let mut groups: HashMap<Right, (usize, Vec<usize>)> = HashMap::new();
        let mut next = self.program.inputs.len();
        for instruction in &self.program.instructions {
            if let Some(product) = self.product(instruction) {
                let (start, lefts) = groups.entry(right(&product)).or_insert((next, vec![]));
                let left = product.operands[0];
                if self.is_part(left, *start) && !lefts.contains(&left) {
                    lefts.push(left);
                }
            }
            next += instruction.outputs.len();
        }
        let kept = groups.into_iter().filter(|(_, (_, lefts))| lefts.len() >= FEWEST);
        kept.map(|(right, (_, lefts))| (right, lefts)).collect()
    }

    /// Whether a value is there before value number `start` is, or can be, being a part of what is.
    fn is_part(&self, mut id: usize, start: usize) -> bool {
        while id >= start {
            match self.makers[id].map(|i| &self.program.instructions[i]) {
                Some(Instruction { op: Op::Slice(_) | Op::Reshape | Op::Transpose(_), inputs, .. }) => id = inputs[0],
                _ => return false,
            }
        }
        true
    }

    /// The new id of such a value.
    fn known(&mut self, id: usize) -> usize {
        if let Some(&known) = self.ids.get(id).or_else(|| self.early.get(&id)) {
            return known;
        }
        let Some(i) = self.makers[id] else { return id };
        let instruction = &self.program.instructions[i];
        let input = self.known(instruction.inputs[0]);
        let known = self.writer.emit(instruction.op.clone(), vec![input], instruction.outputs.clone());
        self.early.insert(id, known);
        known
    }

    /// The rows of a product that its left operand makes.
    fn part(&mut self, product: &Product<'a>, lefts: &[usize]) -> usize {
        let whole = match self.whole.get(&right(product)) {
            Some(&whole) => whole,
            None => self.below_each_other(product, lefts),
        };
        self.whole.insert(right(product), whole);
        let before = lefts.iter().take_while(|&&id| id != product.operands[0]);
        let start = before.map(|&id| self.types[id].shape[product.free[0]]).sum();
        let slice = Slice { starts: vec![start, 0], lengths: product.out.shape.clone(), strides: vec![1, 1] };
        self.writer.one(Op::Slice(slice), vec![whole], product.out)
    }

    fn below_each_other(&mut self, product: &Product<'a>, lefts: &[usize]) -> usize {
        let parts = lefts.iter().map(|&id| self.known(id)).collect();
        let left = concatenate(&mut self.writer, parts, product.free[0]);
        let rows = self.writer.ty(left).shape[product.free[0]];
        let out = TensorType::new(product.out.dtype, [rows, product.out.shape[1]]);
        let right = self.ids[product.operands[1]];
        self.writer.one(Op::Dot(product.dot.clone()), vec![left, right], &out)
    }
}

fn right(product: &Product<'_>) -> Right {
    (product.operands[1], product.contract)
}
