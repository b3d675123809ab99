//! Tensors as resources of the BEAM.

use std::str::FromStr;

use ex_burn_engine::{Device, Error, Result, TensorType, Type, Value};
use parking_lot::RwLock;
use rustler::{Atom, Binary, Decoder, Encoder, Env, NewBinary, NifResult, Resource, ResourceArc, Term};

use crate::boundary::guard;
use crate::error::NifError;

/// A tensor, until it is deallocated.
pub(crate) struct Tensor(RwLock<Option<Value>>);

// Burn's handles are not `RefUnwindSafe`; a panic while one is borrowed leaves it whole, because no operation changes a
// value that it does not own.
impl std::panic::RefUnwindSafe for Tensor {}

#[rustler::resource_impl]
impl Resource for Tensor {}

impl Tensor {
    pub(crate) fn resource(value: Value) -> ResourceArc<Self> {
        ResourceArc::new(Self(RwLock::new(Some(value))))
    }

    /// The value, sharing memory.
    pub(crate) fn value(&self, op: &str) -> Result<Value> {
        self.0.read().clone().ok_or_else(|| Error::Deallocated { op: op.to_string() })
    }
}

/// The values of `tensors`.
pub(crate) fn values(op: &str, tensors: &[ResourceArc<Tensor>]) -> Result<Vec<Value>> {
    tensors.iter().map(|tensor| tensor.value(op)).collect()
}

/// Resources of `values`.
pub(crate) fn resources(values: Vec<Value>) -> Vec<ResourceArc<Tensor>> {
    values.into_iter().map(Tensor::resource).collect()
}

/// A [`TensorType`] as the term `{:f32, [2, 3]}`.
pub(crate) struct TypeTerm(pub(crate) TensorType);

impl<'a> Decoder<'a> for TypeTerm {
    fn decode(term: Term<'a>) -> NifResult<Self> {
        let (dtype, shape): (Atom, Vec<usize>) = term.decode()?;
        let name = dtype.to_term(term.get_env()).atom_to_string()?;
        let dtype = Type::from_str(&name).map_err(|_| rustler::Error::BadArg)?;
        Ok(Self(TensorType { dtype, shape }))
    }
}

impl Encoder for TypeTerm {
    fn encode<'a>(&self, env: Env<'a>) -> Term<'a> {
        let dtype = Atom::from_str(env, self.0.dtype.name()).map(|atom| atom.encode(env));
        (dtype.unwrap_or_else(|_| self.0.dtype.name().encode(env)), &self.0.shape).encode(env)
    }
}

fn from_binary(ty: TypeTerm, bytes: Binary<'_>) -> Result<ResourceArc<Tensor>, NifError> {
    guard("from_binary", || Ok(Tensor::resource(Value::from_bytes(&ty.0, bytes.to_vec(), &Device::Cpu)?)))
}

/// A tensor of `ty` from its row-major bytes.
#[rustler::nif]
fn tensor_from_binary(ty: TypeTerm, bytes: Binary<'_>) -> Result<ResourceArc<Tensor>, NifError> {
    from_binary(ty, bytes)
}

/// [`tensor_from_binary`] for large binaries.
#[rustler::nif(schedule = "DirtyCpu")]
fn tensor_from_binary_dirty(ty: TypeTerm, bytes: Binary<'_>) -> Result<ResourceArc<Tensor>, NifError> {
    from_binary(ty, bytes)
}

/// The first `limit` elements, row-major.
fn to_binary<'a>(env: Env<'a>, tensor: &Tensor, limit: usize) -> Result<Binary<'a>, NifError> {
    let bytes = guard("to_binary", || first_bytes(tensor.value("to_binary")?, limit))?;
    let mut binary = NewBinary::new(env, bytes.len());
    binary.as_mut_slice().copy_from_slice(&bytes);
    Ok(binary.into())
}

fn first_bytes(value: Value, limit: usize) -> Result<Vec<u8>> {
    if limit >= value.len() {
        return value.into_bytes();
    }
    let flat = value.len();
    value.reshape(&[flat]).slice(&[(0..limit).into()]).into_bytes()
}

#[rustler::nif]
fn tensor_to_binary<'a>(env: Env<'a>, tensor: ResourceArc<Tensor>, limit: usize) -> Result<Binary<'a>, NifError> {
    to_binary(env, &tensor, limit)
}

/// [`tensor_to_binary`] for large tensors.
#[rustler::nif(schedule = "DirtyCpu")]
fn tensor_to_binary_dirty<'a>(env: Env<'a>, tensor: ResourceArc<Tensor>, limit: usize) -> Result<Binary<'a>, NifError> {
    to_binary(env, &tensor, limit)
}

/// Element type and shape.
#[rustler::nif]
fn tensor_type(tensor: ResourceArc<Tensor>) -> Result<TypeTerm, NifError> {
    guard("tensor_type", || Ok(TypeTerm(tensor.value("tensor_type")?.ty())))
}

/// Gives the memory back; false when that had happened before.
#[rustler::nif]
fn tensor_free(tensor: ResourceArc<Tensor>) -> bool {
    tensor.0.write().take().is_some()
}
