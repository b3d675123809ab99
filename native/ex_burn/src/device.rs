//! Devices of this machine.

use ex_burn_engine::{Device, Error, Result, device};
use rustler::{Encoder, Env, ResourceArc, Term};

use crate::boundary::{guard, guard_deep};
use crate::error::NifError;
use crate::tensor::Tensor;

/// What a device is: its kind, its number among its kind, and of a GPU its name, whether the processor plays it, and the most
/// bytes that a tensor may have there.
#[derive(rustler::NifTuple)]
struct Found {
    kind: String,
    index: usize,
    name: String,
    software: bool,
    largest: usize,
}

/// A device's kind and its number among its kind.
type Name = (String, usize);

/// The devices that this build finds, but those `refused`, which starts the GPUs among them; those that the processor plays if
/// `software`.
#[rustler::nif(schedule = "DirtyIo")]
fn devices(software: bool, refused: Vec<Name>) -> Result<Vec<Found>, NifError> {
    guard_deep("devices", || {
        let used = named(software).into_iter().filter(|(name, _)| !refused.contains(name));
        Ok(used.filter_map(|((_, index), device)| describe(&device, index)).collect())
    })
}

/// The GPUs that this build finds, of which none is started; those that the processor plays if `software`.
#[rustler::nif(schedule = "DirtyIo")]
fn gpus(software: bool) -> Result<Vec<Name>, NifError> {
    guard_deep("gpus", || {
        let gpus = named(software).into_iter().filter(|(_, device)| *device != Device::Cpu);
        Ok(gpus.map(|(name, _)| name).collect())
    })
}

/// The kinds of GPUs that this build knows.
#[rustler::nif]
fn gpu_kinds() -> Vec<&'static str> {
    let graphics = if cfg!(target_vendor = "apple") { "metal" } else { "vulkan" };
    let kinds = [(cfg!(feature = "cuda"), "cuda"), (cfg!(feature = "gpu"), graphics)];
    kinds.into_iter().filter(|(built, _)| *built).map(|(_, kind)| kind).collect()
}

fn named(software: bool) -> Vec<(Name, Device)> {
    let all: Vec<Device> = Device::all().into_iter().filter(|device| software || !is_software(device)).collect();
    let index = |number: usize| all[..number].iter().filter(|other| other.kind() == all[number].kind()).count();
    let names: Vec<Name> = (0..all.len()).map(|number| (all[number].kind().to_string(), index(number))).collect();
    names.into_iter().zip(all).collect()
}

fn is_software(device: &Device) -> bool {
    match device {
        Device::Cpu => false,
        #[cfg(feature = "gpu")]
        Device::Gpu(adapter) => adapter.is_software(),
    }
}

/// A device; `None` if it does not start.
fn describe(device: &Device, index: usize) -> Option<Found> {
    let kind = device.kind().to_string();
    match device {
        Device::Cpu => Some(Found { kind, index, name: String::new(), software: false, largest: 0 }),
        #[cfg(feature = "gpu")]
        Device::Gpu(adapter) => {
            let (name, largest) = (adapter.name().ok()?, adapter.largest().ok()?);
            Some(Found { kind, index, name, software: adapter.is_software(), largest })
        }
    }
}

/// The device of this kind and number.
pub(crate) fn found(kind: &str, index: usize) -> Result<Device> {
    Device::named(kind, index).ok_or_else(|| Error::invalid("device", format!("there is no device {kind} {index}")))
}

/// The tensor's elements on the device of this kind and number; the tensor itself where they are there.
#[rustler::nif(schedule = "DirtyCpu")]
fn tensor_to_device(tensor: ResourceArc<Tensor>, kind: String, index: usize) -> Result<ResourceArc<Tensor>, NifError> {
    guard("to_device", || {
        let device = found(&kind, index)?;
        let value = tensor.value("to_device")?;
        if value.device() == device {
            return Ok(tensor);
        }
        Ok(Tensor::resource(value.to_device(&device)?))
    })
}

/// Bytes of a GPU that tensors hold, and bytes that this process has taken from it; first gives back what it can where `release`.
#[rustler::nif(schedule = "DirtyIo")]
fn device_memory(kind: String, index: usize, release: bool) -> Result<(u64, u64), NifError> {
    guard("device", || match found(&kind, index)? {
        Device::Cpu => Err(Error::invalid("device", "the CPU's memory is the system's")),
        #[cfg(feature = "gpu")]
        Device::Gpu(adapter) => {
            if release {
                adapter.release_memory()?;
            }
            let memory = adapter.memory()?;
            Ok((memory.in_use, memory.reserved))
        }
    })
}

/// How often operations ran on the CPU because a GPU has no kernel for them, since this was last asked: name, type, number.
#[rustler::nif]
fn fallbacks<'a>(env: Env<'a>) -> Term<'a> {
    #[cfg(feature = "gpu")]
    return ex_burn_engine::gpu::fallback::take().encode(env);
    #[cfg(not(feature = "gpu"))]
    Vec::<(String, String, u64)>::new().encode(env)
}

/// Whether what a GPU has no kernel for is refused.
#[rustler::nif]
fn refuse_fallbacks(refused: bool) -> Result<(), NifError> {
    #[cfg(feature = "gpu")]
    ex_burn_engine::gpu::fallback::refuse(refused);
    #[cfg(not(feature = "gpu"))]
    let _ = refused;
    Ok(())
}

/// How many threads work on one operation.
#[rustler::nif]
fn threads() -> usize {
    device::threads()
}

/// Sets how many threads work on one operation, before the first one.
#[rustler::nif(schedule = "DirtyCpu")]
fn set_threads(count: usize) -> Result<(), NifError> {
    guard("threads", || device::set_threads(count))
}
