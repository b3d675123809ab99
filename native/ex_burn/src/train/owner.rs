//! The process that a run talks to.

use ex_burn_engine::train::{Event, Observer};
use rustler::env::SavedTerm;
use rustler::{Encoder, LocalPid, OwnedEnv, Term};

use super::term::EventTerm;

rustler::atoms! { ex_burn_train }

/// The owner of a run, as the run's thread sees it.
pub(super) struct Owner {
    pid: LocalPid,
    home: OwnedEnv,
    tag: SavedTerm,
}

impl Owner {
    pub(super) fn new(pid: LocalPid, tag: Term<'_>) -> Self {
        let home = OwnedEnv::new();
        let tag = home.save(tag);
        Self { pid, home, tag }
    }
}

impl Observer for Owner {
    fn event(&mut self, event: Event) {
        let event = EventTerm::from(event);
        let message = |env| {
            let tag = self.home.run(|home| self.tag.load(home).in_env(env));
            (ex_burn_train(), tag, event).encode(env)
        };
        // A message to a dead owner is lost; its monitor stops the run.
        let _ = OwnedEnv::new().send_and_clear(&self.pid, message);
    }
}
