//! How long the runs of a program take: those that end soon need no dirty scheduler, the way to which and back takes longer
//! than many of them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ex_burn_engine::program::{Op, Program};

/// The longest run that ends soon: three quarters of what the VM allows, because a run may be the first slow one.
const SOON: Duration = Duration::from_micros(750);

/// What the VM allows a function on its schedulers.
const ALLOWED: Duration = Duration::from_millis(1);

/// How many more of the latest runs must have ended soon than not before the next is taken to.
const SURE: u32 = 8;

/// How many are counted at most. On a busy machine a run now and then is late, after which the next are as quick as ever.
const MOST: u32 = 2 * SURE;

/// Runs that a late one outweighs.
const LATE: u32 = 2;

/// What is known of the runs of a program.
pub(crate) struct Pace {
    /// Whether a run takes about as long as the one before it, whatever the operands hold.
    steady: bool,
    /// How many more of the latest runs ended soon than late, from none to [`MOST`].
    soon: AtomicU32,
}

impl Pace {
    pub(crate) fn of(program: &Program) -> Self {
        Self { steady: is_steady(program), soon: AtomicU32::new(0) }
    }

    /// Whether the next run will end soon, as far as the latest tell.
    pub(crate) fn is_brief(&self) -> bool {
        self.steady && self.soon.load(Ordering::Relaxed) >= SURE
    }

    /// Does what `run` does and remembers how long it took.
    pub(crate) fn timed<T>(&self, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        self.took(start.elapsed());
        result
    }

    fn took(&self, time: Duration) {
        let soon = self.soon.load(Ordering::Relaxed);
        let now = match time {
            _ if time <= SOON => (soon + 1).min(MOST),
            _ if time <= ALLOWED => soon.saturating_sub(LATE),
            _ => soon.saturating_sub(SURE),
        };
        // Runs at the same time may forget one another, which does no harm. Most change nothing, and write nothing.
        if now != soon {
            self.soon.store(now, Ordering::Relaxed);
        }
    }
}

/// Loops, branches and the host's functions take as long as the operands say.
fn is_steady(program: &Program) -> bool {
    program.instructions.iter().all(|instruction| {
        !matches!(instruction.op, Op::While(_) | Op::Cond(_) | Op::Hook(_) | Op::RuntimeCall(_))
            && instruction.op.nested().into_iter().all(is_steady)
    })
}
