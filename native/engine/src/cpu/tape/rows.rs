//! Runs a tape on some rows at a time, one operand of which is in memory of the caller.

use super::output::Output;
use super::run::{Block, Operand, Run};
use super::source::Source;
use super::worker::{Lent, Worker};
use super::{BLOCK, Tape};
use crate::error::Result;
use crate::program::Extent;
use crate::types::Type;
use crate::value::Value;

/// A tape whose results are made as its rows come.
pub(crate) struct Rows<'a>(Run<'a>);

impl Tape {
    /// A run on plain operands of the shapes that their extents say, of which one is missing: its elements come with the
    /// rows. With `makes`, the results get memory.
    ///
    /// # Errors
    ///
    /// As [`View::new`](crate::cpu::View::new).
    pub(crate) fn rows<'a>(&'a self, inputs: &'a [Option<Value>], makes: bool) -> Result<Rows<'a>> {
        let operands = inputs.iter().zip(&self.inputs).map(|(value, (dtype, _))| match value {
            Some(value) => Ok(Operand::Plain(Source::new(value, *dtype)?)),
            None => Ok(Operand::Lent),
        });
        let rows = self.len() / self.row;
        let outputs =
            self.outputs.iter().filter(|_| makes).map(|&(dtype, extent, _)| {
                Output::fresh(dtype, if extent == Extent::Whole { self.len() } else { rows })
            });
        let (operands, outputs) = (operands.collect::<Result<_>>()?, outputs.collect::<Result<_>>()?);
        Ok(Rows(Run { tape: self, operands, outputs, task: self.task() }))
    }
}

impl Rows<'_> {
    /// Computes the `len` elements from number `first` on, whole rows where rows are folded, from those of the missing
    /// operand; the result goes to `into`, where it has no memory of its own. No other thread computes these at the time.
    ///
    /// # Panics
    ///
    /// When the memory is too short.
    pub(crate) fn run(&self, first: usize, len: usize, from: &[u8], into: Option<&mut [u8]>) {
        let tape = self.0.tape;
        let asked = self.0.operands.iter().zip(&tape.inputs).filter(|(operand, _)| matches!(operand, Operand::Lent));
        let has_all = |(_, (dtype, _)): (&Operand<'_>, &(Type, Extent))| from.len() >= len * dtype.size();
        assert!(first + len <= tape.len() && asked.into_iter().all(has_all), "the operand has all elements");
        let has_place = match &into {
            Some(into) => {
                matches!(tape.outputs.as_slice(), [(dtype, Extent::Whole, _)] if into.len() >= len * dtype.size())
            }
            None => self.0.outputs.len() == tape.outputs.len(),
        };
        assert!(has_place, "the result has a place");
        let into = into.map_or(std::ptr::null_mut(), |into| into.as_mut_ptr());
        let mut worker = Worker::new(&self.0, Some(Lent { first, from: from.as_ptr(), into }));
        blocks(tape, first, len, &mut |block| worker.block(block));
    }

    /// The results, once all rows are computed.
    pub(crate) fn finish(self) -> Vec<Value> {
        let shapes = self.0.tape.outputs.iter().map(|(_, _, shape)| shape);
        self.0.outputs.into_iter().zip(shapes).map(|(output, shape)| output.finish(shape)).collect()
    }
}

/// The blocks of some elements, which are whole rows where rows are folded.
fn blocks(tape: &Tape, first: usize, len: usize, block: &mut dyn FnMut(Block)) {
    let row = tape.row;
    if !tape.is_long() && len.is_multiple_of(row) {
        let (last, each) = ((first + len) / row, tape.block_rows());
        for first_row in (first / row..last).step_by(each) {
            let rows = each.min(last - first_row);
            block(Block { first: first_row * row, len: rows * row, first_row, rows });
        }
        return;
    }
    let (mut at, last) = (first, first + len);
    while at < last {
        let len = BLOCK.min(last - at).min(row - at % row);
        block(Block { first: at, len, first_row: at / row, rows: 1 });
        at += len;
    }
}
