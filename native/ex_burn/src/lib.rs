//! The NIF library of ExBurn: decodes Erlang terms, calls the engine, encodes its answers. No arithmetic, no policy.
//!
//! Every function answers `{:ok, result}` or `{:error, {kind, map}}`; a panic of the engine arrives as such an error too.

mod allocator;
mod atom;
mod binary;
mod boundary;
mod caller;
mod continuation;
mod device;
mod error;
mod file;
mod list;
mod pace;
#[cfg(unix)]
mod pointer;
mod program;
mod tensor;
mod term;
mod train;
mod trim;

#[global_allocator]
static ALLOCATOR: allocator::Stocked = allocator::Stocked::new();

rustler::init!("Elixir.ExBurn.NIF", load = load);

fn load(_env: rustler::Env<'_>, _info: rustler::Term<'_>) -> bool {
    trim::start();
    true
}
