//! Refuses programs that no executor could run.

use super::{CustomReduce, CustomWindowReduce, Extent, Instruction, Op, Program};
use crate::error::{Error, Result};
use crate::types::TensorType;

/// Programs nested deeper than this are refused rather than overflowing the stack.
pub const MAX_LEVELS: usize = 64;

impl Program {
    /// Checks ids, sizes and the signatures of nested programs.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] names the instruction and what is wrong with it.
    pub fn check(&self) -> Result<()> {
        self.check_at(0)
    }

    fn check_at(&self, depth: usize) -> Result<()> {
        if depth > MAX_LEVELS {
            return Err(Error::invalid("program", format!("nested deeper than {MAX_LEVELS} levels")));
        }
        check_sizes("program", &self.inputs)?;
        let mut known = self.inputs.len();
        for instruction in &self.instructions {
            let op = instruction.op.name();
            check_ids(&op, &instruction.inputs, known)?;
            check_sizes(&op, &instruction.outputs)?;
            for nested in instruction.op.nested() {
                nested.check_at(depth + 1)?;
            }
            known += instruction.outputs.len();
        }
        check_ids("program", &self.outputs, known)?;
        let types = self.value_types();
        self.instructions.iter().try_for_each(|i| check_signature(i, &types))
    }
}

fn check_ids(op: &str, ids: &[usize], known: usize) -> Result<()> {
    match ids.iter().find(|&&id| id >= known) {
        Some(id) => Err(Error::invalid(op, format!("reads value {id}, but only {known} exist there"))),
        None => Ok(()),
    }
}

fn check_sizes(op: &str, types: &[TensorType]) -> Result<()> {
    match types.iter().find(|t| t.checked_len().is_none()) {
        Some(t) => Err(Error::invalid(op, format!("{t} is larger than memory"))),
        None => Ok(()),
    }
}

/// The operands that a nested program takes and the results it must answer.
fn check_signature(instruction: &Instruction, types: &[&TensorType]) -> Result<()> {
    let op = instruction.op.name();
    let operands: Vec<&TensorType> = instruction.inputs.iter().map(|&id| types[id]).collect();
    let outputs: Vec<&TensorType> = instruction.outputs.iter().collect();
    if !matches!(instruction.op, Op::While(_) | Op::Cond(_) | Op::CustomGrad(_))
        && instruction.op.nested().into_iter().any(Program::has_effect)
    {
        let reason = "its program calls into the host, which only loops, branches and gradients can do";
        return Err(Error::invalid(op, reason));
    }
    match &instruction.op {
        Op::While(w) => {
            expect_types(&op, "the condition takes", w.condition.inputs.iter(), &operands)?;
            expect_types(&op, "the body takes", w.body.inputs.iter(), &operands)?;
            expect_count(&op, "the condition answers", w.condition.outputs.len(), 1)?;
            expect_types(&op, "the body answers", w.body.output_types().iter(), &outputs)?;
            expect_types(&op, "the state is", operands.iter().copied().take(outputs.len()), &outputs)
        }
        Op::Cond(c) => {
            expect_count(&op, "its predicates choose among", c.branches.len(), c.predicates.len() + 1)?;
            for predicate in &c.predicates {
                expect_types(&op, "a predicate takes", predicate.inputs.iter(), &operands)?;
                expect_count(&op, "a predicate answers", predicate.outputs.len(), 1)?;
            }
            for branch in &c.branches {
                expect_types(&op, "a branch takes", branch.inputs.iter(), &operands)?;
                expect_types(&op, "a branch answers", branch.output_types().iter(), &outputs)?;
            }
            Ok(())
        }
        Op::Constant(constant) => {
            let size = outputs.first().map_or(0, |out| out.dtype.size());
            match constant.bytes.len() == size {
                true => Ok(()),
                false => Err(Error::invalid(op, format!("has {} bytes, an element has {size}", constant.bytes.len()))),
            }
        }
        Op::Hook(_) => expect_count(&op, "a hook answers", outputs.len(), 0),
        Op::CustomGrad(g) => {
            expect_count(&op, "the backward program answers", g.backward.outputs.len(), g.inputs)?;
            let captures = operands.len().checked_sub(g.inputs + 1);
            expect_count(&op, "the backward program takes", g.backward.inputs.len(), captures.map_or(0, |n| n + 1))
        }
        Op::CustomReduce(CustomReduce { body, .. }) | Op::CustomWindowReduce(CustomWindowReduce { body, .. }) => {
            let Some((out, captures)) = outputs.first().zip(operands.get(2..)) else {
                return Err(Error::invalid(op, "needs a tensor, an initial value and one result"));
            };
            let scalar = TensorType::new(out.dtype, []);
            let takes = [&[&scalar, &scalar], captures].concat();
            expect_types(&op, "the fold takes", body.inputs.iter(), &takes)?;
            expect_types(&op, "the fold answers", body.output_types().iter(), &[&scalar])
        }
        Op::Blocked(blocked) => {
            expect_types(&op, "its body takes", blocked.body.inputs.iter(), &operands)?;
            expect_types(&op, "its body answers", blocked.body.output_types().iter(), &outputs)
        }
        Op::Rows(rows) => {
            expect_types(&op, "its program takes", rows.whole.inputs.iter(), &operands)?;
            expect_types(&op, "its program answers", rows.whole.output_types().iter(), &outputs)?;
            let cut = |types: &[&TensorType], axes: &[Option<usize>]| part_types(&op, types, axes, rows.blocks);
            let (takes, answers) = (cut(&operands, &rows.operands)?, cut(&outputs, &rows.results)?);
            let [takes, answers] = [&takes, &answers].map(|types| types.iter().collect::<Vec<_>>());
            expect_types(&op, "a block takes", rows.block.inputs.iter(), &takes)?;
            expect_types(&op, "a block answers", rows.block.output_types().iter(), &answers)
        }
        Op::Fused(fused) => {
            expect_types(&op, "its region takes", fused.body.inputs.iter(), &operands)?;
            expect_types(&op, "its region answers", fused.body.output_types().iter(), &outputs)?;
            expect_count(&op, "its region knows the extents of", fused.extents.len(), operands.len())?;
            let Some(rows) = fused.shape.len().checked_sub(fused.row_axes) else {
                return Err(Error::invalid(op, "its rows have more axes than the region"));
            };
            let fits = |(ty, extent): (&&TensorType, &Extent)| match extent {
                Extent::Whole => is_broadcast(&ty.shape, &fused.shape),
                Extent::Row => ty.checked_len() == TensorType::new(ty.dtype, &fused.shape[..rows]).checked_len(),
                Extent::One => ty.checked_len() == Some(1),
            };
            match operands.iter().zip(&fused.extents).find(|operand| !fits(*operand)) {
                None => Ok(()),
                Some((ty, _)) => Err(Error::invalid(op, format!("{ty} has not its extent in {:?}", fused.shape))),
            }
        }
        _ => Ok(()),
    }
}

/// Whether a tensor of the shape `from` can be repeated to `to`.
fn is_broadcast(from: &[usize], to: &[usize]) -> bool {
    let fits = |(&from, &to): (&usize, &usize)| from == to || from == 1;
    from.len() <= to.len() && from.iter().rev().zip(to.iter().rev()).all(fits)
}

/// The types of parts of values that are cut in `blocks` along these axes.
fn part_types(op: &str, types: &[&TensorType], axes: &[Option<usize>], blocks: usize) -> Result<Vec<TensorType>> {
    expect_count(op, "there are axes of", axes.len(), types.len())?;
    let part = |(ty, axis): (&&TensorType, &Option<usize>)| {
        let mut part = (*ty).clone();
        let Some(axis) = axis else { return Ok(part) };
        match part.shape.get(*axis) {
            Some(&length) if blocks > 0 && length.is_multiple_of(blocks) => part.shape[*axis] = length / blocks,
            _ => return Err(Error::invalid(op, format!("{ty} can't be cut in {blocks} blocks along axis {axis}"))),
        }
        Ok(part)
    };
    types.iter().zip(axes).map(part).collect()
}

fn expect_count(op: &str, what: &str, got: usize, want: usize) -> Result<()> {
    if got == want { Ok(()) } else { Err(Error::invalid(op, format!("{what} {got} values, not {want}"))) }
}

fn expect_types<'a>(
    op: &str,
    what: &str,
    got: impl Iterator<Item = &'a TensorType>,
    want: &[&TensorType],
) -> Result<()> {
    let got: Vec<&TensorType> = got.collect();
    if got == want {
        return Ok(());
    }
    let list = |types: &[&TensorType]| types.iter().map(|t| t.to_string()).collect::<Vec<_>>().join(", ");
    Err(Error::invalid(op, format!("{what} ({}), not ({})", list(&got), list(want))))
}
