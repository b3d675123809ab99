//! Engine errors as terms: `{kind, %{op: …, …}}`, data that `ExBurn.Error` turns into text.

use ex_burn_engine::{Error, TensorType};
use rustler::{Encoder, Env, Term, types::map::map_new};

rustler::atoms! {
    argument, arithmetic, deallocated, device, dtype, epoch, expected, file, got, index, axis, invalid, message, mismatch, non_finite,
    op, out_of_bounds, panic, parameter, path, reason, shape, step, unsupported, value, what,
}

/// An engine error on its way to the BEAM.
#[derive(Debug)]
pub(crate) struct NifError(pub(crate) Error);

impl From<Error> for NifError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

/// Element type and shape as Elixir shows them.
fn type_term<'a>(env: Env<'a>, ty: &TensorType) -> Term<'a> {
    (ty.dtype.name(), ty.shape.clone()).encode(env)
}

impl Encoder for NifError {
    fn encode<'a>(&self, env: Env<'a>) -> Term<'a> {
        let error = &self.0;
        let (kind, fields): (_, Vec<(_, Term<'a>)>) = match error {
            Error::Unsupported { dtype: ty, device: on, .. } => {
                (unsupported(), vec![(dtype(), ty.name().encode(env)), (device(), on.encode(env))])
            }
            Error::Invalid { reason: why, .. } => (invalid(), vec![(reason(), why.encode(env))]),
            Error::Arithmetic { reason: why, .. } => (arithmetic(), vec![(reason(), why.encode(env))]),
            Error::Argument { reason: why, .. } => (argument(), vec![(reason(), why.encode(env))]),
            Error::OutOfBounds { index: i, axis: a, shape: s, .. } => (
                out_of_bounds(),
                vec![(index(), i.to_string().encode(env)), (axis(), a.encode(env)), (shape(), s.encode(env))],
            ),
            Error::Mismatch { expected: want, got: have, .. } => {
                (mismatch(), vec![(expected(), type_term(env, want)), (got(), type_term(env, have))])
            }
            Error::Deallocated { .. } => (deallocated(), vec![]),
            Error::File { path: name, reason: why } => {
                (file(), vec![(path(), name.encode(env)), (reason(), why.encode(env))])
            }
            Error::NonFinite { what: w, parameter: p, value: v, epoch: e, step: s } => (
                non_finite(),
                vec![
                    (what(), w.encode(env)),
                    (parameter(), p.encode(env)),
                    (value(), v.encode(env)),
                    (epoch(), e.encode(env)),
                    (step(), s.encode(env)),
                ],
            ),
            Error::Panic { message: text, .. } => (panic(), vec![(message(), text.encode(env))]),
        };
        let head = [(op(), error.op().encode(env)), (message(), error.to_string().encode(env))];
        let map = head.into_iter().chain(fields).try_fold(map_new(env), |map, (key, term)| map.map_put(key, term));
        (kind, map.unwrap_or_else(|_| map_new(env))).encode(env)
    }
}
