//! Threads that help with a loop.
//!
//! A loop over a million elements takes as long as a sleeping thread takes to wake. So helpers stay awake for a moment
//! after each loop, and nobody waits for a helper that has not begun: the caller does all that is left and closes the job.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{hint, thread};

use parking_lot::{Condvar, Mutex};

/// How long a helper looks for the next job before it sleeps.
const AWAKE: Duration = Duration::from_micros(200);

/// Looks between two glances at the clock.
const LOOKS: usize = 256;

/// Jobs at one time; callers beyond them work alone.
const SLOTS: usize = 8;

const FREE: usize = 0;

/// A caller prepares or ends the job.
const TAKEN: usize = 1;

/// Helpers may begin. The number of those at work is in the bits above, in steps of [`HELPER`].
const OPEN: usize = 2;

const HELPER: usize = 4;

/// What all take part in: each call works until nothing is left.
type Work<'a> = &'a (dyn Fn() + Sync);

/// Runs `work` on this thread and on up to `helpers` more, those that are awake in time.
///
/// Returns when this thread's call has returned and so have all that began. A panic of one of them is passed on.
pub(super) fn share(helpers: usize, work: Work<'_>) {
    if helpers == 0 || ALONE.get() {
        return work();
    }
    let crew = CREW.get_or_init(Crew::start);
    match crew.slots.iter().find(|slot| slot.take()) {
        Some(slot) => slot.run(crew, helpers, work),
        None => work(),
    }
}

thread_local! {
    /// Whether this thread works on a part of something larger that keeps all others busy.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, whose loops stay on this thread.
pub(super) fn alone<T>(work: impl FnOnce() -> T) -> T {
    let _restore = Restore(ALONE.replace(true));
    work()
}

/// Says again what an outer call has said, after a panic too.
struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        ALONE.set(self.0);
    }
}

pub(super) use crate::device::threads;

static CREW: OnceLock<&'static Crew> = OnceLock::new();

struct Crew {
    slots: [Slot; SLOTS],
    /// Grows with each job, so that those who look need to look in one place only.
    jobs: AtomicUsize,
    sleepers: AtomicUsize,
    bed: Mutex<()>,
    bell: Condvar,
}

struct Slot {
    state: AtomicUsize,
    helpers: AtomicUsize,
    work: UnsafeCell<Option<Work<'static>>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `work` is written by the caller that took the slot, before it opens the job, and read by helpers between the
// moment they entered an open job and the moment they leave it, for which the caller waits before it writes again.
unsafe impl Sync for Slot {}

impl Crew {
    fn start() -> &'static Self {
        let crew: &'static Self = Box::leak(Box::new(Self {
            slots: std::array::from_fn(|_| Slot {
                state: AtomicUsize::new(FREE),
                helpers: AtomicUsize::new(0),
                work: UnsafeCell::new(None),
                panic: Mutex::new(None),
            }),
            jobs: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            bed: Mutex::new(()),
            bell: Condvar::new(),
        }));
        for number in 1..threads() {
            // Without a thread more there is less help.
            let _ = thread::Builder::new().name(format!("ex_burn {number}")).spawn(|| crew.serve());
        }
        crew
    }

    fn serve(&self) {
        loop {
            let seen = self.jobs.load(Ordering::SeqCst);
            self.slots.iter().for_each(Slot::help);
            if !self.watch(seen) {
                self.sleep(seen);
            }
        }
    }

    /// Whether another job came in a short while.
    fn watch(&self, seen: usize) -> bool {
        let until = Instant::now() + AWAKE;
        loop {
            for _ in 0..LOOKS {
                if self.jobs.load(Ordering::Relaxed) != seen {
                    return true;
                }
                hint::spin_loop();
            }
            if Instant::now() > until {
                return false;
            }
            // Others may need the core.
            thread::yield_now();
        }
    }

    fn sleep(&self, seen: usize) {
        let mut bed = self.bed.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        // A caller that adds a job after this look sees the sleeper and rings.
        if self.jobs.load(Ordering::SeqCst) == seen {
            self.bell.wait(&mut bed);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn call(&self) {
        self.jobs.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.bed.lock());
            self.bell.notify_all();
        }
    }
}

impl Slot {
    fn take(&self) -> bool {
        self.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Runs `work` with helpers in this slot, which the caller has taken.
    fn run(&self, crew: &Crew, helpers: usize, work: Work<'_>) {
        // SAFETY: the slot is taken and not open, so nobody else reads or writes `work`. The longer lifetime is a lie that
        // nobody notices: `work` is used by helpers inside of the open job only, and `end` waits until they have left.
        unsafe { *self.work.get() = Some(std::mem::transmute::<Work<'_>, Work<'static>>(work)) };
        self.helpers.store(helpers, Ordering::Relaxed);
        self.state.store(TAKEN | OPEN, Ordering::Release);
        crew.call();
        let result = catch_unwind(AssertUnwindSafe(work));
        let panic = self.end();
        if let Some(panic) = result.err().or(panic) {
            resume_unwind(panic);
        }
    }

    /// Closes the job, waits for those at work and frees the slot; answers the panic of one of them.
    fn end(&self) -> Option<Box<dyn Any + Send>> {
        self.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut looks = 0;
        while self.state.load(Ordering::Acquire) != TAKEN {
            hint::spin_loop();
            looks += 1;
            if looks % LOOKS == 0 {
                thread::yield_now();
            }
        }
        let panic = self.panic.lock().take();
        self.state.store(FREE, Ordering::Release);
        panic
    }

    /// Works in this slot's job, when it is open and wants help.
    fn help(&self) {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & OPEN == 0 || state / HELPER >= self.helpers.load(Ordering::Relaxed) {
                return;
            }
            match self.state.compare_exchange_weak(state, state + HELPER, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        // SAFETY: this thread has entered an open job, whose caller wrote `work` before.
        let work = unsafe { *self.work.get() };
        if let Some(Err(panic)) = work.map(|work| catch_unwind(AssertUnwindSafe(work))) {
            *self.panic.lock() = Some(panic);
        }
        self.state.fetch_sub(HELPER, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts to `count` on several threads.
    fn count_to(count: usize) -> usize {
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        share(3, &|| {
            while next.fetch_add(1, Ordering::Relaxed) < count {
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        done.into_inner()
    }

    #[test]
    fn each_part_is_done_once_whoever_comes_to_help() {
        for count in [0, 1, 2, 10, 1000, 100_000] {
            assert_eq!(count_to(count), count);
        }
    }

    #[test]
    fn many_callers_share_and_call_again_inside() {
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let total = AtomicUsize::new(0);
                        let next = AtomicUsize::new(0);
                        share(2, &|| {
                            while next.fetch_add(1, Ordering::Relaxed) < 4 {
                                total.fetch_add(count_to(25), Ordering::Relaxed);
                            }
                        });
                        assert_eq!(total.into_inner(), 100);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_threads_go_on() {
        for _ in 0..100 {
            let next = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                share(1, &|| {
                    while next.fetch_add(1, Ordering::Relaxed) < 100 {
                        assert!(next.load(Ordering::Relaxed) < 50, "enough");
                    }
                });
            }));
            assert!(result.is_err());
            assert_eq!(count_to(1000), 1000);
        }
    }

    #[test]
    fn sleepers_wake() {
        for _ in 0..5 {
            thread::sleep(3 * AWAKE);
            assert_eq!(count_to(10_000), 10_000);
        }
    }
}
