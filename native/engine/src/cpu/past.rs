//! Results written past the caches: so large that they would be gone from there before anyone reads them. An ordinary
//! write reads the line first that it fills, a third more of what passes between a core and memory in a sum of two tensors.

use std::mem::MaybeUninit;

/// Bytes of a result from which on it is written past the caches.
const LARGE: usize = 8 << 20;

/// Whether a result of so many bytes is written past the caches.
pub(super) fn is_large(bytes: usize) -> bool {
    cfg!(target_arch = "x86_64") && bytes >= LARGE
}

/// Blocks of one result, for one thread.
pub(super) struct Past<R> {
    /// Where a block is computed; without places where results are written as they are computed.
    block: Vec<MaybeUninit<R>>,
}

impl<R: Copy> Past<R> {
    /// For blocks of up to `block` elements of a result of `len`.
    pub(super) fn new(len: usize, block: usize) -> Self {
        let block = if is_large(len.saturating_mul(size_of::<R>())) { block } else { 0 };
        Self { block: vec![MaybeUninit::uninit(); block] }
    }

    /// Has `fill` compute the elements of `out`, each of which it writes.
    #[inline]
    pub(super) fn write(&mut self, out: &mut [MaybeUninit<R>], fill: impl FnOnce(&mut [MaybeUninit<R>])) {
        match self.block.get_mut(..out.len()) {
            Some(block) if !out.is_empty() => {
                fill(block);
                copy(block, out);
            }
            _ => fill(out),
        }
    }
}

impl<R> Drop for Past<R> {
    fn drop(&mut self) {
        if !self.block.is_empty() {
            publish();
        }
    }
}

/// Lets other threads read what has been written past the caches; the thread that wrote calls it.
pub(super) fn publish() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction only waits.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Copies all elements.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn copy<R: Copy>(from: &[MaybeUninit<R>], to: &mut [MaybeUninit<R>]) {
    to.copy_from_slice(from);
}

/// Copies all elements, past the caches but for a few at the ends; [`publish`] comes after the last.
#[cfg(target_arch = "x86_64")]
pub(super) fn copy<R: Copy>(from: &[MaybeUninit<R>], to: &mut [MaybeUninit<R>]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    let size = size_of::<R>();
    let before = (to.as_ptr().align_offset(16)).min(to.len());
    let lines = (to.len() - before) * size / 16;
    let after = before + lines * 16 / size;
    to[..before].copy_from_slice(&from[..before]);
    let (source, target) = (from[before..].as_ptr().cast::<__m128i>(), to[before..].as_mut_ptr().cast::<__m128i>());
    for line in 0..lines {
        // SAFETY: both slices hold so many lines from here on, and those of `to` begin at multiples of 16 bytes.
        unsafe { _mm_stream_si128(target.add(line), _mm_loadu_si128(source.add(line))) };
    }
    to[after..].copy_from_slice(&from[after..]);
}
