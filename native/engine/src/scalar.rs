//! One element of any type, as its little-endian bytes.

use half::{bf16, f16};

use crate::cpu::to_odd;
use crate::float8::Format;
use crate::types::{Class, Type};

/// The real number that `bytes` hold in `dtype`; `None` for complex types and wrong lengths.
pub fn to_f64(dtype: Type, bytes: &[u8]) -> Option<f64> {
    match dtype {
        Type::F8 | Type::F8E4M3FN => Some(Format::of(dtype)?.decode(*bytes.first()?).into()),
        Type::BF16 => Some(bf16::from_le_bytes(bytes.try_into().ok()?).to_f64()),
        Type::F16 => Some(f16::from_le_bytes(bytes.try_into().ok()?).to_f64()),
        Type::F32 => Some(f32::from_le_bytes(bytes.try_into().ok()?).into()),
        Type::F64 => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        _ => to_i128(dtype, bytes).map(|n| n as f64),
    }
}

/// The integer that `bytes` hold in `dtype`; `None` for other types and wrong lengths.
pub fn to_i128(dtype: Type, bytes: &[u8]) -> Option<i128> {
    if !dtype.is_int() || bytes.len() != dtype.size() {
        return None;
    }
    let negative = dtype.class() == Class::Signed && bytes.last().is_some_and(|b| b & 0x80 != 0);
    let mut wide = [if negative { 0xff } else { 0 }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    Some(i128::from_le_bytes(wide))
}

/// The bytes of `value` in `dtype`, rounded to nearest for floats and wrapped for integers.
pub fn from_f64(dtype: Type, value: f64) -> Vec<u8> {
    match dtype {
        Type::F8 | Type::F8E4M3FN => Format::of(dtype).iter().map(|format| format.encode(value)).collect(),
        Type::BF16 => bf16::from_f32(to_odd(value)).to_le_bytes().to_vec(),
        Type::F16 => f16::from_f32(to_odd(value)).to_le_bytes().to_vec(),
        Type::F32 => (value as f32).to_le_bytes().to_vec(),
        Type::F64 => value.to_le_bytes().to_vec(),
        Type::C64 | Type::C128 => [value, 0.0].into_iter().flat_map(|part| from_f64(dtype.part(), part)).collect(),
        Type::U2 | Type::U4 | Type::S2 | Type::S4 => vec![wrap_byte(dtype, value as i128 as u8)],
        _ => (value as i128).to_le_bytes()[..dtype.size()].to_vec(),
    }
}

/// The byte that stores the number of a sub-byte integer type with the low bits of `byte`; for other types itself.
pub(crate) fn wrap_byte(dtype: Type, byte: u8) -> u8 {
    let Some(unused) = 8usize.checked_sub(dtype.bits()) else { return byte };
    match dtype.class() {
        Class::Signed => (((byte << unused) as i8) >> unused) as u8,
        _ => (byte << unused) >> unused,
    }
}

/// The number that `bytes` hold, for people.
pub fn text(dtype: Type, bytes: &[u8]) -> Option<String> {
    match dtype {
        Type::F32 => Some(format!("{:?}", f32::from_le_bytes(bytes.try_into().ok()?))),
        Type::F64 => Some(format!("{:?}", to_f64(dtype, bytes)?)),
        Type::C64 | Type::C128 => {
            let (re, im) = bytes.split_at_checked(dtype.part().size())?;
            let (re, im) = (text(dtype.part(), re)?, text(dtype.part(), im)?);
            Some(if im.starts_with('-') { format!("{re}{im}i") } else { format!("{re}+{im}i") })
        }
        _ if dtype.is_float() => Some(format!("{:?}", to_f64(dtype, bytes)? as f32)),
        _ => to_i128(dtype, bytes).map(|n| n.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_each_type() {
        use Type::*;
        for dtype in [U4, U8, S4, S8, S32, U64, F8, F8E4M3FN, BF16, F16, F32, F64] {
            let bytes = from_f64(dtype, 5.0);
            assert_eq!(bytes.len(), dtype.size());
            assert_eq!(to_f64(dtype, &bytes), Some(5.0), "{dtype}");
        }
        assert_eq!(to_f64(U2, &from_f64(U2, 5.0)), Some(1.0));
        assert_eq!(to_f64(S2, &from_f64(S2, 3.0)), Some(-1.0));
        assert_eq!(to_i128(Type::S16, &(-2i16).to_le_bytes()), Some(-2));
        assert_eq!(to_i128(Type::U16, &u16::MAX.to_le_bytes()), Some(65535));
        assert_eq!(to_i128(Type::S32, &[1, 2]), None);
        assert_eq!(text(Type::F32, &0.1f32.to_le_bytes()).as_deref(), Some("0.1"));
        assert_eq!(text(Type::C64, &from_f64(Type::C64, -2.0)).as_deref(), Some("-2.0+0.0i"));
    }
}
