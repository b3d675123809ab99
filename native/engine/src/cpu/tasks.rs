//! Work for all cores.

use parking_lot::Mutex;

/// Results that one task computes; smaller outputs stay on the calling thread.
pub(super) const CHUNK: usize = 64 * 1024;

/// Runs `task` on each numbered part of `size` elements, on all cores when there are several parts.
///
/// The calling thread works too, so it does not wait for others to wake. The task is not a type parameter: there are many
/// tasks.
pub(super) fn chunks<T: Send>(all: &mut [T], size: usize, task: &(dyn Fn(usize, &mut [T]) + Sync)) {
    if all.len() <= size {
        return task(0, all);
    }
    let helpers = all.len().div_ceil(size.max(1)).min(rayon::current_num_threads()) - 1;
    let parts = Mutex::new(all.chunks_mut(size.max(1)).enumerate());
    let next = || parts.lock().next();
    let work = || {
        while let Some((number, part)) = next() {
            task(number, part);
        }
    };
    rayon::in_place_scope(|scope| {
        (0..helpers).for_each(|_| scope.spawn(|_| work()));
        work();
    });
}
