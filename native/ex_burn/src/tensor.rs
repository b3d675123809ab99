//! Tensors as resources of the BEAM.

use std::str::FromStr;

#[cfg(unix)]
use ex_burn_engine::segment::Segment;
use ex_burn_engine::{Device, Error, Result, TensorType, Type, Value};
#[cfg(unix)]
use parking_lot::Mutex;
use parking_lot::RwLock;
use rustler::{Atom, Decoder, Encoder, Env, NifResult, Resource, ResourceArc, Term};

use crate::atom::text;
use crate::boundary::guard;
use crate::error::NifError;
use crate::list::List;

/// A tensor, until it is deallocated.
pub(crate) struct Tensor {
    value: RwLock<Option<Value>>,
    /// Shared memory that the tensor moved to, if anyone asked.
    #[cfg(unix)]
    pub(crate) segment: Mutex<Option<Segment>>,
}

// Burn's handles are not `RefUnwindSafe`; a panic while one is borrowed leaves it whole, because no operation changes a
// value that it does not own.
impl std::panic::RefUnwindSafe for Tensor {}

#[rustler::resource_impl]
impl Resource for Tensor {}

impl Tensor {
    pub(crate) fn resource(value: Value) -> ResourceArc<Self> {
        ResourceArc::new(Self {
            value: RwLock::new(Some(value)),
            #[cfg(unix)]
            segment: Mutex::new(None),
        })
    }

    /// The value, sharing memory.
    pub(crate) fn value(&self, op: &(impl ToString + ?Sized)) -> Result<Value> {
        self.value.read().clone().ok_or_else(|| deallocated(op))
    }

    /// The value, which the tensor then has no more.
    pub(crate) fn take(&self) -> Option<Value> {
        #[cfg(unix)]
        self.segment.lock().take();
        self.value.write().take()
    }

    /// Puts what `f` makes of the value, the same elements in other memory, in its place.
    #[cfg(unix)]
    pub(crate) fn replace(&self, op: &str, f: impl FnOnce(Value) -> Result<Value>) -> Result<Value> {
        let mut value = self.value.write();
        let new = f(value.clone().ok_or_else(|| deallocated(op))?)?;
        Ok(value.insert(new).clone())
    }
}

fn deallocated(op: &(impl ToString + ?Sized)) -> Error {
    Error::Deallocated { op: op.to_string() }
}

pub(crate) type Tensors = List<ResourceArc<Tensor>>;

/// The values of `tensors`.
pub(crate) fn values(op: &(impl ToString + ?Sized), tensors: &[ResourceArc<Tensor>]) -> Result<Vec<Value>> {
    tensors.iter().map(|tensor| tensor.value(op)).collect()
}

/// Resources of `values`.
pub(crate) fn resources(values: Vec<Value>) -> Tensors {
    List(values.into_iter().map(Tensor::resource).collect())
}

/// A [`TensorType`] as the term `{:f32, [2, 3]}`.
pub(crate) struct TypeTerm(pub(crate) TensorType);

impl<'a> Decoder<'a> for TypeTerm {
    fn decode(term: Term<'a>) -> NifResult<Self> {
        let (dtype, shape): (Term<'a>, List<usize>) = term.decode()?;
        let dtype = Type::from_str(&text(dtype)?).map_err(|_| rustler::Error::BadArg)?;
        Ok(Self(TensorType { dtype, shape: shape.0 }))
    }
}

impl Encoder for TypeTerm {
    fn encode<'a>(&self, env: Env<'a>) -> Term<'a> {
        let dtype = Atom::from_str(env, self.0.dtype.name()).map(|atom| atom.encode(env));
        (dtype.unwrap_or_else(|_| self.0.dtype.name().encode(env)), &self.0.shape).encode(env)
    }
}

/// Element type and shape.
#[rustler::nif]
fn tensor_type(tensor: ResourceArc<Tensor>) -> Result<TypeTerm, NifError> {
    guard("tensor_type", || Ok(TypeTerm(tensor.value("tensor_type")?.ty())))
}

/// A tensor with memory of its own and the same elements.
#[rustler::nif(schedule = "DirtyCpu")]
fn tensor_copy(tensor: ResourceArc<Tensor>) -> Result<ResourceArc<Tensor>, NifError> {
    guard("backend_copy", || {
        let value = tensor.value("backend_copy")?;
        let ty = value.ty();
        Ok(Tensor::resource(Value::from_bytes(&ty, value.into_bytes()?, &Device::Cpu)?))
    })
}

/// Gives the memory back; false when that had happened before.
#[rustler::nif]
fn tensor_free(tensor: ResourceArc<Tensor>) -> bool {
    tensor.take().is_some()
}
