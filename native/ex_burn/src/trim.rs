//! Memory that the system's allocator keeps between blocks goes back to the system.
//!
//! The C library gives back what lies at the end of a heap: one block in use there, or one that is kept for the next operation,
//! holds all that was freed before it. A thread of its own asks for the rest, since that may take milliseconds.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

/// Bytes that are freed before it is worth to ask.
const WORTH: usize = 64 << 20;

/// From the first such bytes until they are asked for: most of what is freed together is by then.
const PAUSE: Duration = Duration::from_secs(1);

/// Bytes freed since it was asked for last.
static FREED: AtomicUsize = AtomicUsize::new(0);

static THREAD: OnceLock<Thread> = OnceLock::new();

/// Starts the thread, once, however often the library is loaded.
pub(crate) fn start() {
    if THREAD.get().is_some() || cfg!(not(all(target_os = "linux", target_env = "gnu"))) {
        return;
    }
    // Without a thread all goes on, with more memory.
    if let Ok(handle) = thread::Builder::new().name("ex_burn trim".into()).stack_size(64 << 10).spawn(serve) {
        let _ = THREAD.set(handle.thread().clone());
    }
}

/// Takes note that so many bytes went back to the C library.
pub(crate) fn freed(bytes: usize) {
    if FREED.fetch_add(bytes, Ordering::Relaxed) + bytes >= WORTH
        && let Some(thread) = THREAD.get()
    {
        thread.unpark();
    }
}

fn serve() {
    loop {
        thread::park();
        thread::sleep(PAUSE);
        FREED.store(0, Ordering::Relaxed);
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        {
            unsafe extern "C" {
                fn malloc_trim(pad: usize) -> std::ffi::c_int;
            }
            // SAFETY: it touches free memory alone, and may be called at any time.
            unsafe { malloc_trim(0) };
        }
    }
}
