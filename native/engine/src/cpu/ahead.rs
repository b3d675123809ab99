//! Memory that is asked for before it is needed, by loops that compute more than processors foresee.

use std::sync::LazyLock;

/// Bytes that come at once.
pub(super) const LINE: usize = 64;

/// Lines that a processor's first cache waits for at a time; it does nothing else before it may ask for one more.
const LINES: usize = 16;

/// How far ahead lines are asked for: so long do they take.
const AHEAD: usize = 8 << 10;

/// How many elements the lines hold that [`ask`] asks for.
pub(super) const fn strip<T>() -> usize {
    LINES * LINE / size_of::<T>()
}

/// Asks for the memory of a strip of elements some way behind those that start here.
#[inline]
pub(super) fn ask<T>(elements: &[T]) {
    let start = elements.as_ptr().cast::<u8>().wrapping_add(AHEAD);
    (0..LINES).for_each(|line| prefetch(start.wrapping_add(line * LINE)));
}

/// Whether it pays to ask for what the processor's own guess would bring: on AMD's processors, of which a Zen 4 waits less. An
/// Intel one of the fifth generation of Xeons, whose second cache guesses well, loses up to a third by it.
pub(super) fn pays() -> bool {
    static PAYS: LazyLock<bool> = LazyLock::new(is_by_amd);
    *PAYS
}

#[cfg(target_arch = "x86_64")]
fn is_by_amd() -> bool {
    let id = std::arch::x86_64::__cpuid(0);
    [id.ebx, id.edx, id.ecx].map(u32::to_le_bytes).as_flattened() == b"AuthenticAMD"
}

#[cfg(not(target_arch = "x86_64"))]
fn is_by_amd() -> bool {
    false
}

/// Asks for one line. Where a processor has no such instruction it guesses what comes next itself.
#[inline]
pub(super) fn prefetch(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction reads nothing, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
