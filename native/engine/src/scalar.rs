//! One element of any type, as its little-endian bytes.

use half::{bf16, f16};

use crate::types::{Class, Type};

/// The real number that `bytes` hold in `dtype`; `None` for complex types, packed floats and wrong lengths.
pub fn to_f64(dtype: Type, bytes: &[u8]) -> Option<f64> {
    match dtype {
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

/// The bytes of `value` in `dtype`, rounded to nearest for floats and wrapped for integers; `None` for complex types
/// and packed floats.
pub fn from_f64(dtype: Type, value: f64) -> Option<Vec<u8>> {
    Some(match dtype {
        Type::BF16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        Type::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        Type::F32 => (value as f32).to_le_bytes().to_vec(),
        Type::F64 => value.to_le_bytes().to_vec(),
        _ if dtype.is_int() => (value as i128).to_le_bytes()[..dtype.size()].to_vec(),
        _ => return None,
    })
}

/// The number that `bytes` hold, for people.
pub fn text(dtype: Type, bytes: &[u8]) -> Option<String> {
    match dtype {
        Type::F32 => Some(format!("{:?}", f32::from_le_bytes(bytes.try_into().ok()?))),
        Type::BF16 | Type::F16 => Some(format!("{:?}", to_f64(dtype, bytes)? as f32)),
        Type::F64 => Some(format!("{:?}", to_f64(dtype, bytes)?)),
        _ => to_i128(dtype, bytes).map(|n| n.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_each_type() {
        for dtype in [Type::U8, Type::S8, Type::S32, Type::U64, Type::BF16, Type::F16, Type::F32, Type::F64] {
            let bytes = from_f64(dtype, 5.0).expect("a real type");
            assert_eq!(bytes.len(), dtype.size());
            assert_eq!(to_f64(dtype, &bytes), Some(5.0), "{dtype}");
        }
        assert_eq!(to_i128(Type::S16, &(-2i16).to_le_bytes()), Some(-2));
        assert_eq!(to_i128(Type::U16, &u16::MAX.to_le_bytes()), Some(65535));
        assert_eq!(to_i128(Type::S32, &[1, 2]), None);
        assert_eq!(text(Type::F32, &0.1f32.to_le_bytes()).as_deref(), Some("0.1"));
    }
}
