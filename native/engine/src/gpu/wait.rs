//! Waiting for a GPU.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{RwLock, RwLockWriteGuard};

use super::Adapter;

/// Most small work is done by then; a thread that sleeps takes a good part of that to wake up.
pub(super) const SOON: Duration = Duration::from_micros(300);

/// Held by those who wait together, and by who wants nobody to wait.
static WAITING: RwLock<()> = RwLock::new(());

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Nobody waits for a GPU while this is there, but in [`alone`].
pub(super) fn hold() -> RwLockWriteGuard<'static, ()> {
    WAITING.write()
}

/// Runs `body` on a thread that works for who holds all others from waiting.
pub(super) fn alone<T>(body: impl FnOnce() -> T) -> T {
    let before = ALONE.replace(true);
    let result = body();
    ALONE.set(before);
    result
}

/// The result of what was asked of the GPU. A thread looks for it again and again before it sleeps, unless the GPU is the
/// processor, which has better things to do.
pub(super) fn wait<T>(mut asked: Pin<Box<impl Future<Output = T> + ?Sized>>, adapter: Adapter) -> T {
    let _together = (!ALONE.get()).then(|| WAITING.read());
    let mut context = Context::from_waker(Waker::noop());
    let start = Instant::now();
    while !adapter.is_software() && start.elapsed() < SOON {
        adapter.look();
        if let Poll::Ready(result) = asked.as_mut().poll(&mut context) {
            return result;
        }
        std::hint::spin_loop();
    }
    burn_std::future::block_on(asked)
}
