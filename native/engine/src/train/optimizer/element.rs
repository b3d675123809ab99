//! The number types that parameters are made of.

use burn_backend::Element as BurnElement;
use bytemuck::Pod;
use half::{bf16, f16};
use num_traits::Float;

use crate::types::{TensorType, Type};

/// A type that optimizers compute in and keep their moments in.
///
/// A moment whose gradient stays 0 (of a dead unit, of an unused row of an embedding) decays to the least subnormal number
/// and never to 0, and arithmetic on subnormal numbers is a hundred times slower. So what is tiny counts as 0.
pub(super) trait Wide: Float + BurnElement + Pod + Send + Sync {
    /// So small that its product with a learning rate is almost subnormal.
    const TINY: Self;
    /// So small that its square times `1 - b2` is almost subnormal.
    const TINY_ROOT: Self;

    /// `number` in this type.
    fn of(number: f64) -> Self;

    /// This, or 0 when it is closer to 0 than `floor`.
    #[inline(always)]
    fn or_zero(self, floor: Self) -> Self {
        if self.abs() < floor { Self::zero() } else { self }
    }
}

/// A type of parameters.
pub(super) trait Element: BurnElement + Pod + Send + Sync {
    type Wide: Wide + Element<Wide = Self::Wide>;

    fn widen(self) -> Self::Wide;

    fn narrow(wide: Self::Wide) -> Self;
}

impl Wide for f32 {
    const TINY: Self = 2.0e-26;
    const TINY_ROOT: Self = 2.0e-17;

    #[inline(always)]
    fn of(number: f64) -> Self {
        number as f32
    }
}

impl Wide for f64 {
    const TINY: Self = 1.0e-290;
    const TINY_ROOT: Self = 1.0e-150;

    #[inline(always)]
    fn of(number: f64) -> Self {
        number
    }
}

macro_rules! element {
    ($narrow:ty, $wide:ty, $widen:expr, $from:expr) => {
        impl Element for $narrow {
            type Wide = $wide;

            #[inline(always)]
            fn widen(self) -> $wide {
                $widen(self)
            }

            #[inline(always)]
            fn narrow(wide: $wide) -> Self {
                $from(wide)
            }
        }
    };
}

element!(f32, f32, |x| x, |x| x);
element!(f64, f64, |x| x, |x| x);
element!(f16, f32, f16::to_f32, f16::from_f32);
element!(bf16, f32, bf16::to_f32, bf16::from_f32);

/// The types that parameters are computed in.
pub(in crate::train) fn widened(types: &[TensorType]) -> Vec<TensorType> {
    types.iter().map(|ty| TensorType::new(wide(ty.dtype), &ty.shape[..])).collect()
}

/// The type of the moments of parameters of type `dtype`.
pub(in crate::train) fn wide(dtype: Type) -> Type {
    if dtype == Type::F64 { Type::F64 } else { Type::F32 }
}
