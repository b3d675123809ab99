//! Memory that is asked for before it is needed, so that it comes while the processor computes.

use crate::cpu::ahead::{LINE, prefetch};

/// Memory of a block, asked for in as many parts as the tape has steps that take time.
pub(super) struct Ahead {
    spans: Vec<(*const u8, usize)>,
    steps: usize,
    /// Steps that have asked.
    asked: usize,
}

impl Ahead {
    /// For blocks of so many steps that take time.
    pub(super) fn new(steps: usize) -> Self {
        Self { spans: vec![], steps, asked: 0 }
    }

    /// Starts a block.
    pub(super) fn start(&mut self) {
        self.spans.clear();
        self.asked = 0;
    }

    /// Takes in `bytes` bytes from `start` on, which need not be memory of this program.
    pub(super) fn add(&mut self, start: *const u8, bytes: usize) {
        self.spans.push((start, bytes));
    }

    /// Asks for the part of the next step.
    pub(super) fn ask(&mut self) {
        for &(start, bytes) in &self.spans {
            let lines = bytes.div_ceil(LINE);
            let part = self.asked * lines / self.steps..(self.asked + 1) * lines / self.steps;
            part.for_each(|line| prefetch(start.wrapping_add(line * LINE)));
        }
        self.asked += 1;
    }
}
