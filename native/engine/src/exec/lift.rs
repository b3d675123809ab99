//! Programs of scalars as programs of vectors.

use crate::program::{Binary, Cond, Constant, Instruction, Op, Program, Unary};
use crate::scalar;
use crate::types::{TensorType, Type};

/// `program` with its first `count` inputs, which are scalars, as vectors of `lanes` elements that are computed side by side.
///
/// `None` when an operation on one of them is not elementwise or makes something else than a scalar. What depends on none
/// of them is computed as it was, and may be any operation. Where lanes take different branches, all branches of nothing
/// but elementwise operations are computed, and each lane selects its own; lanes that don't take a branch divide by 1 there.
pub(super) fn lift(program: &Program, count: usize, lanes: usize) -> Option<Program> {
    let mut lifted = Lift { types: vec![], lifted: vec![], positive: vec![], lanes, instructions: vec![] };
    for (id, ty) in program.inputs.iter().enumerate() {
        lifted.value(ty, id < count)?;
    }
    let inputs = lifted.types.clone();
    let outputs = lifted.program(program, (0..inputs.len()).collect(), &[])?;
    Some(Program { inputs, instructions: lifted.instructions, outputs })
}

/// A predicate, and what it says in lanes that go this way.
type Answer = (usize, bool);

/// The values and instructions so far.
struct Lift {
    types: Vec<TensorType>,
    lifted: Vec<bool>,
    /// Which values are constants above zero.
    positive: Vec<bool>,
    lanes: usize,
    instructions: Vec<Instruction>,
}

impl Lift {
    /// Adds the instructions of `program`, whose inputs are `values`, and answers its outputs. Those of a branch, to which
    /// the answers of `path` lead, are computed whether it is taken or not, so they must be able to neither fail nor cost much.
    fn program(&mut self, program: &Program, mut values: Vec<usize>, path: &[Answer]) -> Option<Vec<usize>> {
        let branch = !path.is_empty();
        for instruction in &program.instructions {
            let mut operands: Vec<usize> = instruction.inputs.iter().map(|&id| values[id]).collect();
            let lifted = operands.iter().any(|&id| self.lifted[id]);
            let results = match &instruction.op {
                Op::Cond(cond) if lifted => self.branches(cond, &operands, &instruction.outputs, path)?,
                Op::Clip if operands.iter().skip(1).any(|&id| self.lifted[id]) => {
                    self.clip(&operands, &instruction.outputs)?
                }
                op if lifted || (branch && !matches!(op, Op::Constant(_))) => {
                    let fits = |&id: &usize| self.lifted[id] || self.types[id].shape.is_empty();
                    let op = elementwise(op).filter(|_| operands.iter().all(fits))?;
                    if branch && self.can_fail(&op, &operands, &instruction.outputs) {
                        operands[1] = self.safe(operands[1], path)?;
                    }
                    self.instruction(op, operands, &instruction.outputs)?
                }
                op => self.instruction(op.clone(), operands, &instruction.outputs)?,
            };
            values.extend(results);
        }
        Some(program.outputs.iter().map(|&id| values[id]).collect())
    }

    /// Whether the operation fails for some of its operands.
    fn can_fail(&self, op: &Op, operands: &[usize], outputs: &[TensorType]) -> bool {
        let (Op::Binary(op), [_, right], [out]) = (op, operands, outputs) else { return false };
        op.can_fail(out.dtype) && !(out.dtype.is_int() && self.positive[*right])
    }

    /// The integers `value`, and 1 in lanes that other answers than those of `path` lead elsewhere.
    fn safe(&mut self, value: usize, path: &[Answer]) -> Option<usize> {
        let ty = TensorType::new(self.types[value].dtype, []);
        if !ty.dtype.is_int() {
            return None;
        }
        let mut taken: Option<usize> = None;
        for &(predicate, answer) in path {
            let own = match answer {
                true => predicate,
                false => self.truth(Op::Unary(Unary::LogicalNot), vec![predicate])?,
            };
            taken = Some(match taken {
                Some(before) => self.truth(Op::Binary(Binary::LogicalAnd), vec![before, own])?,
                None => own,
            });
        }
        let one = Op::Constant(Constant { bytes: scalar::from_f64(ty.dtype, 1.0) });
        let one = self.instruction(one, vec![], std::slice::from_ref(&ty))?.pop()?;
        self.instruction(Op::Select, vec![taken?, value, one], &[ty])?.pop()
    }

    fn truth(&mut self, op: Op, operands: Vec<usize>) -> Option<usize> {
        self.instruction(op, operands, &[TensorType::new(Type::U8, [])])?.pop()
    }

    /// Computes all branches and selects among their results.
    fn branches(
        &mut self,
        cond: &Cond,
        operands: &[usize],
        outputs: &[TensorType],
        path: &[Answer],
    ) -> Option<Vec<usize>> {
        let (last, branches) = cond.branches.split_last()?;
        let mut path = path.to_vec();
        let mut taken = vec![];
        for (predicate, branch) in cond.predicates.iter().zip(branches) {
            let predicate = *self.program(predicate, operands.to_vec(), &path)?.first()?;
            path.push((predicate, true));
            taken.push((predicate, self.program(branch, operands.to_vec(), &path)?));
            path.pop();
            path.push((predicate, false));
        }
        let last = self.program(last, operands.to_vec(), &path)?;
        taken.into_iter().rev().try_fold(last, |otherwise, (predicate, branch)| {
            let choices = branch.into_iter().zip(otherwise).zip(outputs);
            let select = |((yes, no), ty): ((usize, usize), &TensorType)| {
                self.instruction(Op::Select, vec![predicate, yes, no], std::slice::from_ref(ty))?.pop()
            };
            choices.map(select).collect()
        })
    }

    /// Clips each lane between bounds of its own, which [`Op::Clip`] has none of.
    fn clip(&mut self, operands: &[usize], outputs: &[TensorType]) -> Option<Vec<usize>> {
        let ([x, low, high], [out]) = (operands, outputs) else { return None };
        // Integers of several types may have no common one.
        let is_exact = out.dtype.is_float() || operands.iter().all(|&id| self.types[id].dtype == out.dtype);
        let raised = Op::Binary(Binary::Max);
        let raised = self.instruction(raised, vec![*low, *x], outputs).filter(|_| is_exact)?.pop()?;
        self.instruction(Op::Binary(Binary::Min), vec![*high, raised], outputs)
    }

    fn instruction(&mut self, op: Op, inputs: Vec<usize>, outputs: &[TensorType]) -> Option<Vec<usize>> {
        let lifted = inputs.iter().any(|&id| self.lifted[id]);
        let results: Vec<usize> = outputs.iter().map(|ty| self.value(ty, lifted)).collect::<Option<_>>()?;
        if let (Op::Constant(constant), [id]) = (&op, &results[..]) {
            self.positive[*id] = scalar::to_f64(self.types[*id].dtype, &constant.bytes).is_some_and(|n| n > 0.0);
        }
        let outputs = results.iter().map(|&id| self.types[id].clone()).collect();
        self.instructions.push(Instruction { op, inputs, outputs });
        Some(results)
    }

    fn value(&mut self, ty: &TensorType, lifted: bool) -> Option<usize> {
        let ty = match lifted {
            true => ty.shape.is_empty().then(|| TensorType::new(ty.dtype, [self.lanes]))?,
            false => ty.clone(),
        };
        self.types.push(ty);
        self.lifted.push(lifted);
        self.positive.push(false);
        Some(self.types.len() - 1)
    }
}

/// The operation that does for each element of a vector what this one does for a scalar.
fn elementwise(op: &Op) -> Option<Op> {
    match op {
        Op::Unary(_) | Op::Binary(_) | Op::Cast | Op::Bitcast | Op::Select | Op::Clip | Op::StopGrad => {
            Some(op.clone())
        }
        // From scalar to scalar these do nothing.
        Op::Reshape | Op::Broadcast(_) | Op::Transpose(_) | Op::Reverse(_) => Some(Op::Reshape),
        _ => None,
    }
}
