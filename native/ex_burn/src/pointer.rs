//! Tensors as addresses and as shared memory of other processes.

use ex_burn_engine::segment::{self, Segment};
use ex_burn_engine::{Device, Error, Result, memory, memory::Memory};
use rustler::ResourceArc;

use crate::boundary::guard;
use crate::error::NifError;
use crate::tensor::{Tensor, TypeTerm};

/// Address and length of the tensor's memory, valid while the tensor is. Strided tensors are put in order first.
#[rustler::nif(schedule = "DirtyCpu")]
fn tensor_address(tensor: ResourceArc<Tensor>) -> Result<(usize, usize), NifError> {
    guard("to_pointer", || {
        let memory = settle(&tensor)?;
        Ok((memory.as_ptr() as usize, memory.len()))
    })
}

/// Row-major memory of the tensor, which keeps it from then on.
fn settle(tensor: &Tensor) -> Result<Memory> {
    let value = tensor.replace("to_pointer", |value| Ok(value.contiguous()))?;
    let elsewhere = || {
        let (ty, device) = (value.ty(), value.device());
        Error::invalid("to_pointer", format!("got a tensor {ty} on {device}, expected one in the host's memory"))
    };
    let memory = Memory::of(&value).ok_or_else(elsewhere)?;
    match memory.is_empty() {
        true => Err(Error::invalid("to_pointer", "an empty tensor has no memory to point to")),
        false => Ok(memory),
    }
}

/// Name and length of shared memory with the tensor's elements. The tensor moves there, and the name lives as long as it.
#[rustler::nif(schedule = "DirtyCpu")]
fn tensor_share(tensor: ResourceArc<Tensor>, permissions: u32) -> Result<(String, usize), NifError> {
    guard("to_pointer", || {
        let mut kept = tensor.segment.lock();
        let segment = match kept.take() {
            Some(segment) => segment,
            None => move_to_segment(&tensor, permissions)?,
        };
        let answer = (segment.name().to_string(), segment.bytes().len());
        *kept = Some(segment);
        Ok(answer)
    })
}

fn move_to_segment(tensor: &Tensor, permissions: u32) -> Result<Segment> {
    let segment = Segment::create(&settle(tensor)?, permissions)?;
    tensor.replace("to_pointer", |value| memory::tensor(&value.ty(), segment.bytes(), &Device::Cpu))?;
    Ok(segment)
}

fn bytes_of(ty: &TypeTerm) -> Result<usize> {
    let len = ty.0.checked_len();
    let too_large = || Error::invalid("from_pointer", format!("{} is larger than memory", ty.0));
    Ok(len.ok_or_else(too_large)? * ty.0.dtype.size())
}

/// A tensor of `ty` over the memory at `address`.
#[rustler::nif(schedule = "DirtyCpu")]
fn tensor_from_address(ty: TypeTerm, address: usize) -> Result<ResourceArc<Tensor>, NifError> {
    guard("from_pointer", || {
        if !memory::is_aligned(&ty.0, address) {
            let reason = format!("address {address} is not aligned for elements of {}", ty.0.dtype);
            return Err(Error::invalid("from_pointer", reason));
        }
        // SAFETY: whoever hands out an address promises that the memory outlives the tensor; `Nx.from_pointer/5` says so.
        let bytes = unsafe { segment::borrow(address, bytes_of(&ty)?)? };
        Ok(Tensor::resource(memory::tensor(&ty.0, bytes, &Device::Cpu)?))
    })
}

/// A tensor of `ty` over the shared memory `name`.
#[rustler::nif(schedule = "DirtyCpu")]
fn tensor_from_shared(ty: TypeTerm, name: String) -> Result<ResourceArc<Tensor>, NifError> {
    guard("from_pointer", || {
        let bytes = segment::open(&name, bytes_of(&ty)?)?;
        Ok(Tensor::resource(memory::tensor(&ty.0, bytes, &Device::Cpu)?))
    })
}
