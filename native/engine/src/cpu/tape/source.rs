//! Operands of a region.

use crate::cpu::memory;
use crate::cpu::nest::Nest;
use crate::cpu::stored::{Stored, for_width};
use crate::error::Result;
use crate::types::Type;
use crate::value::Value;

/// The elements of a plain value in row-major order, a block at a time.
pub(super) struct Source<'a> {
    bytes: &'a [u8],
    nest: Nest<1>,
    /// Bytes of an element.
    size: usize,
    len: usize,
}

impl<'a> Source<'a> {
    pub(super) fn new(value: &'a Value, dtype: Type) -> Result<Self> {
        let tensor = memory(value)?;
        let nest = Nest::new([tensor.layout()]);
        Ok(Self { bytes: tensor.bytes(), nest, size: dtype.size(), len: value.len() })
    }

    /// The bytes of the `len` elements from number `first` on, copied to `buffer`, which has place for them, where they
    /// are no neighbours.
    pub(super) fn read(&self, first: usize, len: usize, buffer: *mut u8) -> *const u8 {
        if let Some([at]) = self.nest.neighbours(first, len) {
            return self.bytes[at * self.size..][..len * self.size].as_ptr();
        }
        for_width!(self.size, T => {
            // SAFETY: the buffer is aligned for any element, and the caller sees to its length.
            let places = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<T>(), len) };
            self.copy(first, places);
        });
        buffer
    }

    /// How many elements there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The place of element number `at`, where its neighbours lie beside it.
    pub(super) fn start(&self, at: usize) -> Option<*const u8> {
        let [first] = self.nest.neighbours(at, 1)?;
        self.bytes.get(first * self.size..).map(<[u8]>::as_ptr)
    }

    /// Copies the elements from number `first` on.
    pub(super) fn copy<T: Stored>(&self, first: usize, places: &mut [T]) {
        let elements: &[T] = bytemuck::cast_slice(self.bytes);
        let [step] = self.nest.step();
        self.nest.visit(first..first + places.len(), &mut |at, count, [from]| {
            let places = &mut places[at - first..][..count];
            match step {
                1 => places.copy_from_slice(&elements[from..from + count]),
                0 => places.fill(elements[from]),
                _ => places
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, place)| *place = elements[from.wrapping_add_signed(step * i as isize)]),
            }
        });
    }
}

/// Fills a buffer with `count` times an element, given by its bytes.
pub(super) fn fill(element: &[u8], buffer: *mut u8, count: usize) {
    for_width!(element.len(), T => {
        // SAFETY: the buffer is aligned for any element, and the caller sees to its length.
        let places = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<T>(), count) };
        places.fill(bytemuck::pod_read_unaligned(element));
    });
}

/// Repeats each element `times` times.
pub(super) fn spread(elements: &[u8], size: usize, times: usize, out: *mut u8) {
    for_width!(size, T => {
        let elements: &[T] = bytemuck::cast_slice(elements);
        // SAFETY: the caller's buffer is aligned and has place for so many elements.
        let places = unsafe { std::slice::from_raw_parts_mut(out.cast::<T>(), elements.len() * times) };
        places.chunks_exact_mut(times).zip(elements).for_each(|(row, &x)| row.fill(x));
    });
}
