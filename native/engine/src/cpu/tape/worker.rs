//! A thread at work on the blocks of a tape.

use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use super::arena::Arena;
use super::run::{Block, Operand, Run};
use super::source::{fill, spread};
use super::{Place, Step, What};
use crate::program::Extent;

/// Memory of a caller for rows of a region.
#[derive(Clone, Copy)]
pub(super) struct Lent {
    /// The number of the first element there.
    pub(super) first: usize,
    /// The elements of the operand that the caller gives.
    pub(super) from: *const u8,
    /// Where the result goes; null where it has memory of its own.
    pub(super) into: *mut u8,
}

/// A thread at work on a task.
pub(super) struct Worker<'a> {
    run: &'a Run<'a>,
    lent: Option<Lent>,
    /// Buffers of the tape, then one for each operand.
    arena: Arena,
    /// Where the current block of each operand is.
    read: Vec<*const u8>,
    pub(super) folded: Vec<u64>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(run: &'a Run<'a>, lent: Option<Lent>) -> Self {
        let tape = run.tape;
        let mut arena = Arena::new(tape.slots + tape.inputs.len(), tape.block() * tape.width);
        for (slot, element) in &tape.constants {
            fill(element, arena.buffer(*slot), tape.block());
        }
        let mut worker = Self { run, lent, arena, read: vec![std::ptr::null(); tape.inputs.len()], folded: vec![] };
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
            Operand::Lent => {
                let lent = self.lent.expect("who reads what is lent got it");
                lent.from.wrapping_add((first - lent.first) * self.run.tape.inputs[number].0.size())
            }
            Operand::Reused(output) => {
                let output = &self.run.outputs[*output];
                // SAFETY: the block lies within the result, whose memory is no buffer, and this thread alone writes to it.
                unsafe { std::ptr::copy_nonoverlapping(output.place(first), buffer, len * output.size) };
                buffer
            }
        };
    }

    pub(super) fn block(&mut self, block: Block) {
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
            Place::Output(output) => self.output(output, at),
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
            Place::Output(output) => self.output(output, block_at(self, place, block)),
            Place::Input(_) => unreachable!("operands are not written to"),
        };
        // SAFETY: no other thread works on this block, and no operand of the step is in this place.
        unsafe { from_raw_parts_mut(start.cast(), bytes) }
    }

    /// The place of an element of a result.
    fn output(&self, output: usize, at: usize) -> *mut u8 {
        match self.lent.filter(|lent| !lent.into.is_null()) {
            Some(lent) => lent.into.wrapping_add((at - lent.first) * self.run.tape.outputs[output].0.size()),
            None => self.run.outputs[output].place(at),
        }
    }
}

/// The number of a block's first element in a value.
fn block_at(worker: &Worker<'_>, place: Place, block: Block) -> usize {
    match place {
        Place::Output(output) if worker.run.tape.outputs[output].1 == Extent::Whole => block.first,
        Place::Output(_) => block.first_row,
        _ => 0,
    }
}
