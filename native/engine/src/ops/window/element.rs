//! The element types that windows are folded in.

use burn_backend::Shape;
use burn_flex::{FlexTensor, Layout};
use burn_std::Bytes;

use crate::program::Fold;

/// A number in the memory of a CPU tensor.
pub(super) trait Element: Copy + PartialEq + Send + Sync + 'static {
    /// The elements of a contiguous tensor.
    fn read(tensor: &FlexTensor) -> &[Self];

    /// A tensor of `shape` over `elements`.
    fn tensor(elements: Vec<Self>, shape: &[usize]) -> FlexTensor;

    /// The fold of nothing.
    fn identity(fold: Fold) -> Self;

    fn add(self, other: Self) -> Self;

    fn multiply(self, other: Self) -> Self;

    /// The larger, NaN when one of them is.
    fn larger(self, other: Self) -> Self;

    /// The smaller, NaN when one of them is.
    fn smaller(self, other: Self) -> Self;
}

macro_rules! element {
    ($number:ty, $lowest:expr, $highest:expr, $add:expr, $multiply:expr, $is_nan:expr) => {
        impl Element for $number {
            fn read(tensor: &FlexTensor) -> &[Self] {
                tensor.storage()
            }

            fn tensor(elements: Vec<Self>, shape: &[usize]) -> FlexTensor {
                let dtype = <$number as burn_backend::Element>::dtype();
                FlexTensor::new(Bytes::from_elems(elements), Layout::contiguous(Shape::from(shape.to_vec())), dtype)
            }

            fn identity(fold: Fold) -> Self {
                match fold {
                    Fold::Sum | Fold::Any => 0 as $number,
                    Fold::Product | Fold::All => 1 as $number,
                    Fold::Max => $lowest,
                    Fold::Min => $highest,
                }
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                $add(self, other)
            }

            #[inline(always)]
            fn multiply(self, other: Self) -> Self {
                $multiply(self, other)
            }

            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                if self > other || $is_nan(self) { self } else { other }
            }

            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                if self < other || $is_nan(self) { self } else { other }
            }
        }
    };
}

macro_rules! elements {
    (integers: $($int:ty),*; floats: $($float:ty),*) => {
        $(element!($int, <$int>::MIN, <$int>::MAX, <$int>::wrapping_add, <$int>::wrapping_mul, |_| false);)*
        $(element!(
            $float,
            <$float>::NEG_INFINITY,
            <$float>::INFINITY,
            std::ops::Add::add,
            std::ops::Mul::mul,
            <$float>::is_nan
        );)*
    };
}

/// Evaluates an expression with `$T` standing for the number that `$dtype` names; `None` when there is none.
macro_rules! by_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        by_type!(@ $dtype, $T, $body, U8 u8, U16 u16, U32 u32, U64 u64, S8 i8, S16 i16, S32 i32, S64 i64, F32 f32, F64 f64)
    };
    (@ $dtype:expr, $T:ident, $body:expr, $($name:ident $number:ty),*) => {
        match $dtype {
            $($crate::types::Type::$name => {
                type $T = $number;
                Some($body)
            })*
            _ => None,
        }
    };
}

pub(super) use by_type;

elements!(integers: u8, u16, u32, u64, i8, i16, i32, i64; floats: f32, f64);
