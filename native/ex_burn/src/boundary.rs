//! What happens where the BEAM and the engine meet: panics stop here.

use ex_burn_engine::Result;
use ex_burn_engine::panics::catch;

use crate::error::NifError;

/// Runs `body`; a panic inside becomes [`Error::Panic`](ex_burn_engine::Error::Panic) with its message, named after `op`.
pub(crate) fn guard<T>(op: &(impl ToString + ?Sized), body: impl FnOnce() -> Result<T>) -> Result<T, NifError> {
    Ok(catch(op, body)?)
}

/// Panics with `message`, so that a test can see what becomes of it.
#[rustler::nif]
fn panic_with(message: String) -> Result<(), NifError> {
    guard("panic_with", || panic!("{message}"))
}
