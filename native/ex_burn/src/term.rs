//! Terms as serde sees them: the form in which programs, operations and settings cross the boundary.
//!
//! Atoms are strings, maps with atom keys are structs, lists and tuples are sequences, `nil` is `None`. A variant without
//! data is its atom, a variant with data the pair `{atom, data}`. The same types read from JSON in model files.

use std::collections::HashMap;
use std::fmt::Display;
use std::rc::Rc;

use ex_burn_engine::program::MAX_LEVELS;
use ex_burn_engine::{Error, Result};
use rustler::types::{atom, map::MapIterator, tuple::get_tuple};
use rustler::{Encoder, Env, Term, TermType};
use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{self, DeserializeOwned, DeserializeSeed, EnumAccess, IntoDeserializer, VariantAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value as Json;

use crate::atom::text;
use crate::list::items;

/// Terms nested deeper are refused: a scheduler's stack is small, and its overflow ends the VM. The same as `serde_json` has,
/// so that what crosses the boundary can be written to a file and read again.
const MAX_DEPTH: usize = 127;

/// Reads a `T` from `term`; `what` names it in the error.
///
/// # Errors
///
/// [`Error::Invalid`] says what does not fit.
pub(crate) fn decode<T: DeserializeOwned>(what: &str, term: Term<'_>) -> Result<T> {
    decode_to(MAX_DEPTH, what, term)
}

/// [`decode`] for programs that no file holds, on a [stack](crate::boundary::guard_deep) for all levels that the engine takes
/// and some more, which it refuses.
///
/// # Errors
///
/// As [`decode`].
pub(crate) fn decode_deep<T: DeserializeOwned>(what: &str, term: Term<'_>) -> Result<T> {
    decode_to((MAX_LEVELS + 2) * TERMS_OF_A_LEVEL, what, term)
}

fn decode_to<T: DeserializeOwned>(max_depth: usize, what: &str, term: Term<'_>) -> Result<T> {
    T::deserialize(Reader { term, depth: 0, max_depth }).map_err(|Mismatch(reason)| Error::invalid(what, reason))
}

/// From a program to one inside: its list of instructions, an instruction, the operation, its attributes, a list.
const TERMS_OF_A_LEVEL: usize = 6;

/// Why a term is not what it should be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Mismatch(String);

impl de::Error for Mismatch {
    fn custom<T: Display>(reason: T) -> Self {
        Self(reason.to_string())
    }
}

impl From<rustler::Error> for Mismatch {
    fn from(_: rustler::Error) -> Self {
        Self("a term of an unexpected type".to_string())
    }
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    term: Term<'a>,
    depth: usize,
    max_depth: usize,
}

impl<'a> Reader<'a> {
    /// What makes readers of the terms inside.
    fn inner(&self) -> Result<impl Fn(Term<'a>) -> Reader<'a> + use<'a>, Mismatch> {
        let Reader { depth, max_depth, .. } = *self;
        if depth >= max_depth {
            return Err(de::Error::custom(format!("nested deeper than {max_depth} levels")));
        }
        Ok(move |term| Reader { term, depth: depth + 1, max_depth })
    }

    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.term.decode::<u64>() {
            Ok(number) => visitor.visit_u64(number),
            Err(_) => {
                let number = self.term.decode::<i64>();
                visitor.visit_i64(number.map_err(|_| Mismatch("an integer of more than 64 bits".to_string()))?)
            }
        }
    }

    fn atom<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match &*text(self.term)? {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            "nil" => visitor.visit_unit(),
            name => visitor.visit_str(name),
        }
    }

    fn items<'de, V: Visitor<'de>>(
        self,
        items: impl Iterator<Item = Term<'a>>,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_seq(SeqDeserializer::new(items.map(self.inner()?)))
    }
}

impl<'de> de::Deserializer<'de> for Reader<'_> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.term.get_type() {
            TermType::Atom => self.atom(visitor),
            TermType::Binary => visitor.visit_str(self.term.decode()?),
            TermType::Float => visitor.visit_f64(self.term.decode()?),
            TermType::Integer => self.number(visitor),
            TermType::List => self.items(items(self.term)?, visitor),
            TermType::Tuple => self.items(get_tuple(self.term)?.into_iter(), visitor),
            TermType::Map => {
                let inner = self.inner()?;
                let pairs = MapIterator::new(self.term).into_iter().flatten();
                visitor.visit_map(MapDeserializer::new(pairs.map(|(key, value)| (inner(key), inner(value)))))
            }
            other => Err(de::Error::custom(format!("a term of type {other:?} has no meaning here"))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let none = self.term.is_atom() && &*text(self.term)? == "nil";
        if none { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        if self.term.is_atom() {
            return visitor.visit_enum(Variant { tag: text(self.term)?, data: None });
        }
        match get_tuple(self.term)?.as_slice() {
            [tag, data] => visitor.visit_enum(Variant { tag: text(*tag)?, data: Some(self.inner()?(*data)) }),
            other => Err(de::Error::custom(format!("expected {{name, attributes}}, got a tuple of {}", other.len()))),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Mismatch> for Reader<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct Variant<'a> {
    tag: Rc<str>,
    data: Option<Reader<'a>>,
}

impl<'de, 'a> EnumAccess<'de> for Variant<'a> {
    type Error = Mismatch;
    type Variant = Data<'a>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Data<'a>), Mismatch> {
        let tag: StrDeserializer<'_, Mismatch> = self.tag.as_ref().into_deserializer();
        Ok((seed.deserialize(tag)?, Data(self.data)))
    }
}

struct Data<'a>(Option<Reader<'a>>);

impl Data<'_> {
    fn reader(self) -> Result<impl for<'de> de::Deserializer<'de, Error = Mismatch>, Mismatch> {
        self.0.ok_or_else(|| de::Error::custom("its attributes are missing"))
    }
}

impl<'de> VariantAccess<'de> for Data<'_> {
    type Error = Mismatch;

    fn unit_variant(self) -> Result<(), Mismatch> {
        match self.0 {
            None => Ok(()),
            Some(_) => Err(de::Error::custom("it takes no attributes")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Mismatch> {
        seed.deserialize(self.reader()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Mismatch> {
        de::Deserializer::deserialize_any(self.reader()?, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        de::Deserializer::deserialize_any(self.reader()?, visitor)
    }
}

/// Plain data as terms: objects are maps with strings as keys, so that data from a file makes no atoms.
pub(crate) struct Plain(pub(crate) Json);

impl Encoder for Plain {
    fn encode<'a>(&self, env: Env<'a>) -> Term<'a> {
        plain(env, &self.0)
    }
}

fn plain<'a>(env: Env<'a>, json: &Json) -> Term<'a> {
    match json {
        Json::Null => atom::nil().encode(env),
        Json::Bool(truth) => truth.encode(env),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(n), _) => n.encode(env),
            (_, Some(n)) => n.encode(env),
            _ => number.as_f64().encode(env),
        },
        Json::String(text) => text.encode(env),
        Json::Array(items) => items.iter().map(|item| plain(env, item)).collect::<Vec<_>>().encode(env),
        Json::Object(fields) => {
            fields.iter().map(|(key, value)| (key.as_str(), plain(env, value))).collect::<HashMap<_, _>>().encode(env)
        }
    }
}
