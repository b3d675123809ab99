//! A thread at work on the blocks of a tape.

use std::mem::MaybeUninit;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use super::ahead::Ahead;
use super::arena::Arena;
use super::run::{Block, Operand, Run};
use super::source::{fill, spread};
use super::{Place, Step, What};
use crate::cpu::Kernel;
use crate::cpu::ahead::pays;
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

impl Lent {
    /// For a worker that gets memory with each block.
    pub(super) const NOTHING: Self = Self { first: 0, from: std::ptr::null(), into: std::ptr::null_mut() };
}

/// A thread at work on a task.
pub(super) struct Worker<'a> {
    run: &'a Run<'a>,
    lent: Option<Lent>,
    /// Buffers of the tape, then one for each operand.
    arena: Arena,
    /// Where the current block of each operand is.
    read: Vec<*const u8>,
    ahead: Option<Ahead>,
    pub(super) folded: Vec<u64>,
}

/// Elements from which on the memory of a region may not lie near.
const FAR: usize = 16 * 1024;

/// Steps from which on a block takes longer than its memory to come.
const SLOW: usize = 3;

impl<'a> Worker<'a> {
    pub(super) fn new(run: &'a Run<'a>, lent: Option<Lent>) -> Self {
        let tape = run.tape;
        let mut arena = Arena::new(tape.slots + tape.inputs.len(), tape.block() * tape.width);
        let times = |place: Place| if tape.alone.contains(&place) { 1 } else { tape.block() };
        for (slot, element) in &tape.constants {
            fill(element, arena.buffer(*slot), times(Place::Slot(*slot)));
        }
        let slow = tape.steps.iter().filter(|step| is_slow(step)).count();
        let is_asked = tape.len() >= FAR && slow >= SLOW && lent.is_none() && pays();
        let ahead = is_asked.then(|| Ahead::new(slow));
        let read = vec![std::ptr::null(); tape.inputs.len()];
        let mut worker = Self { run, lent, arena, read, ahead, folded: vec![] };
        for (i, (dtype, extent)) in tape.inputs.iter().enumerate() {
            if *extent == Extent::One {
                worker.read_operand(i, 0, 1);
                let element = worker.elements(Place::Input(i), 0, dtype.size()).to_vec();
                let buffer = worker.buffer(i);
                fill(&element, buffer, times(Place::Input(i)));
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

    /// A buffer for a block of an operand.
    pub(super) fn buffer(&mut self, operand: usize) -> *mut u8 {
        self.arena.buffer(self.run.tape.slots + operand)
    }

    fn read_operand(&mut self, number: usize, first: usize, len: usize) {
        let buffer = self.buffer(number);
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
        self.look_ahead(block);
        self.steps(block);
    }

    /// Computes a block from this memory of the first operands and that of the others for all blocks.
    pub(super) fn block_of(&mut self, block: Block, operands: [*const u8; 2], into: *mut u8) {
        self.read[..2].copy_from_slice(&operands);
        self.lent = Some(Lent { first: block.first, from: operands[0], into });
        self.steps(block);
    }

    fn steps(&mut self, block: Block) {
        let mut fold = 0;
        for step in &self.run.tape.steps {
            if let Some(ahead) = self.ahead.as_mut().filter(|_| is_slow(step)) {
                ahead.ask();
            }
            self.step(step, block, &mut fold);
        }
    }

    /// Finds the memory of the results of this block and of the operands of the next.
    fn look_ahead(&mut self, block: Block) {
        let tape = self.run.tape;
        let Some(ahead) = &mut self.ahead else { return };
        ahead.start();
        let next = block.first + block.len;
        let is_reused =
            |output| self.run.operands.iter().any(|operand| matches!(operand, Operand::Reused(o) if *o == output));
        for (number, (output, (_, extent, _))) in self.run.outputs.iter().zip(&tape.outputs).enumerate() {
            if *extent == Extent::Whole && !is_reused(number) {
                ahead.add(output.place(block.first), block.len * output.size);
            }
        }
        for (operand, (dtype, extent)) in self.run.operands.iter().zip(&tape.inputs) {
            let start = match operand {
                Operand::Plain(source) if *extent == Extent::Whole => source.start(next),
                Operand::Reused(output) => Some(self.run.outputs[*output].place(next).cast_const()),
                _ => None,
            };
            if let Some(start) = start {
                ahead.add(start, block.len * dtype.size());
            }
        }
    }

    fn step(&mut self, step: &Step, block: Block, fold: &mut usize) {
        // One element in all is kept as often as a block may need it.
        let len = if step.extent == Extent::Row { block.rows } else { block.len };
        match &step.what {
            What::Kernel(kernel) => self.kernel(kernel, step, block, len),
            What::Chain(joints) => self.chain(joints, step, block),
            What::Fold(folds) => {
                let place = step.from[0];
                let elements = self.operand(place, block, block.len * folds.operand().size());
                if self.run.tape.is_long() {
                    self.folded[*fold] = folds.join(self.folded[*fold], folds.part(elements));
                    *fold += 1;
                } else {
                    folds.rows(elements, self.run.tape.row, self.places(step.to, block, len * folds.result().size()));
                }
            }
            What::Spread(size) => {
                let place = step.from[0];
                let elements = self.operand(place, block, block.rows * size);
                let out = self.places(step.to, block, block.len * size);
                spread(elements, *size, block.len / block.rows, out.as_mut_ptr().cast());
            }
        }
    }

    fn kernel(&mut self, kernel: &Kernel, step: &Step, block: Block, len: usize) {
        let rows = if let Some((_, Extent::Row)) = step.one { block.rows } else { 1 };
        let mut operands = [&[][..]; 3];
        for (i, (&place, dtype)) in step.from.iter().zip(&kernel.operands).enumerate() {
            let count = if step.one.is_some_and(|(one, _)| one == i) { rows } else { len };
            operands[i] = self.operand(place, block, count * dtype.size());
        }
        let operands = &operands[..step.from.len()];
        let out = self.places(step.to, block, len * kernel.result.size());
        let Some((one, _)) = step.one else { return kernel.run(operands, out) };
        for (row, out) in out.chunks_exact_mut(out.len() / rows).enumerate() {
            let mut parts = [&[][..]; 3];
            for (part, operand) in parts.iter_mut().zip(operands) {
                let size = operand.len() / rows;
                *part = &operand[row * size..][..size];
            }
            kernel.run_one(one, &parts[..operands.len()], out);
        }
    }

    /// The bytes of an operand of a step that belong to a block.
    pub(super) fn operand<'b>(&mut self, place: Place, block: Block, bytes: usize) -> &'b [u8] {
        self.elements(place, block_at(self, place, block), bytes)
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
    pub(super) fn places<'b>(&mut self, place: Place, block: Block, bytes: usize) -> &'b mut [MaybeUninit<u8>] {
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

/// Whether a step passes over all elements of a block.
fn is_slow(step: &Step) -> bool {
    step.extent != Extent::Row || matches!(step.what, What::Fold(_))
}

/// The number of a block's first element in a value.
fn block_at(worker: &Worker<'_>, place: Place, block: Block) -> usize {
    match place {
        Place::Output(output) if worker.run.tape.outputs[output].1 == Extent::Whole => block.first,
        Place::Output(_) => block.first_row,
        _ => 0,
    }
}
