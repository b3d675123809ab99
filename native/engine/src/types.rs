//! The number types of Nx and the type of a tensor.

use burn_backend::DType;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use crate::device::host_memory;

/// A number type of Nx. `F8` is E5M2; the sub-byte integers hold one element per byte outside of packed binaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs)]
pub enum Type {
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    S2,
    S4,
    S8,
    S16,
    S32,
    S64,
    F8,
    #[serde(rename = "f8_e4m3fn")]
    #[strum(serialize = "f8_e4m3fn")]
    F8E4M3FN,
    #[serde(rename = "bf16")]
    #[strum(serialize = "bf16")]
    BF16,
    F16,
    F32,
    F64,
    C64,
    C128,
}

/// The families of [`Type`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Class {
    Unsigned,
    Signed,
    Float,
    Complex,
}

impl Type {
    /// Name in programs and messages, e.g. `f32`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Width of one element in bits, as Nx counts it.
    pub fn bits(self) -> usize {
        use Type::*;
        match self {
            U2 | S2 => 2,
            U4 | S4 => 4,
            U8 | S8 | F8 | F8E4M3FN => 8,
            U16 | S16 | BF16 | F16 => 16,
            U32 | S32 | F32 => 32,
            U64 | S64 | F64 | C64 => 64,
            C128 => 128,
        }
    }

    /// Bytes that one element takes in memory (sub-byte integers take one).
    pub fn size(self) -> usize {
        self.bits().div_ceil(8)
    }

    /// The family this type belongs to.
    pub fn class(self) -> Class {
        use Type::*;
        match self {
            U2 | U4 | U8 | U16 | U32 | U64 => Class::Unsigned,
            S2 | S4 | S8 | S16 | S32 | S64 => Class::Signed,
            F8 | F8E4M3FN | BF16 | F16 | F32 | F64 => Class::Float,
            C64 | C128 => Class::Complex,
        }
    }

    /// True for complex types.
    pub fn is_complex(self) -> bool {
        self.class() == Class::Complex
    }

    /// True for the types that are stored in a form nothing computes with: sub-byte integers and 8-bit floats.
    pub fn is_packed(self) -> bool {
        self.widened() != self
    }

    /// The smallest type with all values of a [packed](Self::is_packed) type that operations compute in; other types
    /// themselves.
    pub fn widened(self) -> Self {
        use Type::*;
        match self {
            U2 | U4 => U8,
            S2 | S4 => S8,
            F8 | F8E4M3FN => F32,
            other => other,
        }
    }

    /// The type of the real and the imaginary part of a complex type; other types themselves.
    pub fn part(self) -> Self {
        match self {
            Type::C64 => Type::F32,
            Type::C128 => Type::F64,
            other => other,
        }
    }

    /// True for real floating-point types.
    pub fn is_float(self) -> bool {
        self.class() == Class::Float
    }

    /// True for signed and unsigned integers.
    pub fn is_int(self) -> bool {
        matches!(self.class(), Class::Unsigned | Class::Signed)
    }

    /// The Burn type that elements are stored in: a sub-byte integer in a byte, an 8-bit float as its bits in a byte, a
    /// complex number as two floats, of which the type here is one.
    pub fn storage(self) -> DType {
        use Type::*;
        match self {
            U2 | U4 | U8 | F8 | F8E4M3FN => DType::U8,
            U16 => DType::U16,
            U32 => DType::U32,
            U64 => DType::U64,
            S2 | S4 | S8 => DType::I8,
            S16 => DType::I16,
            S32 => DType::I32,
            S64 => DType::I64,
            BF16 => DType::BF16,
            F16 => DType::F16,
            F32 | C64 => DType::F32,
            F64 | C128 => DType::F64,
        }
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Element type and shape of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TensorType {
    /// Element type.
    pub dtype: Type,
    /// Length of each axis; empty for a scalar.
    pub shape: Vec<usize>,
}

impl TensorType {
    /// A tensor type of `dtype` and `shape`.
    pub fn new(dtype: Type, shape: impl Into<Vec<usize>>) -> Self {
        Self { dtype, shape: shape.into() }
    }

    /// Number of elements, `None` when it does not fit in memory.
    pub fn checked_len(&self) -> Option<usize> {
        // An axis of length 0 leaves nothing to hold, but the others are still lengths that operations count up to.
        let bytes = self.shape.iter().try_fold(self.dtype.size(), |n, &d| n.checked_mul(d.max(1)))?;
        (bytes <= host_memory()).then(|| self.shape.iter().product())
    }
}

impl std::fmt::Display for TensorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, d) in self.shape.iter().enumerate() {
            write!(f, "{}{d}", if i == 0 { "" } else { "," })?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    #[test]
    fn every_type_has_one_name_everywhere() {
        let names = [
            "u2",
            "u4",
            "u8",
            "u16",
            "u32",
            "u64",
            "s2",
            "s4",
            "s8",
            "s16",
            "s32",
            "s64",
            "f8",
            "f8_e4m3fn",
            "bf16",
            "f16",
            "f32",
            "f64",
            "c64",
            "c128",
        ];
        for name in names {
            let dtype = Type::from_str(name).expect(name);
            assert_eq!(dtype.name(), name);
            assert_eq!(serde_json::to_string(&dtype).expect(name), format!("\"{name}\""));
        }
    }
}
