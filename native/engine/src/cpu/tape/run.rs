//! Runs tapes on all cores.

use std::slice::from_raw_parts_mut;

use super::output::{Output, is_reusable};
use super::source::Source;
use super::worker::Worker;
use super::{BLOCK, JOINED, Place, Step, Tape, What};
use crate::cpu::tasks::{CHUNK, chunks};
use crate::error::Result;
use crate::program::Extent;
use crate::value::Value;

/// What a run works on.
pub(super) struct Run<'a> {
    pub(super) tape: &'a Tape,
    pub(super) operands: Vec<Operand<'a>>,
    pub(super) outputs: Vec<Output>,
    /// Rows of a task, or elements of a row that is cut.
    pub(super) task: usize,
}

/// Where the elements of an operand are.
pub(super) enum Operand<'a> {
    Plain(Source<'a>),
    /// In memory of the caller, by blocks.
    Lent,
    /// In the memory of a result, which is written over them.
    Reused(usize),
}

/// Elements that are computed at once.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) first: usize,
    pub(super) len: usize,
    pub(super) first_row: usize,
    pub(super) rows: usize,
}

/// The running results of the folds of cut rows, by task and step.
type Parts = Vec<Vec<u64>>;

impl Tape {
    /// The results, from plain operands of the shapes that their extents say.
    ///
    /// `None` when the results would depend on the order of the elements.
    ///
    /// # Errors
    ///
    /// As [`View::new`](crate::cpu::View::new).
    pub(crate) fn run(&self, inputs: Vec<Value>) -> Result<Option<Vec<Value>>> {
        let mut inputs: Vec<Option<Value>> = inputs.into_iter().map(Some).collect();
        let (outputs, reused) = self.outputs(&mut inputs)?;
        let operands = inputs.iter().zip(&self.inputs).zip(reused).map(|((value, (dtype, _)), output)| match value {
            Some(value) => Ok(Operand::Plain(Source::new(value, *dtype)?)),
            None => Ok(Operand::Reused(output)),
        });
        let run = Run { tape: self, operands: operands.collect::<Result<_>>()?, outputs, task: self.task() };
        let mut parts: Parts = vec![vec![]; run.tasks()];
        chunks(&mut parts, 1, &|number, parts| parts[0] = run.task(number));
        if !run.finish(&parts) {
            return Ok(None);
        }
        let shapes = self.outputs.iter().map(|(_, _, shape)| shape);
        Ok(Some(run.outputs.into_iter().zip(shapes).map(|(output, shape)| output.finish(shape)).collect()))
    }

    /// Memory for the results, that of operands where it can be; for each operand taken, which result took it.
    fn outputs(&self, inputs: &mut [Option<Value>]) -> Result<(Vec<Output>, Vec<usize>)> {
        let mut taken = vec![0; inputs.len()];
        let may_reuse = !self.may_decline();
        let rows = self.len() / self.row;
        let outputs = self.outputs.iter().enumerate().map(|(number, &(dtype, extent, _))| {
            let fits = |(i, value): &(usize, &mut Option<Value>)| {
                self.inputs[*i] == (dtype, Extent::Whole) && value.as_ref().is_some_and(is_reusable)
            };
            let spare = inputs.iter_mut().enumerate().filter(|_| may_reuse && extent == Extent::Whole).find(fits);
            if let Some((i, value)) = spare.and_then(|(i, value)| Some((i, value.take()?))) {
                taken[i] = number;
                return Ok(Output::reused(value));
            }
            Output::fresh(dtype, if extent == Extent::Whole { self.len() } else { rows })
        });
        Ok((outputs.collect::<Result<_>>()?, taken))
    }

    pub(super) fn task(&self) -> usize {
        match self.is_long() {
            true => (self.row / 8).clamp(self.least(), 4 * CHUNK).next_multiple_of(BLOCK),
            false => (self.least() / self.row).max(1).next_multiple_of(self.block_rows()),
        }
    }

    /// Fewest elements that are worth a task: fewer, the more is done to each.
    fn least(&self) -> usize {
        let work: usize = self.steps.iter().map(Step::work).sum();
        (2 * CHUNK / work.max(1)).clamp(2 * BLOCK, CHUNK)
    }

    /// Rows of a block.
    pub(super) fn block_rows(&self) -> usize {
        let times = if self.has_rows() { JOINED } else { 1 };
        (times * BLOCK / self.row).max(1)
    }

    /// Most elements of a block.
    pub(super) fn block(&self) -> usize {
        let block = if self.is_long() { BLOCK } else { self.block_rows() * self.row };
        block.min(self.len())
    }
}

impl Run<'_> {
    fn rows(&self) -> usize {
        self.tape.len() / self.tape.row
    }

    /// Tasks for a row that is cut.
    fn cuts(&self) -> usize {
        self.tape.row.div_ceil(self.task)
    }

    fn tasks(&self) -> usize {
        if self.tape.is_long() { self.rows() * self.cuts() } else { self.rows().div_ceil(self.task) }
    }

    /// Computes the blocks of a task; answers what its folds of cut rows come to so far.
    fn task(&self, number: usize) -> Vec<u64> {
        let mut worker = Worker::new(self, None);
        if self.tape.is_long() {
            let (row, cut) = (number / self.cuts(), number % self.cuts());
            let (first, last) = (cut * self.task, self.tape.row.min((cut + 1) * self.task));
            for at in (first..last).step_by(BLOCK) {
                let len = BLOCK.min(last - at);
                worker.block(Block { first: row * self.tape.row + at, len, first_row: row, rows: 1 });
            }
        } else {
            let (each, last) = (self.tape.block_rows(), self.rows().min((number + 1) * self.task));
            for first_row in (number * self.task..last).step_by(each) {
                let rows = each.min(last - first_row);
                let (first, len) = (first_row * self.tape.row, rows * self.tape.row);
                worker.block(Block { first, len, first_row, rows });
            }
        }
        worker.folded
    }

    /// Ends the folds of cut rows; false when one may depend on the order of the elements.
    fn finish(&self, parts: &Parts) -> bool {
        if !self.tape.is_long() {
            return true;
        }
        let folds = self.tape.steps.iter().filter_map(|step| match (&step.what, step.to) {
            (What::Fold(fold), Place::Output(output)) => Some((fold, &self.outputs[output])),
            _ => None,
        });
        folds.enumerate().all(|(number, (fold, output))| {
            parts.chunks(self.cuts()).enumerate().all(|(row, cuts)| {
                let state = cuts.iter().fold(fold.identity(), |state, cut| fold.join(state, cut[number]));
                // SAFETY: the place is within the result, and all threads have ended.
                let place = unsafe { from_raw_parts_mut(output.place(row).cast(), output.size) };
                fold.finish(state, place)
            })
        })
    }
}
