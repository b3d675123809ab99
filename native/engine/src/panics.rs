//! Turns panics into errors.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::error::{Error, Result};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

static QUIET: Once = Once::new();

/// Runs `body`; a panic inside becomes [`Error::Panic`] with its message, named after `op`.
///
/// ```
/// use ex_burn_engine::{Error, panics::catch};
///
/// let error = catch::<()>("dot", || panic!("no such axis"));
/// assert_eq!(error, Err(Error::Panic { op: "dot".into(), message: "no such axis".into() }));
/// ```
///
/// # Errors
///
/// As `body` says, the [`Error`] that it panics with, and [`Error::Panic`].
pub fn catch<T>(op: &(impl ToString + ?Sized), body: impl FnOnce() -> Result<T>) -> Result<T> {
    QUIET.call_once(silence_guarded_panics);
    let outer = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(body));
    GUARDED.set(outer);
    result.unwrap_or_else(|payload| Err(panic_error(op, payload)))
}

/// A caught panic is reported as an error, so it need not be printed as well.
fn silence_guarded_panics() {
    let print = take_hook();
    set_hook(Box::new(move |info| {
        if !GUARDED.get() {
            print(info);
        }
    }));
}

/// Code that Burn calls back has no other way to give up than to panic with an error of ours.
fn panic_error(op: &(impl ToString + ?Sized), payload: Box<dyn Any + Send>) -> Error {
    match payload.downcast::<Error>() {
        Ok(error) => *error,
        Err(payload) => Error::Panic { op: op.to_string(), message: panic_message(payload.as_ref()) },
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_string())
}
