//! Work for all cores.

use std::thread;

use parking_lot::Mutex;

use super::crew::{alone, share, threads};

/// Results that one task computes; smaller outputs stay on the calling thread.
pub(super) const CHUNK: usize = 64 * 1024;

/// Runs `task` on each numbered part of `size` elements, on all cores when there are several parts.
///
/// The caller begins with the first part, helpers with the last: so a core is likely to get the parts that it had in the last
/// operation on a tensor, which its cache may still hold.
///
/// The task is not a type parameter: there are many tasks.
pub(crate) fn chunks<T: Send>(all: &mut [T], size: usize, task: &(dyn Fn(usize, &mut [T]) + Sync)) {
    if all.len() <= size {
        return task(0, all);
    }
    let helpers = all.len().div_ceil(size.max(1)).min(threads()) - 1;
    let parts = Mutex::new(all.chunks_mut(size.max(1)).enumerate());
    let caller = thread::current().id();
    let next = || {
        let mut parts = parts.lock();
        if thread::current().id() == caller { parts.next() } else { parts.next_back() }
    };
    share(helpers, &|| {
        while let Some((number, part)) = next() {
            task(number, part);
        }
    });
}

/// Runs `task` on each of `all`, each on one core with all that is done for it.
pub(crate) fn apart<T: Send>(all: &mut [T], task: &(dyn Fn(usize, &mut T) + Sync)) {
    chunks(all, 1, &|number, part| alone(|| part.iter_mut().for_each(|part| task(number, part))));
}
