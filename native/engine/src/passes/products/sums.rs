//! Sums of products as products of longer rows, and sums of sums as sums of longer columns.

use super::{FEWEST, Product, concatenate, copy};
use crate::passes::writer::{Writer, makers, reads};
use crate::program::{Binary, Dot, Fold, Instruction, Op, Program, Reduce};
use crate::types::{TensorType, Type};

/// Most elements of a tensor that is worth to be summed with others.
const SMALL: usize = 64 * 1024;

/// The program with its sums of products joined. What is `lasting` is brought together once for all.
pub(super) fn join(program: &Program, is_lasting: &dyn Fn(usize) -> bool) -> Program {
    let sums = Sums::of(program, is_lasting);
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.inputs.len()).collect();
    for (i, instruction) in program.instructions.iter().enumerate() {
        let joined = sums.is_root(i).then(|| sums.joined(i, &mut writer, &ids)).flatten();
        let first = joined.unwrap_or_else(|| copy(&mut writer, instruction, &ids));
        ids.extend(first..first + instruction.outputs.len());
    }
    writer.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}

/// The additions of a program.
struct Sums<'a> {
    program: &'a Program,
    types: Vec<&'a TensorType>,
    makers: Vec<Option<usize>>,
    reads: Vec<usize>,
    /// For each instruction, whether it is a sum that only another one reads.
    is_inner: Vec<bool>,
    is_lasting: &'a dyn Fn(usize) -> bool,
}

/// What can be added up as one: products that differ in the lengths of their sums, or folds that differ in what they sum.
#[derive(PartialEq)]
enum Kind {
    Products { dot: Dot, free: [usize; 2] },
    Folds { axis: usize, reduce: Reduce, rest: Vec<usize> },
}

impl<'a> Sums<'a> {
    fn of(program: &'a Program, is_lasting: &'a dyn Fn(usize) -> bool) -> Self {
        let count = program.instructions.len();
        let (types, makers, reads) = (program.value_types(), makers(program), reads(program));
        let mut sums = Self { program, types, makers, reads, is_inner: vec![false; count], is_lasting };
        for (i, instruction) in program.instructions.iter().enumerate() {
            if sums.is_sum(i) {
                for &id in instruction.inputs.iter().filter(|&&id| sums.reads[id] == 1) {
                    if let Some(maker) = sums.makers[id].filter(|&maker| sums.is_sum(maker)) {
                        sums.is_inner[maker] = true;
                    }
                }
            }
        }
        sums
    }

    /// Whether an instruction adds two tensors of one type, element by element.
    fn is_sum(&self, i: usize) -> bool {
        let Instruction { op, inputs, outputs } = &self.program.instructions[i];
        *op == Op::Binary(Binary::Add)
            && matches!(outputs[0].dtype, Type::F32 | Type::F64)
            && inputs.iter().all(|&id| *self.types[id] == outputs[0])
    }

    fn is_root(&self, i: usize) -> bool {
        self.is_sum(i) && !self.is_inner[i]
    }

    /// What is added up, in order.
    fn terms(&self, root: usize) -> Vec<usize> {
        let (mut terms, mut left): (Vec<usize>, Vec<usize>) = (vec![], vec![]);
        left.extend(self.program.instructions[root].inputs.iter().rev());
        while let Some(id) = left.pop() {
            match self.makers[id].filter(|&maker| self.is_inner[maker]) {
                Some(maker) => left.extend(self.program.instructions[maker].inputs.iter().rev()),
                None => terms.push(id),
            }
        }
        terms
    }

    fn maker(&self, id: usize) -> Option<&'a Instruction> {
        self.makers[id].map(|i| &self.program.instructions[i])
    }

    /// What a term could be added up with; `None` for one that others read too.
    fn kind(&self, id: usize) -> Option<Kind> {
        let instruction = self.maker(id).filter(|_| self.reads[id] == 1)?;
        if let Some(product) = Product::of(instruction, &self.types) {
            let [rows, columns] = product.out.shape[..] else { return None };
            let is_worth = self.moved(&product) <= rows * columns;
            return is_worth.then(|| Kind::Products { dot: product.dot.clone(), free: [rows, columns] });
        }
        let Op::Reduce(reduce) = &instruction.op else { return None };
        let shape = &self.types[instruction.inputs[0]].shape;
        let axis = *reduce.axes.as_ref()?.first()?;
        let same = *self.types[instruction.inputs[0]] == TensorType::new(instruction.outputs[0].dtype, shape.clone());
        if reduce.fold != Fold::Sum || !same || shape.iter().product::<usize>() > SMALL {
            return None;
        }
        let mut rest = shape.clone();
        rest.remove(axis);
        Some(Kind::Folds { axis, reduce: reduce.clone(), rest })
    }

    /// Elements of operands that are brought together for one product. It is not worth it where they are more than those of
    /// results that need not be added. What many read is likely to be brought together for all of them.
    fn moved(&self, product: &Product<'_>) -> usize {
        let own = product.operands.iter().filter(|&&id| self.reads[id] < FEWEST && !(self.is_lasting)(id));
        own.map(|&id| self.types[id].shape.iter().product::<usize>()).sum()
    }

    /// The sum of the terms, those of one kind as one; `None` where there are none such.
    fn joined(&self, root: usize, writer: &mut Writer, ids: &[usize]) -> Option<usize> {
        let mut groups: Vec<(Option<Kind>, Vec<usize>)> = Vec::new();
        // The groups of several terms that are possible: what has no kind is alone.
        let mut kinds: Vec<usize> = Vec::new();
        for id in self.terms(root) {
            let kind = self.kind(id);
            match kinds.iter().find(|&&group| kind.is_some() && groups[group].0 == kind) {
                Some(&group) => groups[group].1.push(id),
                None => {
                    kinds.extend(kind.is_some().then_some(groups.len()));
                    groups.push((kind, vec![id]));
                }
            }
        }
        if !groups.iter().any(|(kind, members)| is_worth(kind.as_ref(), members.len())) {
            return None;
        }
        let out = &self.program.instructions[root].outputs[0];
        let terms: Vec<usize> = groups
            .into_iter()
            .flat_map(|(kind, members)| match is_worth(kind.as_ref(), members.len()) {
                true => vec![self.one(&members, writer, ids)],
                false => members.iter().map(|&id| ids[id]).collect(),
            })
            .collect();
        terms.into_iter().reduce(|sum, term| writer.one(Op::Binary(Binary::Add), vec![sum, term], out))
    }

    /// Terms of one kind as one.
    fn one(&self, members: &[usize], writer: &mut Writer, ids: &[usize]) -> usize {
        let mut makers: Vec<&Instruction> = members.iter().filter_map(|&id| self.maker(id)).collect();
        let operands = makers[0].inputs.len();
        let values = |makers: &[&Instruction], number: usize| -> Vec<usize> {
            makers.iter().map(|maker| maker.inputs[number]).collect()
        };
        let steps = (0..operands).all(|number| self.are_steps(&values(&makers, number)));
        if steps {
            // One order for all sums that read the same, so that they are brought together once: that in which a loop went
            // through its steps, on the way back as well.
            makers.sort_by_key(|maker| std::cmp::Reverse(maker.inputs.last().copied()));
        }
        let operand = |number: usize| values(&makers, number);
        let (op, inputs) = match &makers[0].op {
            Op::Dot(dot) => {
                let upright = dot.lhs_contract[0] == 0 && dot.rhs_contract[0] == 0;
                let both = [operand(0), operand(1)];
                if upright && steps {
                    (Op::Dot(dot.clone()), both.map(|operands| self.steps(&operands, writer, ids)).to_vec())
                } else {
                    let [left, right] = both.map(|operands| operands.iter().map(|&id| ids[id]).collect::<Vec<_>>());
                    let left = concatenate(writer, left, dot.lhs_contract[0]);
                    let parts = super::upright(writer, right, dot.rhs_contract[0]);
                    let right = concatenate(writer, parts, 0);
                    (Op::Dot(Dot { rhs_contract: vec![0], ..dot.clone() }), vec![left, right])
                }
            }
            Op::Reduce(Reduce { axes: Some(axes), .. }) if axes == &[0] && steps => {
                (makers[0].op.clone(), vec![self.steps(&operand(0), writer, ids)])
            }
            op => {
                let axis = if let Op::Reduce(Reduce { axes: Some(axes), .. }) = op { axes[0] } else { 0 };
                (op.clone(), vec![concatenate(writer, operand(0).iter().map(|&id| ids[id]).collect(), axis)])
            }
        };
        writer.emit(op, inputs, makers[0].outputs.clone())
    }

    /// Whether values are matrices of one type, and so many that they may be the steps of a loop.
    fn are_steps(&self, values: &[usize]) -> bool {
        let ty = self.types[values[0]];
        ty.shape.len() == 2 && values.len() >= FEWEST && values.iter().all(|&id| self.types[id] == ty)
    }

    /// The rows of all steps: of each row all steps, then the next row's, so that rows which go their own way can be joined on
    /// theirs.
    fn steps(&self, values: &[usize], writer: &mut Writer, ids: &[usize]) -> usize {
        let [rows, columns] = self.types[values[0]].shape[..] else { return ids[values[0]] };
        let whole = match self.sequence(values) {
            Some(sequence) => ids[sequence],
            None => concatenate(writer, values.iter().map(|&id| ids[id]).collect(), 1),
        };
        let ty = TensorType::new(writer.ty(whole).dtype, [rows * values.len(), columns]);
        writer.one(Op::Reshape, vec![whole], &ty)
    }

    /// The tensor of rows, steps and columns whose steps these values are, one after the other.
    fn sequence(&self, values: &[usize]) -> Option<usize> {
        let step = |(number, &id): (usize, &usize)| {
            let reshape = self.maker(id).filter(|maker| maker.op == Op::Reshape)?;
            let Instruction { op: Op::Slice(slice), inputs, .. } = self.maker(reshape.inputs[0])? else { return None };
            let shape = &self.types[inputs[0]].shape;
            let [rows, steps, columns] = shape[..] else { return None };
            let is_step = slice.starts == [0, number, 0] && slice.lengths == [rows, 1, columns];
            let all = steps == values.len() && self.types[id].shape == [rows, columns];
            (is_step && all && slice.strides == [1, 1, 1]).then_some(inputs[0])
        };
        let found = values.iter().enumerate().map(step).collect::<Option<Vec<_>>>()?;
        found.iter().all(|&id| id == found[0]).then_some(found[0])
    }
}

fn is_worth(kind: Option<&Kind>, members: usize) -> bool {
    match kind {
        Some(Kind::Products { .. }) => members >= 2,
        Some(Kind::Folds { .. }) => members >= FEWEST,
        None => false,
    }
}
