//! Folds of rows whose element type only they know.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use bytemuck::cast_slice;
use half::{bf16, f16};

use crate::cpu::fold::fold_slice;
use crate::cpu::kernel::places;
use crate::cpu::{All, Any, Cell, Fold, Max, Min, Product, Sum, for_number};
use crate::error::Result;
use crate::program;
use crate::types::Type;

/// A fold of elements of one type.
pub(crate) trait Folds: Debug + Send + Sync {
    /// Element type of the operand.
    fn operand(&self) -> Type;

    /// Element type of the result.
    fn result(&self) -> Type;

    /// Folds each row of `len` elements.
    fn rows(&self, elements: &[u8], len: usize, out: &mut [MaybeUninit<u8>]);

    /// The bits of the running result of nothing.
    fn identity(&self) -> u64;

    /// The bits of the running result of some elements.
    fn part(&self, elements: &[u8]) -> u64;

    /// The bits of one of two running results.
    fn join(&self, a: u64, b: u64) -> u64;

    /// The element that a running result ends as, or false when it may depend on the order of the elements.
    fn finish(&self, state: u64, out: &mut [MaybeUninit<u8>]) -> bool;
}

/// The fold of elements of `dtype`, where it has one.
pub(crate) fn folds(fold: program::Fold, dtype: Type) -> Option<Box<dyn Folds>> {
    let folds: Result<Box<dyn Folds>> = for_number!(dtype, T => Ok(match fold {
        program::Fold::All => Box::new(Of::<T, All>(PhantomData)) as Box<dyn Folds>,
        program::Fold::Any => Box::new(Of::<T, Any>(PhantomData)),
        program::Fold::Sum => Box::new(Of::<T, Sum>(PhantomData)),
        program::Fold::Product => Box::new(Of::<T, Product>(PhantomData)),
        program::Fold::Max => Box::new(Of::<T, Max>(PhantomData)),
        program::Fold::Min => Box::new(Of::<T, Min>(PhantomData)),
    }));
    folds.ok()
}

/// The fold `F` of elements `T`.
struct Of<T, F>(PhantomData<fn(T) -> F>);

impl<T: Cell, F: Fold<T, State: Bits> + 'static> Folds for Of<T, F> {
    fn operand(&self) -> Type {
        T::TYPE
    }

    fn result(&self) -> Type {
        F::Result::TYPE
    }

    fn rows(&self, elements: &[u8], len: usize, out: &mut [MaybeUninit<u8>]) {
        let rows = cast_slice::<u8, T>(elements).chunks_exact(len);
        for (row, out) in rows.zip(places::<F::Result>(out)) {
            let state = fold_slice::<T, F>(row);
            let in_order = || row.iter().fold(F::IDENTITY, |state, &x| F::step(state, x));
            out.write(F::finish(if F::is_doubtful(state) { in_order() } else { state }));
        }
    }

    fn identity(&self) -> u64 {
        F::IDENTITY.bits()
    }

    fn part(&self, elements: &[u8]) -> u64 {
        fold_slice::<T, F>(cast_slice(elements)).bits()
    }

    fn join(&self, a: u64, b: u64) -> u64 {
        F::join(F::State::from_bits(a), F::State::from_bits(b)).bits()
    }

    fn finish(&self, state: u64, out: &mut [MaybeUninit<u8>]) -> bool {
        let state = F::State::from_bits(state);
        places::<F::Result>(out)[0].write(F::finish(state));
        !F::is_doubtful(state)
    }
}

impl<T: Cell, F> Debug for Of<T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", std::any::type_name::<F>(), T::TYPE)
    }
}

/// A running result as bits.
trait Bits: Copy {
    fn bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

macro_rules! bits {
    ($($t:ident |$x:ident| $to:expr, $from:expr;)*) => {$(
        impl Bits for $t {
            fn bits(self) -> u64 {
                let $x = self;
                $to
            }

            fn from_bits($x: u64) -> Self {
                $from
            }
        }
    )*};
}

bits! {
    bool |x| x.into(), x != 0;
    u8 |x| x.into(), x as u8;
    u16 |x| x.into(), x as u16;
    u32 |x| x.into(), x as u32;
    u64 |x| x, x;
    i8 |x| x as u64, x as i8;
    i16 |x| x as u64, x as i16;
    i32 |x| x as u64, x as i32;
    i64 |x| x as u64, x as i64;
    f16 |x| x.to_bits().into(), f16::from_bits(x as u16);
    bf16 |x| x.to_bits().into(), bf16::from_bits(x as u16);
    f32 |x| x.to_bits().into(), f32::from_bits(x as u32);
    f64 |x| x.to_bits(), f64::from_bits(x);
}
