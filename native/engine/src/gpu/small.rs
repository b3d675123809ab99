//! Floats of 8 and 16 bits, which a GPU holds as `f32`.

use crate::types::Type;

/// A float of fewer bits than 32, whose exponents are fewer than those of `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Small {
    /// Bits of the fraction.
    pub(crate) fraction: u32,
    /// What is added to an exponent before it is stored.
    pub(crate) bias: u32,
    /// Whether it has infinities; else its largest number stands for all larger ones.
    pub(crate) infinite: bool,
}

impl Small {
    pub(crate) fn of(dtype: Type) -> Option<Self> {
        match dtype {
            Type::F16 => Some(Self { fraction: 10, bias: 15, infinite: true }),
            Type::F8 => Some(Self { fraction: 2, bias: 15, infinite: true }),
            Type::F8E4M3FN => Some(Self { fraction: 3, bias: 7, infinite: false }),
            _ => None,
        }
    }
}
