//! Runs tapes on all cores.

use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use super::arena::Arena;
use super::output::{Output, is_reusable};
use super::source::{Source, fill, spread};
use super::{BLOCK, Place, Step, Tape, What};
use crate::cpu::tasks::{CHUNK, chunks};
use crate::error::Result;
use crate::program::Extent;
use crate::value::Value;

/// What a run works on.
struct Run<'a> {
    tape: &'a Tape,
    operands: Vec<Operand<'a>>,
    outputs: Vec<Output>,
    /// Rows of a task, or elements of a row that is cut.
    task: usize,
}

/// Where the elements of an operand are.
enum Operand<'a> {
    Plain(Source<'a>),
    /// In the memory of a result, which is written over them.
    Reused(usize),
}

/// Elements that are computed at once.
#[derive(Clone, Copy)]
struct Block {
    first: usize,
    len: usize,
    first_row: usize,
    rows: usize,
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
                return Ok(Output::reused(value, extent));
            }
            Output::fresh(dtype, if extent == Extent::Whole { self.len() } else { rows }, extent)
        });
        Ok((outputs.collect::<Result<_>>()?, taken))
    }

    fn task(&self) -> usize {
        match self.is_long() {
            true => (self.row / 8).clamp(self.least(), 4 * CHUNK).next_multiple_of(BLOCK),
            false => (self.least() / self.row).max(1).next_multiple_of(self.block_rows()),
        }
    }

    /// Fewest elements that are worth a task: fewer, the more is done to each.
    fn least(&self) -> usize {
        (2 * CHUNK / self.steps.len().max(1)).clamp(2 * BLOCK, CHUNK)
    }

    /// Rows of a block.
    fn block_rows(&self) -> usize {
        (BLOCK / self.row).max(1)
    }

    /// Most elements of a block.
    fn block(&self) -> usize {
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
        let mut worker = Worker::new(self);
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

/// A thread at work on a task.
struct Worker<'a> {
    run: &'a Run<'a>,
    /// Buffers of the tape, then one for each operand.
    arena: Arena,
    /// Where the current block of each operand is.
    read: Vec<*const u8>,
    folded: Vec<u64>,
}

impl<'a> Worker<'a> {
    fn new(run: &'a Run<'a>) -> Self {
        let tape = run.tape;
        let mut arena = Arena::new(tape.slots + tape.inputs.len(), tape.block() * tape.width);
        for (slot, element) in &tape.constants {
            fill(element, arena.buffer(*slot), tape.block());
        }
        let mut worker = Self { run, arena, read: vec![std::ptr::null(); tape.inputs.len()], folded: vec![] };
        for (i, (dtype, extent)) in tape.inputs.iter().enumerate() {
            if *extent == Extent::One {
                worker.read_operand(i, 0, 1);
                let element = worker.elements(Place::Input(i), 0, dtype.size()).to_vec();
                let buffer = worker.arena.buffer(tape.slots + i);
                fill(&element, buffer, tape.block());
                worker.read[i] = buffer;
            }
        }
        let folds = tape.steps.iter().filter(|_| tape.is_long()).filter_map(|step| match &step.what {
            What::Fold(fold) => Some(fold.identity()),
            _ => None,
        });
        worker.folded.extend(folds);
        worker
    }

    fn read_operand(&mut self, number: usize, first: usize, len: usize) {
        let buffer = self.arena.buffer(self.run.tape.slots + number);
        self.read[number] = match &self.run.operands[number] {
            Operand::Plain(source) => source.read(first, len, buffer),
            Operand::Reused(output) => {
                let output = &self.run.outputs[*output];
                // SAFETY: the block lies within the result, whose memory is no buffer, and this thread alone writes to it.
                unsafe { std::ptr::copy_nonoverlapping(output.place(first), buffer, len * output.size) };
                buffer
            }
        };
    }

    fn block(&mut self, block: Block) {
        for (i, (_, extent)) in self.run.tape.inputs.iter().enumerate() {
            match extent {
                Extent::Whole => self.read_operand(i, block.first, block.len),
                Extent::Row => self.read_operand(i, block.first_row, block.rows),
                Extent::One => (),
            }
        }
        let mut fold = 0;
        for step in &self.run.tape.steps {
            self.step(step, block, &mut fold);
        }
    }

    fn step(&mut self, step: &Step, block: Block, fold: &mut usize) {
        // One element in all is kept as often as a block may need it.
        let len = if step.extent == Extent::Row { block.rows } else { block.len };
        match &step.what {
            What::Kernel(kernel) => {
                let mut operands = [&[][..]; 3];
                for ((slice, &place), dtype) in operands.iter_mut().zip(&step.from).zip(&kernel.operands) {
                    *slice = self.elements(place, block_at(self, place, block), len * dtype.size());
                }
                let out = self.places(step.to, block, len * kernel.result.size());
                kernel.run(&operands[..step.from.len()], out);
            }
            What::Fold(folds) => {
                let place = step.from[0];
                let elements = self.elements(place, block_at(self, place, block), block.len * folds.operand().size());
                if self.run.tape.is_long() {
                    self.folded[*fold] = folds.join(self.folded[*fold], folds.part(elements));
                    *fold += 1;
                } else {
                    folds.rows(elements, self.run.tape.row, self.places(step.to, block, len * folds.result().size()));
                }
            }
            What::Spread(size) => {
                let place = step.from[0];
                let elements = self.elements(place, block_at(self, place, block), block.rows * size);
                let out = self.places(step.to, block, block.len * size);
                spread(elements, *size, block.len / block.rows, out.as_mut_ptr().cast());
            }
        }
    }

    /// The bytes of a value that belong to a block, of which element number `at` is the first.
    fn elements<'b>(&mut self, place: Place, at: usize, bytes: usize) -> &'b [u8] {
        let start = match place {
            Place::Input(i) => self.read[i],
            Place::Slot(slot) => {
                assert!(bytes <= self.arena.bytes(), "a block fits in a buffer");
                self.arena.buffer(slot)
            }
            Place::Output(output) => self.run.outputs[output].place(at),
        };
        // SAFETY: a step reads what earlier steps of the block have written, from memory that no other thread writes to,
        // and writes to none of its operands.
        unsafe { from_raw_parts(start, bytes) }
    }

    /// Places for the bytes of a value that belong to a block.
    fn places<'b>(&mut self, place: Place, block: Block, bytes: usize) -> &'b mut [MaybeUninit<u8>] {
        let start = match place {
            Place::Slot(slot) => {
                assert!(bytes <= self.arena.bytes(), "a block fits in a buffer");
                self.arena.buffer(slot)
            }
            Place::Output(output) => self.run.outputs[output].place(block_at(self, place, block)),
            Place::Input(_) => unreachable!("operands are not written to"),
        };
        // SAFETY: no other thread works on this block, and no operand of the step is in this place.
        unsafe { from_raw_parts_mut(start.cast(), bytes) }
    }
}

/// The number of a block's first element in a value.
fn block_at(worker: &Worker<'_>, place: Place, block: Block) -> usize {
    match place {
        Place::Output(output) if worker.run.outputs[output].extent == Extent::Whole => block.first,
        Place::Output(_) => block.first_row,
        _ => 0,
    }
}
