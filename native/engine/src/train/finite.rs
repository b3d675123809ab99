//! What the host sees of a step: its scalars, and what is not a number.

use burn_backend::Element;
use bytemuck::Pod;
use num_traits::Float;

use crate::cpu::{chunks, vectorized};
#[cfg(feature = "gpu")]
use crate::device::Device;
use crate::error::Result;
#[cfg(feature = "gpu")]
use crate::gpu::{self, Reading};
use crate::types::Type;
use crate::value::Value;

/// Elements that one thread looks at.
const PART: usize = 64 * 1024;

/// Elements that are looked at before the first of them that is bad is asked for.
const BLOCK: usize = 4096;

/// The number of a value and its first element that is not finite.
pub(super) type Found = (usize, f64);

/// The scalars of a step and the first bad gradient, on their way to the host.
pub(super) struct Seen {
    #[cfg(not(feature = "gpu"))]
    scalars: Vec<Value>,
    /// The scalars, then marks of the gradients that are on a GPU.
    #[cfg(feature = "gpu")]
    reading: Reading,
    #[cfg(feature = "gpu")]
    scalars: usize,
}

#[cfg(feature = "gpu")]
impl Seen {
    /// Asks for them; what is asked of a GPU later does not delay them.
    pub(super) fn start(mut scalars: Vec<Value>, gradients: &[Value]) -> Result<Self> {
        let count = scalars.len();
        if let Some(adapter) = gradients.iter().find_map(Value::adapter) {
            scalars.extend(gpu::marks(gradients, adapter)?);
        }
        Ok(Self { reading: Reading::start(scalars)?, scalars: count })
    }

    /// The scalars, and the parameter whose gradient is bad with the first element that is.
    pub(super) fn wait(self, gradients: &[Value]) -> Result<(Vec<f64>, Option<Found>)> {
        let mut scalars = self.reading.wait()?;
        let marks = scalars.split_off(self.scalars);
        let scalars = scalars.iter().map(Value::to_f64).collect::<Result<_>>()?;
        let marks = marks.into_iter().map(Value::into_bytes).collect::<Result<Vec<_>>>()?;
        if marks.concat().iter().all(|&byte| byte == 0) {
            // Those of 64 bits are in the host's memory on a GPU too.
            return Ok((scalars, non_finite(gradients)));
        }
        let here = gradients.iter().map(|value| value.clone().to_device(&Device::Cpu)).collect::<Result<Vec<_>>>()?;
        Ok((scalars, non_finite(&here)))
    }
}

#[cfg(not(feature = "gpu"))]
impl Seen {
    /// Takes them as they are.
    pub(super) fn start(scalars: Vec<Value>, _gradients: &[Value]) -> Result<Self> {
        Ok(Self { scalars })
    }

    /// The scalars, and the parameter whose gradient is bad with the first element that is.
    pub(super) fn wait(self, gradients: &[Value]) -> Result<(Vec<f64>, Option<Found>)> {
        Ok((self.scalars.iter().map(Value::to_f64).collect::<Result<_>>()?, non_finite(gradients)))
    }
}

/// The first element of `values` that is NaN or infinite, and the number of its value. Only floats in row-major CPU memory
/// are looked at.
pub(super) fn non_finite(values: &[Value]) -> Option<Found> {
    values.iter().enumerate().find_map(|(number, value)| {
        let found = match value.dtype() {
            Type::F32 => first::<f32>(value),
            Type::F64 => first::<f64>(value),
            Type::F16 => first::<half::f16>(value),
            Type::BF16 => first::<half::bf16>(value),
            _ => None,
        };
        Some((number, found?))
    })
}

fn first<T: Element + Pod + Float + Sync>(value: &Value) -> Option<f64> {
    let elements = value.flex()?.as_slice::<T>()?;
    // A branch for each element would keep the compiler from using vectors.
    let is_bad = |block: &[T]| {
        vectorized(
            #[inline(always)]
            || block.iter().fold(false, |bad, x| bad | !x.is_finite()),
        )
    };
    let parts: Vec<&[T]> = elements.chunks(PART).collect();
    let mut bad = vec![false; parts.len()];
    chunks(&mut bad, 1, &|number, bad| bad[0] = parts[number].chunks(BLOCK).any(is_bad));
    let part = parts.into_iter().zip(bad).find(|(_, bad)| *bad)?.0;
    part.iter().find(|x| !x.is_finite()).and_then(num_traits::ToPrimitive::to_f64)
}
