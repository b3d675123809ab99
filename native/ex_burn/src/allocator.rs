//! The allocator of the native library: the system's, with a small stock of large blocks that were given back.
//!
//! Results of operations come and go. A large block that goes back to the system leaves the address space, and the next
//! one costs a fault for each of its pages, which takes longer than to fill it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of the smallest block that is kept.
const SMALLEST: usize = 16 << 10;

/// Most bytes that are kept; larger blocks go back at once.
const MOST: usize = 64 << 20;

/// Most blocks that are kept. A step of training has several hundred small ones, which must not drive out the large ones: these are
/// what takes long to get anew.
const SLOTS: usize = 1024;

/// Large blocks start at a line of the cache, so that no vector lies across two.
const LINE: usize = 64;

/// From twice this size on, blocks start at a large page of memory and have such pages where the system offers them:
/// there are fewer of them to set up and to find again.
const PAGE: usize = 2 << 20;

/// The system's allocator with a stock of large blocks.
pub(crate) struct Stocked(Mutex<Stock>);

/// Kept blocks, the latest last.
struct Stock {
    blocks: [Option<Block>; SLOTS],
    count: usize,
    bytes: usize,
}

#[derive(Clone, Copy)]
struct Block {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: a block in the stock belongs to nobody else.
unsafe impl Send for Block {}

impl Stocked {
    /// With nothing kept.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Stock { blocks: [None; SLOTS], count: 0, bytes: 0 }))
    }

    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stock {
    /// The block of `size` bytes that was kept last.
    fn take(&mut self, size: usize) -> Option<Block> {
        let at = (0..self.count).rev().find(|&i| self.blocks[i].is_some_and(|block| block.size == size))?;
        self.remove(at)
    }

    /// The oldest block, when there is no room for one of `size` bytes more.
    fn surplus(&mut self, size: usize) -> Option<Block> {
        if self.count < SLOTS && self.bytes + size <= MOST { None } else { self.remove(0) }
    }

    fn remove(&mut self, at: usize) -> Option<Block> {
        let block = self.blocks[at].take()?;
        self.blocks[at..self.count].rotate_left(1);
        self.count -= 1;
        self.bytes -= block.size;
        Some(block)
    }

    fn keep(&mut self, block: Block) {
        self.blocks[self.count] = Some(block);
        self.count += 1;
        self.bytes += block.size;
    }
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
    let step = layout.size().next_power_of_two() / 16;
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
        kept.map_or_else(|| unsafe { fresh(layout) }, |block| block.start.as_ptr())
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the block came from the system with this layout.
        let free = |start: *mut u8, layout: Layout| unsafe { System.dealloc(start, layout) };
        let (Some(layout), Some(block)) = (kept_layout(layout), NonNull::new(start)) else {
            return free(start, layout);
        };
        let mut stock = self.stock();
        while let Some(block) = stock.surplus(layout.size()) {
            let (size, align) = shape(block.size);
            // SAFETY: `block.size` is the size of a layout that `kept_layout` made.
            free(block.start.as_ptr(), unsafe { Layout::from_size_align_unchecked(size, align) });
        }
        stock.keep(Block { start: block, size: layout.size() });
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
