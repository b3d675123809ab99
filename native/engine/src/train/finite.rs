//! Finds what is not a number.

use burn_backend::Element;
use bytemuck::Pod;
use num_traits::Float;

use crate::cpu::chunks;
use crate::types::Type;
use crate::value::Value;

/// Elements that one thread looks at.
const PART: usize = 64 * 1024;

/// Elements that are looked at before the first of them that is bad is asked for.
const BLOCK: usize = 4096;

/// The first element of `values` that is NaN or infinite, and the number of its value. Only floats in row-major CPU memory
/// are looked at.
pub(super) fn non_finite(values: &[Value]) -> Option<(usize, f64)> {
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
    let is_bad = |block: &[T]| block.iter().fold(false, |bad, x| bad | !x.is_finite());
    let parts: Vec<&[T]> = elements.chunks(PART).collect();
    let mut bad = vec![false; parts.len()];
    chunks(&mut bad, 1, &|number, bad| bad[0] = parts[number].chunks(BLOCK).any(is_bad));
    let part = parts.into_iter().zip(bad).find(|(_, bad)| *bad)?.0;
    part.iter().find(|x| !x.is_finite()).and_then(num_traits::ToPrimitive::to_f64)
}
