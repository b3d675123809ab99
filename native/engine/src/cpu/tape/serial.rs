//! Runs a tape over and over, each time on new elements and its own last result.

use std::mem::MaybeUninit;

use super::run::{Block, Operand, Run};
use super::source::Source;
use super::worker::{Lent, Worker};
use super::{BLOCK, Tape};
use crate::cpu::block::{build_parts, put_all};
use crate::cpu::stored::{Stored, for_width, stored};
use crate::cpu::tasks::CHUNK;
use crate::error::Result;
use crate::program::Extent;
use crate::value::Value;

/// Fewest results that are worth a task.
const LEAST: usize = 64;

impl Tape {
    /// Folds rows: from a row, which is the first operand, and the result so far, which is the second, the tape makes the next
    /// result. The elements of `parts` are the rows, one after the other; `others` are the other operands, one element each.
    ///
    /// # Errors
    ///
    /// As [`View::new`](crate::cpu::View::new).
    ///
    /// # Panics
    ///
    /// When the tape is no step of a fold.
    pub(crate) fn fold(&self, parts: &[Value], start: &Value, others: &[Value]) -> Result<Value> {
        let row = self.len();
        let ([(dtype, Extent::Whole, _)], [x, so_far, _shared @ ..]) = (&self.outputs[..], &self.inputs[..]) else {
            panic!("a step of a fold makes one result of two operands");
        };
        assert!([x, so_far] == [&(*dtype, Extent::Whole); 2] && start.len() == row, "a step takes what it makes");
        let source = |value| Source::new(value, *dtype);
        let (parts, start) = (parts.iter().map(source).collect::<Result<Vec<_>>>()?, source(start)?);
        let run = Run { tape: self, operands: self.operands(others)?, outputs: vec![], task: row };
        let steps = parts.iter().map(Source::len).sum::<usize>() / row;
        let task = (CHUNK / steps.max(1)).max(LEAST);
        for_width!(dtype.size(), T => {
            let results = build_parts(row, task, &|number, out: &mut [MaybeUninit<T>]| {
                for (block, out) in out.chunks_mut(BLOCK).enumerate() {
                    run.fold(number * task + block * BLOCK, &parts, &start, out);
                }
            });
            Ok(Value::from_flex(*dtype, stored(results, vec![row].into(), dtype.storage())))
        })
    }

    /// The operands of a fold: both that change from step to step are given with each.
    fn operands<'a>(&self, others: &'a [Value]) -> Result<Vec<Operand<'a>>> {
        let changing = [Operand::Lent, Operand::Lent].into_iter().map(Ok);
        let shared = others.iter().zip(&self.inputs[2..]);
        changing.chain(shared.map(|(value, (dtype, _))| Source::new(value, *dtype).map(Operand::Plain))).collect()
    }
}

impl Run<'_> {
    /// Folds the elements from number `first` on of each row.
    fn fold<T: Stored>(&self, first: usize, parts: &[Source<'_>], start: &Source<'_>, out: &mut [MaybeUninit<T>]) {
        let len = out.len();
        let block = Block { first, len, first_row: 0, rows: 1 };
        let mut worker = Worker::new(self, Some(Lent::NOTHING));
        let (mut so_far, mut next) = (vec![T::default(); len], vec![T::default(); len]);
        start.copy(first, &mut so_far);
        for part in parts {
            for at in (first..part.len()).step_by(self.tape.len()) {
                let x = part.read(at, len, worker.buffer(0));
                worker.block_of(block, [x, so_far.as_ptr().cast()], next.as_mut_ptr().cast());
                std::mem::swap(&mut so_far, &mut next);
            }
        }
        put_all(out, &so_far);
    }
}
