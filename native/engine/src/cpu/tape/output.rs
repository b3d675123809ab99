//! Memory for the results of a region.

use crate::cpu::block::{is_own, own};
use crate::cpu::{Number, for_number, value};
use crate::error::Result;
use crate::types::Type;
use crate::value::Value;

/// Memory for the elements of one result, which many threads write to.
pub(super) struct Output {
    memory: Box<dyn Memory>,
    start: *mut u8,
    /// Bytes of an element.
    pub(super) size: usize,
}

// SAFETY: threads write to parts of the memory that do not overlap, and nobody reads it before all have ended.
unsafe impl Sync for Output {}

/// Memory that becomes a value.
trait Memory {
    fn start(&mut self) -> *mut u8;

    /// The value of `shape` once all elements are written.
    fn finish(self: Box<Self>, shape: &[usize]) -> Value;
}

/// New memory: no element of the vector counts as written yet.
struct Fresh<T>(Vec<T>, usize);

impl<T: Number> Memory for Fresh<T> {
    fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    fn finish(mut self: Box<Self>, shape: &[usize]) -> Value {
        // SAFETY: the steps of a tape have written each element.
        unsafe { self.0.set_len(self.1) };
        value(shape, self.0)
    }
}

/// The memory of an operand that nobody else holds.
struct Reused(Value);

impl Memory for Reused {
    fn start(&mut self) -> *mut u8 {
        let dtype = self.0.dtype();
        let start: Result<*mut u8> = for_number!(dtype, T => {
            Ok(own::<T>(&mut self.0).map_or(std::ptr::null_mut(), |elements| elements.as_mut_ptr().cast()))
        });
        start.unwrap_or(std::ptr::null_mut())
    }

    fn finish(self: Box<Self>, shape: &[usize]) -> Value {
        self.0.reshape(shape)
    }
}

impl Output {
    /// New memory for `len` elements.
    pub(super) fn fresh(dtype: Type, len: usize) -> Result<Self> {
        for_number!(dtype, T => Ok(Self::over(Box::new(Fresh(Vec::<T>::with_capacity(len), len)), dtype)))
    }

    /// The memory of `value`, for which [`is_reusable`] holds.
    pub(super) fn reused(value: Value) -> Self {
        let dtype = value.dtype();
        Self::over(Box::new(Reused(value)), dtype)
    }

    fn over(mut memory: Box<dyn Memory>, dtype: Type) -> Self {
        let start = memory.start();
        Self { memory, start, size: dtype.size() }
    }

    /// The place of element number `at`.
    pub(super) fn place(&self, at: usize) -> *mut u8 {
        self.start.wrapping_add(at * self.size)
    }

    /// The value, once all is written.
    pub(super) fn finish(self, shape: &[usize]) -> Value {
        self.memory.finish(shape)
    }
}

/// Whether results can be written over the elements of a value.
pub(super) fn is_reusable(value: &Value) -> bool {
    let own: Result<bool> = for_number!(value.dtype(), T => Ok(is_own::<T>(value)));
    own.unwrap_or(false)
}
