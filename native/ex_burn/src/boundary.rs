//! What happens where the BEAM and the engine meet: panics stop here.

use ex_burn_engine::Result;
use ex_burn_engine::panics::catch;

use crate::error::NifError;

/// Runs `body`; a panic inside becomes [`Error::Panic`](ex_burn_engine::Error::Panic) with its message, named after `op`.
pub(crate) fn guard<T>(op: &(impl ToString + ?Sized), body: impl FnOnce() -> Result<T>) -> Result<T, NifError> {
    Ok(catch(op, body)?)
}

/// Bytes of stack for programs nested as deep as they may be, several times over. Those never touched take no memory.
const DEEP: usize = 16 << 20;

/// [`guard`] for a `body` that goes down into nested programs: a dirty scheduler's stack holds twenty of them. Drivers that are
/// loaded and started reckon with the stack of an ordinary thread, too.
pub(crate) fn guard_deep<T>(op: &str, body: impl FnOnce() -> Result<T>) -> Result<T, NifError> {
    stacker::grow(DEEP, || guard(op, body))
}

/// Panics with `message`, so that a test can see what becomes of it.
#[rustler::nif]
fn panic_with(message: String) -> Result<(), NifError> {
    guard("panic_with", || panic!("{message}"))
}
