//! Buffers for blocks, which a thread keeps for its next run.

use std::cell::RefCell;

/// A line of the cache, so that buffers begin at one.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Buffers of one size.
pub(super) struct Arena {
    lines: Vec<Line>,
    /// Lines of a buffer.
    size: usize,
}

/// Lines that a thread keeps: a megabyte.
const KEPT: usize = 16 * 1024;

thread_local! {
    static SPARE: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

impl Arena {
    /// `count` buffers of at least `bytes` bytes, with anything in them.
    pub(super) fn new(count: usize, bytes: usize) -> Self {
        // A line more, so that buffers of a power of two do not fall on the same lines of the cache.
        let size = bytes.div_ceil(size_of::<Line>()) + 1;
        let mut lines = SPARE.take();
        if lines.len() < count * size {
            lines.resize(count * size, Line([0; 64]));
        }
        Self { lines, size }
    }

    /// Start of a buffer.
    pub(super) fn buffer(&mut self, number: usize) -> *mut u8 {
        self.lines[number * self.size..][..self.size].as_mut_ptr().cast()
    }

    /// Bytes of a buffer.
    pub(super) fn bytes(&self) -> usize {
        self.size * size_of::<Line>()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.truncate(KEPT);
        SPARE.replace(lines);
    }
}
