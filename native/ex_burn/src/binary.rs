//! Tensors from binaries and binaries from tensors, over the same memory where it is worth it.

use ex_burn_engine::memory::{self, Memory};
use ex_burn_engine::packing::{pack, unpack};
use ex_burn_engine::{Device, Error, Result, Type, Value};
use rustler::env::OwnedEnv;
use rustler::sys::enif_alloc_binary;
use rustler::{Binary, Env, NewBinary, OwnedBinary, Resource, ResourceArc};

use crate::boundary::guard;
use crate::error::NifError;
use crate::tensor::{Tensor, TypeTerm};

/// Binaries of fewer bytes are copied: keeping memory alive from both sides costs more.
const LEAST_SHARED: usize = 4096;

fn from_binary(ty: TypeTerm, bytes: Binary<'_>) -> Result<ResourceArc<Tensor>, NifError> {
    guard("from_binary", || {
        let elements = if is_packed(ty.0.dtype) { unpack(&ty.0, &bytes)? } else { bytes.to_vec() };
        Ok(Tensor::resource(Value::from_bytes(&ty.0, elements, &Device::Cpu)?))
    })
}

fn is_packed(dtype: Type) -> bool {
    dtype.bits() < 8
}

/// A tensor of `ty` over a copy of its row-major elements; those of less than a byte come packed.
#[rustler::nif]
fn tensor_from_binary(ty: TypeTerm, bytes: Binary<'_>) -> Result<ResourceArc<Tensor>, NifError> {
    from_binary(ty, bytes)
}

/// [`tensor_from_binary`] for large binaries.
#[rustler::nif(schedule = "DirtyCpu")]
fn tensor_from_binary_dirty(ty: TypeTerm, bytes: Binary<'_>) -> Result<ResourceArc<Tensor>, NifError> {
    from_binary(ty, bytes)
}

/// A tensor over the binary itself, which lives as long as the tensor's memory does. One that is not aligned is copied.
#[rustler::nif(schedule = "DirtyCpu")]
fn tensor_over_binary(ty: TypeTerm, bytes: Binary<'_>) -> Result<ResourceArc<Tensor>, NifError> {
    guard("from_binary", || {
        let bytes = bytes::Bytes::from_owner(Borrowed::new(bytes)?);
        Ok(Tensor::resource(memory::tensor(&ty.0, bytes, &Device::Cpu)?))
    })
}

/// A binary that a tensor keeps.
struct Borrowed {
    start: *const u8,
    len: usize,
    _env: OwnedEnv,
}

// SAFETY: the bytes of a binary never change, and its environment may be freed by any thread.
unsafe impl Send for Borrowed {}

impl Borrowed {
    fn new(binary: Binary<'_>) -> Result<Self> {
        let env = OwnedEnv::new();
        let bytes = env.run(|env| Binary::from_term(binary.to_term(env)).map(|kept| (kept.as_ptr(), kept.len())));
        let (start, len) = bytes.map_err(|_| Error::invalid("from_binary", "expected a binary"))?;
        Ok(Self { start, len, _env: env })
    }
}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the environment keeps the binary, whose bytes neither move nor change.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

/// The memory of a tensor, kept by the binary over it.
struct Lent(Memory);

// Only read.
impl std::panic::RefUnwindSafe for Lent {}

#[rustler::resource_impl]
impl Resource for Lent {}

/// The first `limit` elements, row-major; those of less than a byte packed, with zeros up to a whole byte.
fn to_binary<'a>(env: Env<'a>, tensor: &Tensor, limit: usize) -> Result<Binary<'a>, NifError> {
    guard("to_binary", || {
        let value = tensor.value("to_binary")?.to_device(&Device::Cpu)?.head(limit);
        let bytes = limit.min(value.len()) * value.dtype().size();
        match Memory::of(&value) {
            _ if is_packed(value.dtype()) => packed(env, value, bytes),
            Some(memory) if bytes >= LEAST_SHARED && memory.is_thrifty(bytes) => lend(env, memory, bytes),
            Some(memory) => copy(env, &memory, bytes),
            None => copy(env, &value.into_bytes()?, bytes),
        }
    })
}

fn lend(env: Env<'_>, memory: Memory, bytes: usize) -> Result<Binary<'_>> {
    let binary = ResourceArc::new(Lent(memory)).make_binary(env, |lent| &lent.0);
    binary.make_subbinary(0, bytes).map_err(|_| too_short())
}

fn copy<'a>(env: Env<'a>, memory: &[u8], bytes: usize) -> Result<Binary<'a>> {
    let bytes = memory.get(..bytes).ok_or_else(too_short)?;
    let mut binary = NewBinary::new(env, bytes.len());
    binary.as_mut_slice().copy_from_slice(bytes);
    Ok(binary.into())
}

fn packed(env: Env<'_>, value: Value, elements: usize) -> Result<Binary<'_>> {
    let dtype = value.dtype();
    let bytes = value.into_bytes()?;
    let packed = pack(dtype, bytes.get(..elements).ok_or_else(too_short)?);
    copy(env, &packed, packed.len())
}

fn too_short() -> Error {
    Error::invalid("to_binary", "the memory is shorter than the tensor")
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

/// The most that a stand-in reserves.
const LARGEST_STAND_IN: usize = 256 << 20;

/// The bytes of a stand-in that terms show: more than the VM would copy to a heap, little enough to be sent around.
const SHOWN: usize = 65;

/// A part of a binary as large as a tensor of `bytes`. The VM counts such a binary where a term holds it, and collects garbage
/// in time, while native memory behind a reference is invisible to it. The binary is never written to but for the part that
/// terms show, so the system never gives it any memory.
#[rustler::nif]
fn memory_stand_in(env: Env<'_>, bytes: usize) -> Option<Binary<'_>> {
    let mut binary = reserve(bytes.clamp(SHOWN, LARGEST_STAND_IN))?;
    binary.as_mut_slice().get_mut(..SHOWN)?.fill(0);
    binary.release(env).make_subbinary(0, SHOWN).ok()
}

/// A binary whose bytes are not touched. `None` where the system has none left, which `OwnedBinary::new` would not survive.
fn reserve(bytes: usize) -> Option<OwnedBinary> {
    let mut binary = std::mem::MaybeUninit::uninit();
    // SAFETY: the call fills in the binary when it answers other than 0.
    let binary = unsafe { (enif_alloc_binary(bytes, binary.as_mut_ptr()) != 0).then(|| binary.assume_init()) }?;
    // SAFETY: allocated just now, and owned by nobody else.
    Some(unsafe { OwnedBinary::from_raw(binary) })
}
