//! How long the runs of a program take: those that end soon need no dirty scheduler, the way to which and back takes longer
//! than many of them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ex_burn_engine::program::{Op, Program};

/// The longest run that ends soon: half of the millisecond that the VM allows, because a run may be the first slow one.
const SOON: Duration = Duration::from_micros(500);

/// Runs one after the other that have to end soon before the next is taken to.
const SURE: u32 = 8;

/// What is known of the runs of a program.
pub(crate) struct Pace {
    /// Whether a run takes about as long as the one before it, whatever the operands hold.
    steady: bool,
    /// How many of the latest runs ended soon.
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
        if start.elapsed() > SOON {
            self.soon.store(0, Ordering::Relaxed);
        } else if self.soon.load(Ordering::Relaxed) < SURE {
            self.soon.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
}

/// Loops, branches and the host's functions take as long as the operands say.
fn is_steady(program: &Program) -> bool {
    program.instructions.iter().all(|instruction| {
        !matches!(instruction.op, Op::While(_) | Op::Cond(_) | Op::Hook(_) | Op::RuntimeCall(_))
            && instruction.op.nested().into_iter().all(is_steady)
    })
}
