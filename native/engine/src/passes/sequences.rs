//! Steps through a sequence: where a loop multiplies a part of a sequence by a matrix in each iteration, and neither changes,
//! the whole sequence is multiplied before the loop, which then takes a part of the product.

use super::dead;
use super::hoisting::is_invariant;
use super::writer::Writer;
use crate::program::{Binary, Dot, DynamicSlice, Instruction, Op, Program, While};
use crate::scalar;
use crate::types::{TensorType, Type};

/// Most elements of a product that is kept for a loop.
const MOST: usize = 1 << 26;

/// The program with products of sequences before its loops.
pub(super) fn multiply(program: &Program) -> Program {
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.inputs.len()).collect();
    for instruction in &program.instructions {
        let mut inputs: Vec<usize> = instruction.inputs.iter().map(|&id| ids[id]).collect();
        let op = match &instruction.op {
            Op::While(attrs) => Op::While(shorter(&mut writer, attrs, instruction.outputs.len(), &mut inputs)),
            op => op.clone(),
        };
        let first = writer.emit(op, inputs, instruction.outputs.clone());
        ids.extend(first..first + instruction.outputs.len());
    }
    writer.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}

/// The loop with parts of products in place of products of parts, which `writer` makes.
fn shorter(writer: &mut Writer, attrs: &While, state: usize, inputs: &mut Vec<usize>) -> While {
    let mut attrs = While { body: dead::remove(&attrs.body), ..attrs.clone() };
    let steps = Step::all(&attrs, state);
    if steps.is_empty() {
        return attrs;
    }
    let own = attrs.body.inputs.len();
    let products: Vec<TensorType> = steps.iter().map(|step| step.product(&attrs.body)).collect();
    for (step, product) in steps.iter().zip(&products) {
        let operands = vec![inputs[step.sequence], inputs[step.matrix]];
        inputs.push(writer.one(Op::Dot(step.dot.clone()), operands, product));
    }
    attrs.condition = shifted(&attrs.condition, own, steps.len());
    attrs.condition.inputs.extend_from_slice(&products);
    attrs.body = dead::remove(&within(&attrs.body, &steps, &products));
    attrs
}

/// The body that takes the products as more operands.
fn within(body: &Program, steps: &[Step], products: &[TensorType]) -> Program {
    let own = body.inputs.len();
    let mut writer = Writer::new(&[&body.inputs[..], products].concat());
    let mut ids: Vec<usize> = (0..own).collect();
    let mut left = (own..).zip(steps).peekable();
    for (number, instruction) in body.instructions.iter().enumerate() {
        let first = match left.next_if(|(_, step)| step.number == number) {
            Some((whole, step)) => step.part(&mut writer, whole, &step.columns(body), &ids, &instruction.outputs[0]),
            None => {
                let inputs = instruction.inputs.iter().map(|&id| ids[id]).collect();
                writer.emit(instruction.op.clone(), inputs, instruction.outputs.clone())
            }
        };
        ids.extend(first..first + instruction.outputs.len());
    }
    writer.finish(body.outputs.iter().map(|&id| ids[id]).collect())
}

/// A product of a part of a sequence.
struct Step {
    /// The number of the instruction.
    number: usize,
    /// The sequence and the matrix among the loop's operands, and their product.
    sequence: usize,
    matrix: usize,
    dot: Dot,
    /// The part of the sequence: lengths, and where it starts.
    lengths: Vec<usize>,
    starts: Vec<usize>,
}

impl Step {
    /// The products of the loop that are worth it, in order.
    fn all(attrs: &While, state: usize) -> Vec<Self> {
        let body = &attrs.body;
        let Some(rounds) = rounds(&attrs.condition) else { return vec![] };
        let (types, makers) = (body.value_types(), makers(body));
        let is_worth = |step: &Self| {
            let steps = types[step.sequence].shape.iter().zip(&step.lengths).find(|(whole, part)| whole != part);
            let elements: usize = step.product(body).shape.iter().product();
            steps.is_some_and(|(&steps, _)| steps as f64 <= 2.0 * rounds) && elements <= MOST
        };
        let at = |number| Self::at(body, &types, &makers, number, state);
        (0..body.instructions.len()).filter_map(at).filter(is_worth).collect()
    }

    /// The instruction as a product of a matrix and a part of a sequence, of which one axis is at a place that changes.
    fn at(body: &Program, types: &[&TensorType], makers: &Makers<'_>, number: usize, state: usize) -> Option<Self> {
        let instruction = &body.instructions[number];
        let Op::Dot(dot) = &instruction.op else { return None };
        let ([own], []) = (&dot.lhs_contract[..], &dot.lhs_batch[..]) else { return None };
        let [left, matrix] = instruction.inputs[..] else { return None };
        let reshape = makers[left].filter(|maker| maker.op == Op::Reshape)?;
        let part = makers[reshape.inputs[0]]?;
        let Op::DynamicSlice(slice) = &part.op else { return None };
        let sequence = part.inputs[0];
        let whole = &types[sequence].shape;
        let plain = matches!(instruction.outputs[0].dtype, Type::F32 | Type::F64)
            && [sequence, matrix].iter().all(|&id| {
                id < body.inputs.len()
                    && is_invariant(body, id, state)
                    && types[id].dtype == instruction.outputs[0].dtype
            });
        let moves: Vec<usize> = (0..whole.len()).filter(|&axis| slice.lengths[axis] != whole[axis]).collect();
        let ([axis], true) = (&moves[..], slice.strides.iter().all(|&step| step == 1)) else { return None };
        let mut rest = whole.clone();
        rest.remove(*axis);
        if !plain || slice.lengths[*axis] != 1 || types[left].shape != rest {
            return None;
        }
        let own = if own < axis { *own } else { own + 1 };
        let dot = Dot { lhs_contract: vec![own], ..dot.clone() };
        let starts = part.inputs[1..].to_vec();
        Some(Self { number, sequence, matrix, dot, lengths: slice.lengths.clone(), starts })
    }

    /// The axes that the sequence has left in a product, by the lengths that they have in the whole or in a part.
    fn left<T: Copy>(&self, lengths: &[T]) -> Vec<T> {
        let kept = |axis: &usize| *axis != self.dot.lhs_contract[0];
        (0..lengths.len()).filter(kept).map(|axis| lengths[axis]).collect()
    }

    /// The matrix's axes in the product.
    fn columns(&self, body: &Program) -> Vec<usize> {
        let shape = &body.inputs[self.matrix].shape;
        (0..shape.len()).filter(|axis| !self.dot.rhs_contract.contains(axis)).map(|axis| shape[axis]).collect()
    }

    /// The type of the product of the whole sequence.
    fn product(&self, body: &Program) -> TensorType {
        let sequence = &body.inputs[self.sequence];
        TensorType::new(sequence.dtype, [self.left(&sequence.shape), self.columns(body)].concat())
    }

    /// The part of the product. What is there as a whole starts at 0, wherever it is asked to start.
    fn part(&self, writer: &mut Writer, whole: usize, columns: &[usize], ids: &[usize], out: &TensorType) -> usize {
        let lengths = [self.left(&self.lengths), columns.to_vec()].concat();
        let any = self.starts[self.dot.lhs_contract[0]];
        let starts = self.left(&self.starts).into_iter().chain(columns.iter().map(|_| any));
        let inputs = [whole].into_iter().chain(starts.map(|id| ids[id])).collect();
        let ty = TensorType::new(out.dtype, lengths.clone());
        let slice = DynamicSlice { strides: vec![1; lengths.len()], lengths };
        let part = writer.one(Op::DynamicSlice(slice), inputs, &ty);
        writer.one(Op::Reshape, vec![part], out)
    }
}

/// The number that something must be below for the loop to go on.
fn rounds(condition: &Program) -> Option<f64> {
    let makers = makers(condition);
    let test = makers[*condition.outputs.first()?]?;
    let Op::Binary(Binary::Less | Binary::LessEqual) = test.op else { return None };
    let bound = makers[test.inputs[1]]?;
    let Op::Constant(constant) = &bound.op else { return None };
    scalar::to_f64(bound.outputs[0].dtype, &constant.bytes)
}

/// The instruction that makes each value; inputs have none.
type Makers<'a> = Vec<Option<&'a Instruction>>;

fn makers(program: &Program) -> Makers<'_> {
    let made = program.instructions.iter().flat_map(|made| made.outputs.iter().map(move |_| Some(made)));
    program.inputs.iter().map(|_| None).chain(made).collect()
}

/// The program that has some more inputs after its `own` ones: what it makes has other ids.
fn shifted(program: &Program, own: usize, more: usize) -> Program {
    let moved = |id: &usize| if *id < own { *id } else { id + more };
    let mut program = program.clone();
    for instruction in &mut program.instructions {
        instruction.inputs.iter_mut().for_each(|id| *id = moved(id));
    }
    program.outputs.iter_mut().for_each(|id| *id = moved(id));
    program
}
