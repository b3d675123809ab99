//! Sub-byte integers as Nx writes them in binaries: one after the other, the first in the high bits of the first byte. In
//! memory each has a byte of its own.

use crate::error::{Error, Result};
use crate::types::{TensorType, Type};

/// A byte for each element of the packed ones; only its low bits count.
///
/// ```
/// use ex_burn_engine::{TensorType, Type, packing::unpack};
///
/// assert_eq!(unpack(&TensorType::new(Type::U4, [3]), &[0x12, 0x30])?, [1, 2, 3]);
/// # Ok::<(), ex_burn_engine::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Invalid`] when the number of bytes is wrong.
pub fn unpack(ty: &TensorType, packed: &[u8]) -> Result<Vec<u8>> {
    let bits = ty.dtype.bits();
    let len = ty.checked_len().filter(|len| (len * bits).div_ceil(8) == packed.len());
    let wrong = || Error::invalid("from_binary", format!("{} bytes do not make a tensor of {ty}", packed.len()));
    let len = len.ok_or_else(wrong)?;
    let elements = packed.iter().flat_map(|byte| places(bits).map(move |place| (byte >> place) & low(bits)));
    Ok(elements.take(len).collect())
}

/// The elements of `dtype`, a byte each, packed; the rest of the last byte is zero.
///
/// ```
/// use ex_burn_engine::{Type, packing::pack};
///
/// assert_eq!(pack(Type::S2, &[1, 0xff, 0, 0xfe, 1]), [0b01_11_00_10, 0b01_00_00_00]);
/// ```
pub fn pack(dtype: Type, elements: &[u8]) -> Vec<u8> {
    let bits = dtype.bits();
    let join = |part: &[u8]| part.iter().zip(places(bits)).fold(0, |byte, (x, place)| byte | (x & low(bits)) << place);
    elements.chunks(8 / bits).map(join).collect()
}

/// Where each element of a byte has its lowest bit, in order.
fn places(bits: usize) -> impl Iterator<Item = usize> {
    (0..8).step_by(bits).map(move |place| 8 - bits - place)
}

/// A byte with the lowest `bits` set.
fn low(bits: usize) -> u8 {
    0xff >> (8 - bits)
}
