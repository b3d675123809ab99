//! Lists as arguments.

use std::ops::Deref;

use rustler::{Decoder, Encoder, Env, ListIterator, NifResult, Term};

/// The elements of a proper list. As an argument, `Vec` panics where a list does not end in `[]`.
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Encoder> Encoder for List<T> {
    fn encode<'a>(&self, env: Env<'a>) -> Term<'a> {
        self.0.encode(env)
    }
}

impl<'a, T: Decoder<'a>> Decoder<'a> for List<T> {
    fn decode(term: Term<'a>) -> NifResult<Self> {
        Ok(Self(items(term)?.map(|item| item.decode()).collect::<NifResult<_>>()?))
    }
}

/// The elements of a proper list, as they are.
pub(crate) fn items(term: Term<'_>) -> NifResult<ListIterator<'_>> {
    term.list_length()?;
    term.decode()
}
