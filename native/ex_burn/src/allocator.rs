//! The allocator of the native library: the system's, with a small stock of large blocks that were given back.
//!
//! Results of operations come and go. A large block that goes back to the system leaves the address space, and the next
//! one costs a fault for each of its pages, which takes longer than to fill it. Blocks of some kilobytes go back too, many at
//! a time, when a step of training ends.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::trim;

/// Bytes of the smallest block that is kept.
const SMALLEST: usize = 4 << 10;

/// Bytes of the smallest block that counts where memory is to go back to the system: counting takes time too.
const COUNTED: usize = 1 << 10;

/// Most bytes that are kept; larger blocks go back at once.
const MOST: usize = 64 << 20;

/// Large blocks start at a line of the cache, so that no vector lies across two; every other one, which is what products ask
/// for their copies of operands.
const LINE: usize = 128;

/// From twice this size on, blocks start at a large page of memory and have such pages where the system offers them:
/// there are fewer of them to set up and to find again.
const PAGE: usize = 2 << 20;

/// Sizes between a power of two and the next one.
const STEPS: usize = 8;

/// How many sizes blocks may have.
const SIZES: usize = ((MOST / SMALLEST).ilog2() as usize + 1) * STEPS;

/// The system's allocator with a stock of large blocks.
pub(crate) struct Stocked(Mutex<Stock>);

/// Blocks that were given back, by their size and by their age.
struct Stock {
    sizes: [Ends; SIZES],
    all: Ends,
    bytes: usize,
}

/// What is at the start of a kept block.
struct Block {
    size: usize,
    /// Its neighbours among the blocks of its size.
    alike: Ends,
    /// Its neighbours among all.
    all: Ends,
}

/// The first and the last block of a list, or those before and after a block.
#[derive(Clone, Copy)]
struct Ends {
    older: Option<NonNull<Block>>,
    newer: Option<NonNull<Block>>,
}

/// Which of its two lists a block's neighbours are of.
type Side = fn(&mut Block) -> &mut Ends;

// SAFETY: a block in the stock belongs to nobody else.
unsafe impl Send for Stock {}

impl Stocked {
    /// With nothing kept.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Stock { sizes: [Ends::NONE; SIZES], all: Ends::NONE, bytes: 0 }))
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stock {
    /// The block of `size` bytes that was kept last.
    fn take(&mut self, size: usize) -> Option<NonNull<u8>> {
        let block = self.sizes[place(size)].newer?;
        self.remove(block);
        Some(block.cast())
    }

    /// Takes a block in, or answers the oldest one with its size where there is no room yet.
    ///
    /// # Safety
    ///
    /// As for [`Stock::keep`].
    unsafe fn offer(&mut self, start: NonNull<u8>, size: usize) -> Option<(NonNull<u8>, usize)> {
        match self.all.older.filter(|_| self.bytes + size > MOST) {
            Some(oldest) => Some((oldest.cast(), self.remove(oldest))),
            None => {
                // SAFETY: as the caller's promise.
                unsafe { self.keep(start, size) };
                None
            }
        }
    }

    /// Takes a block of the stock out of it and answers its size.
    fn remove(&mut self, block: NonNull<Block>) -> usize {
        // SAFETY: what the lists hold are blocks that nobody else has, each with what `keep` wrote.
        unsafe {
            let size = block.as_ref().size;
            self.sizes[place(size)].remove(block, |block| &mut block.alike);
            self.all.remove(block, |block| &mut block.all);
            self.bytes -= size;
            size
        }
    }

    /// Takes a block in.
    ///
    /// # Safety
    ///
    /// It is one of `size` bytes that nobody uses any more.
    unsafe fn keep(&mut self, start: NonNull<u8>, size: usize) {
        let block = start.cast::<Block>();
        // SAFETY: it has room for this and starts at a line; nobody else has it, as the lists' blocks.
        unsafe {
            block.write(Block { size, alike: Ends::NONE, all: Ends::NONE });
            self.sizes[place(size)].add(block, |block| &mut block.alike);
            self.all.add(block, |block| &mut block.all);
        }
        self.bytes += size;
    }
}

impl Ends {
    const NONE: Self = Self { older: None, newer: None };

    /// Adds the newest block of a list.
    ///
    /// # Safety
    ///
    /// The block and those of the list are there, and nobody else has them.
    unsafe fn add(&mut self, mut block: NonNull<Block>, side: Side) {
        let before = self.newer.replace(block);
        // SAFETY: as the caller's promise.
        unsafe {
            *side(block.as_mut()) = Self { older: before, newer: None };
            match before {
                Some(mut before) => side(before.as_mut()).newer = Some(block),
                None => self.older = Some(block),
            }
        }
    }

    /// Takes a block out of a list.
    ///
    /// # Safety
    ///
    /// As for [`Ends::add`]; the block is in the list.
    unsafe fn remove(&mut self, mut block: NonNull<Block>, side: Side) {
        // SAFETY: as the caller's promise.
        unsafe {
            let Self { older, newer } = *side(block.as_mut());
            match older {
                Some(mut older) => side(older.as_mut()).newer = newer,
                None => self.older = newer,
            }
            match newer {
                Some(mut newer) => side(newer.as_mut()).older = older,
                None => self.newer = older,
            }
        }
    }
}

/// The place of a block's size among all sizes.
const fn place(size: usize) -> usize {
    let power = size.next_power_of_two();
    let octave = (power / SMALLEST).ilog2() as usize;
    // Eight to sixteen sixteenths of the power, the first of which is the power before.
    octave * STEPS + size / (power / (2 * STEPS)) - STEPS - 1
}

/// The size and alignment of a kept block.
const fn shape(size: usize) -> (usize, usize) {
    (size, if size < 2 * PAGE { LINE } else { PAGE })
}

/// A block from the system.
///
/// # Safety
///
/// As for [`GlobalAlloc::alloc`].
unsafe fn fresh(layout: Layout) -> *mut u8 {
    // SAFETY: as the caller's promise.
    let start = unsafe { System.alloc(layout) };
    #[cfg(target_os = "linux")]
    if layout.align() == PAGE && !start.is_null() {
        use rustix::mm::{Advice, madvise};
        // SAFETY: the memory is ours, and the advice does not change what it holds. Small pages serve too.
        let _ = unsafe { madvise(start.cast(), layout.size(), Advice::LinuxHugepage) };
    }
    start
}

/// The layout that a large block really has: sizes are rounded up, so that a block serves more than one; `None` for those
/// that the system handles alone.
fn kept_layout(layout: Layout) -> Option<Layout> {
    if layout.size() < SMALLEST || layout.size() > MOST || layout.align() > LINE {
        return None;
    }
    let step = layout.size().next_power_of_two() / (2 * STEPS);
    let (size, align) = shape(layout.size().next_multiple_of(step));
    Layout::from_size_align(size, align).ok()
}

// SAFETY: blocks come from the system, with at least the size and alignment asked for, and go back to it with the layout
// they came with, which depends on the asked layout alone.
unsafe impl GlobalAlloc for Stocked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(layout) = kept_layout(layout) else {
            // SAFETY: as the caller's promise.
            return unsafe { System.alloc(layout) };
        };
        let kept = self.stock().take(layout.size());
        // SAFETY: as the caller's promise for the layout asked for, which `kept_layout` only makes larger.
        kept.map_or_else(|| unsafe { fresh(layout) }, NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the block came from the system with this layout.
        let free = |start: *mut u8, layout: Layout| unsafe { System.dealloc(start, layout) };
        let (Some(layout), Some(block)) = (kept_layout(layout), NonNull::new(start)) else {
            if (COUNTED..SMALLEST).contains(&layout.size()) {
                trim::freed(layout.size());
            }
            return free(start, layout);
        };
        // SAFETY: the caller gives it back, and it is of the size that `alloc` made it.
        let offer = || unsafe { self.stock().offer(block, layout.size()) };
        while let Some((oldest, size)) = offer() {
            let (size, align) = shape(size);
            // SAFETY: `size` is the size of a layout that `kept_layout` made.
            free(oldest.as_ptr(), unsafe { Layout::from_size_align_unchecked(size, align) });
            trim::freed(size);
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if kept_layout(layout).is_none() {
            // SAFETY: as the caller's promise.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: as the caller's promise; the block has room for `layout`.
        unsafe {
            let start = self.alloc(layout);
            if !start.is_null() {
                start.write_bytes(0, layout.size());
            }
            start
        }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
        // SAFETY: as the caller's promise; a block that the system handles alone before and after goes to it, one whose
        // real layout stays is left where it is, others move.
        unsafe {
            match (kept_layout(layout), kept_layout(wanted)) {
                (None, None) => System.realloc(start, layout, size),
                (Some(have), Some(want)) if have == want => start,
                _ => {
                    let to = self.alloc(wanted);
                    if !to.is_null() {
                        to.copy_from_nonoverlapping(start, layout.size().min(size));
                        self.dealloc(start, layout);
                    }
                    to
                }
            }
        }
    }
}
