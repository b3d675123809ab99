//! Blocks of elements, for kernels that are one loop over slices.

use std::mem::MaybeUninit;

use bytemuck::Pod;

use super::nest::Nest;
use super::tasks::{CHUNK, chunks};
use super::{Cell, Number, View};
use crate::value::Value;

/// Elements that a kernel gets at once: they stay in the processor's first cache.
pub(super) const BLOCK: usize = 2048;

/// Fewest elements that are worth a loop.
pub(crate) const LONG: usize = 256;

/// A tensor's elements in row-major order, a block at a time.
pub(super) struct Blocks<'a, T> {
    elements: &'a [T],
    nest: Nest<1>,
}

impl<'a, T: Cell> Blocks<'a, T> {
    pub(super) fn new(view: &'a View<'_, T>) -> Self {
        Self { elements: view, nest: Nest::new([view.layout()]) }
    }

    /// The `len` elements from number `first` on, copied to `buffer` when they are no neighbours.
    pub(super) fn read<'b>(&'b self, first: usize, len: usize, buffer: &'b mut Vec<T>) -> &'b [T] {
        if let Some([at]) = self.nest.neighbours(first, len) {
            return &self.elements[at..at + len];
        }
        let [step] = self.nest.step();
        buffer.clear();
        self.nest.visit(first..first + len, &mut |_, count, [at]| match step {
            1 => buffer.extend_from_slice(&self.elements[at..at + count]),
            0 => buffer.resize(buffer.len() + count, self.elements[at]),
            _ => buffer.extend((0..count).map(|i| self.elements[(at as isize + step * i as isize) as usize])),
        });
        buffer
    }

    /// The length of rows that are one element, repeated, where they are long enough for loops of their own.
    pub(super) fn repeated(&self) -> Option<usize> {
        (self.nest.step() == [0] && self.nest.row() >= LONG).then(|| self.nest.row())
    }

    /// Element number `at` alone.
    pub(super) fn one(&self, at: usize) -> &[T] {
        std::slice::from_ref(&self.elements[self.nest.at(at)[0]])
    }
}

/// `len` elements, which `fill` writes in parts, given the number of a part's first element.
pub(super) fn build<R: Copy + Send>(len: usize, fill: &(dyn Fn(usize, &mut [MaybeUninit<R>]) + Sync)) -> Vec<R> {
    let size = CHUNK.max(len / 8);
    build_parts(len, size, &|i, part| fill(i * size, part))
}

/// `len` elements, which `fill` writes in parts of `size` elements, given the number of a part; the last may be shorter.
pub(super) fn build_parts<R: Copy + Send>(
    len: usize,
    size: usize,
    fill: &(dyn Fn(usize, &mut [MaybeUninit<R>]) + Sync),
) -> Vec<R> {
    let mut out = Vec::with_capacity(len);
    chunks(&mut out.spare_capacity_mut()[..len], size, fill);
    // SAFETY: `fill` has written each element of each part; all callers, which are in this folder, see to that.
    unsafe { out.set_len(len) };
    out
}

/// `len` zeros, written on all cores: writing fresh memory takes long.
pub(super) fn zeros<R: Pod + Send>(len: usize) -> Vec<R> {
    build_parts(len, CHUNK, &|_, part| part.fill(MaybeUninit::new(R::zeroed())))
}

/// Fresh memory as zeros. A line that fits into the cache is best filled with them just before it is written.
pub(super) fn zeroed<R: Pod + Send>(places: &mut [MaybeUninit<R>]) -> &mut [R] {
    chunks(places, CHUNK, &|_, part| part.fill(MaybeUninit::new(R::zeroed())));
    // SAFETY: every element has been written.
    unsafe { places.assume_init_mut() }
}

/// Writes `elements`, as many as there are places.
pub(super) fn put_all<T: Copy>(places: &mut [MaybeUninit<T>], elements: &[T]) {
    places.write_copy_of_slice(elements);
}

/// Whether the elements of a tensor lie in row-major order in memory which nobody else holds.
pub(super) fn is_own<T: Number>(value: &Value) -> bool {
    value.dtype() == T::TYPE
        && value.is_alone()
        && value.flex().is_some_and(|tensor| {
            tensor.layout().is_contiguous() && tensor.layout().start_offset() == 0 && !value.is_empty()
        })
}

/// The elements of a tensor for which [`is_own`] holds.
pub(super) fn own<T: Number>(value: &mut Value) -> Option<&mut [T]> {
    if !is_own::<T>(value) {
        return None;
    }
    let len = value.len();
    value.flex_mut()?.storage_mut().get_mut(..len)
}

/// Runs a loop with the widest vectors that this processor has; `run` must be `#[inline(always)]`, or is compiled for the
/// narrowest.
#[inline(always)]
pub(crate) fn vectorized<R>(run: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(run)
}
