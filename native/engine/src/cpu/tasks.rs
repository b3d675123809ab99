//! Work for the thread pool.

use rayon::prelude::*;

/// Runs `task` on each numbered part of `length` elements, on the calling thread when there is one part.
///
/// The task is not a type parameter: the code of the thread pool is large and there are many tasks.
pub(super) fn in_parts<T: Send>(elements: &mut [T], length: usize, task: &(dyn Fn(usize, &mut [T]) + Sync)) {
    if elements.len() <= length {
        task(0, elements);
    } else {
        elements.par_chunks_mut(length.max(1)).enumerate().for_each(|(number, part)| task(number, part));
    }
}
