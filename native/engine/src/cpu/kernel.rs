//! Elementwise loops as values, so that one description of a function serves single operations and fused regions alike.

use std::mem::MaybeUninit;

use bytemuck::{Pod, cast_slice, cast_slice_mut};

use super::block::{put_all, vectorized};
use super::chain::Link;
use super::map::{Loops, combine_blocks, each, each_pair, map_blocks, update_blocks, write, zip_blocks};
use super::stored::{Stored, for_width};
use super::{Cell, Number};
use crate::error::Result;
use crate::types::Type;
use crate::value::Value;

/// A function of one element, as a loop.
pub(crate) struct Map<T, R>(Box<MapLoop<T, R>>);

/// A function of two elements, as loops.
pub(crate) struct Zip<A, B, R> {
    both: Box<ZipLoop<A, B, R>>,
    /// For one left element beside many right ones.
    left: Option<Box<ZipLoop<A, B, R>>>,
    /// For one right element beside many left ones.
    right: Option<Box<ZipLoop<A, B, R>>>,
}

type MapLoop<T, R> = dyn Fn(&[T], &mut [MaybeUninit<R>]) + Send + Sync;

type ZipLoop<A, B, R> = dyn Fn(&[A], &[B], &mut [MaybeUninit<R>]) + Send + Sync;

/// A loop over elements whose types only it knows.
pub(crate) struct Kernel {
    /// Element types of the operands.
    pub(crate) operands: Vec<Type>,
    /// Element type of the result.
    pub(crate) result: Type,
    /// The same function as part of a chain, where chains have it.
    pub(crate) link: Option<Link>,
    run: Box<Loop>,
    /// The loops for one element of an operand, by its number, beside many of the others.
    one: [Option<Box<Loop>>; 2],
}

/// From as many elements of each operand as there are places for results. Memory is aligned for the types.
type Loop = dyn Fn(&[&[u8]], &mut [MaybeUninit<u8>]) + Send + Sync;

impl<T: Cell, R: Cell> Map<T, R> {
    /// The loop over `f`.
    pub(crate) fn new(f: impl Fn(T) -> R + Send + Sync + 'static) -> Self {
        Self(Box::new(move |xs, out| each(xs, out, &f)))
    }

    /// The function of each element.
    pub(crate) fn map(&self, x: &Value) -> Result<Value> {
        map_blocks(x, &*self.0)
    }

    /// The loop without its types.
    pub(crate) fn kernel(self) -> Kernel {
        let run = move |operands: &[&[u8]], out: &mut [MaybeUninit<u8>]| self.0(cast_slice(operands[0]), places(out));
        Kernel { operands: vec![T::TYPE], result: R::TYPE, link: None, run: Box::new(run), one: [None, None] }
    }
}

impl<T: Number> Map<T, T> {
    /// The loop over `usual`, with `exact` for elements that are `is_rare`.
    pub(crate) fn unless(
        usual: impl Fn(T) -> T + Send + Sync + 'static,
        is_rare: impl Fn(T) -> bool + Send + Sync + 'static,
        exact: impl Fn(T) -> T + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(move |xs, out| {
            let mut any = false;
            vectorized(
                #[inline(always)]
                || {
                    xs.iter().zip(&mut *out).for_each(|(&x, r)| write(r, usual(x)));
                    any = xs.iter().fold(false, |any, &x| any | is_rare(x));
                },
            );
            if any {
                xs.iter().zip(out).filter(|&(&x, _)| is_rare(x)).for_each(|(&x, r)| write(r, exact(x)));
            }
        }))
    }

    /// The loop over `usual`; over `complete`, which gives the same numbers, for elements among which one `is_rare`.
    pub(crate) fn mostly(
        usual: impl Fn(T) -> T + Send + Sync + 'static,
        is_rare: impl Fn(T) -> bool + Send + Sync + 'static,
        complete: impl Fn(T) -> T + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(move |xs, out| {
            let mut any = false;
            vectorized(
                #[inline(always)]
                || any = xs.iter().fold(false, |any, &x| any | is_rare(x)),
            );
            if any { each(xs, out, &complete) } else { each(xs, out, &usual) }
        }))
    }

    /// The function of each element, in the memory of `x` where nobody else holds it.
    pub(crate) fn update(&self, x: Value) -> Result<Value> {
        update_blocks(x, &*self.0)
    }
}

impl<A: Cell, B: Cell, R: Cell> Zip<A, B, R> {
    /// The loop over `f`.
    pub(crate) fn new(f: impl Fn(A, B) -> R + Send + Sync + 'static) -> Self {
        Self { both: Box::new(move |xs, ys, out| each_pair(xs, ys, out, &f)), left: None, right: None }
    }

    /// The loop over `f`, and those for one element beside many.
    pub(crate) fn swift(f: impl Fn(A, B) -> R + Copy + Send + Sync + 'static) -> Self {
        let left = move |xs: &[A], ys: &[B], out: &mut [MaybeUninit<R>]| {
            let x = xs[0];
            each(ys, out, |y| f(x, y));
        };
        let right = move |xs: &[A], ys: &[B], out: &mut [MaybeUninit<R>]| {
            let y = ys[0];
            each(xs, out, |x| f(x, y));
        };
        Self { left: Some(Box::new(left)), right: Some(Box::new(right)), ..Self::new(f) }
    }

    /// With another loop for one right element beside many.
    pub(crate) fn with_right(self, right: impl Fn(&[A], B, &mut [MaybeUninit<R>]) + Send + Sync + 'static) -> Self {
        let right = move |xs: &[A], ys: &[B], out: &mut [MaybeUninit<R>]| right(xs, ys[0], out);
        Self { right: Some(Box::new(right)), ..self }
    }

    /// The function of each pair of elements of two tensors of one shape.
    pub(crate) fn zip(&self, a: &Value, b: &Value) -> Result<Value> {
        zip_blocks(a, b, &self.loops())
    }

    fn loops(&self) -> Loops<'_, A, B, R> {
        Loops {
            both: &*self.both,
            left: self.left.as_deref().map(|f| f as _),
            right: self.right.as_deref().map(|f| f as _),
        }
    }

    /// The loops without their types.
    pub(crate) fn kernel(self) -> Kernel {
        let untyped = |run: Box<ZipLoop<A, B, R>>| -> Box<Loop> {
            Box::new(move |operands, out| run(cast_slice(operands[0]), cast_slice(operands[1]), places(out)))
        };
        let one = [self.left.map(untyped), self.right.map(untyped)];
        Kernel { operands: vec![A::TYPE, B::TYPE], result: R::TYPE, link: None, run: untyped(self.both), one }
    }
}

impl<T: Number> Zip<T, T, T> {
    /// The function of each pair, in the memory of one tensor where nobody else holds it.
    pub(crate) fn combine(&self, a: Value, b: Value) -> Result<Value> {
        combine_blocks(a, b, &self.loops())
    }
}

impl Kernel {
    /// The second operand where the first, a `u8`, is not zero, the third elsewhere; both of the real type `dtype`.
    pub(crate) fn select(dtype: Type) -> Self {
        let run = move |operands: &[&[u8]], out: &mut [MaybeUninit<u8>]| {
            for_width!(dtype.size(), T => {
                blend::<T>(operands[0], cast_slice(operands[1]), cast_slice(operands[2]), places(out));
            });
        };
        let operands = vec![Type::U8, dtype, dtype];
        Self { operands, result: dtype, link: None, run: Box::new(run), one: [None, None] }
    }

    /// The same bits as elements of another type of the same width.
    pub(crate) fn reread(from: Type, to: Type) -> Self {
        let run = |operands: &[&[u8]], out: &mut [MaybeUninit<u8>]| put_all(out, &operands[0][..out.len()]);
        Self { operands: vec![from], result: to, link: None, run: Box::new(run), one: [None, None] }
    }

    /// With the same function as part of a chain.
    pub(crate) fn with_link(self, link: Option<Link>) -> Self {
        Self { link, ..self }
    }

    /// Computes results from a block of each operand.
    pub(crate) fn run(&self, operands: &[&[u8]], out: &mut [MaybeUninit<u8>]) {
        (self.run)(operands, out);
    }

    /// The bytes of the result from one element of the only operand.
    pub(crate) fn element(&self, operand: &[u8]) -> Vec<u8> {
        // Of the widest element, so that all are aligned.
        let (mut from, mut out) = ([0u64; 2], [0u64; 2]);
        cast_slice_mut(&mut from)[..operand.len()].copy_from_slice(operand);
        let size = self.result.size();
        let bytes: &mut [u8] = cast_slice_mut(&mut out);
        // SAFETY: initialised memory may count as not initialised, since kernels only write elements to it.
        let places = unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<MaybeUninit<u8>>(), size) };
        self.run(&[&cast_slice(&from)[..operand.len()]], places);
        bytes[..size].to_vec()
    }

    /// Whether there is a loop for one element of an operand beside many of the others.
    pub(crate) fn takes_one(&self, operand: usize) -> bool {
        self.one.get(operand).is_some_and(Option::is_some)
    }

    /// [`Kernel::run`] with one element of an operand for which [`Kernel::takes_one`] holds.
    pub(crate) fn run_one(&self, operand: usize, operands: &[&[u8]], out: &mut [MaybeUninit<u8>]) {
        self.one[operand].as_ref().unwrap_or(&self.run)(operands, out);
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel").field("operands", &self.operands).field("result", &self.result).finish_non_exhaustive()
    }
}

/// A choice between bits: one between numbers is compiled to one between addresses, which takes five times as long.
fn blend<T: Stored>(chosen: &[u8], on_true: &[T], on_false: &[T], out: &mut [MaybeUninit<T>]) {
    vectorized(
        #[inline(always)]
        || {
            let pairs = on_true.iter().zip(on_false);
            chosen.iter().zip(pairs).zip(out).for_each(|((&chosen, (&a, &b)), r)| {
                let mask = T::from(u8::from(chosen != 0)).unwrap_or_default().wrapping_neg();
                write(r, (a & mask) | (b & !mask));
            });
        },
    );
}

/// Memory for elements of a type that it is aligned for.
///
/// # Panics
///
/// When it is not, or holds no whole number of elements.
pub(super) fn places<T: Pod>(bytes: &mut [MaybeUninit<u8>]) -> &mut [MaybeUninit<T>] {
    let (size, at) = (size_of::<T>(), bytes.as_mut_ptr());
    assert!(at.cast::<T>().is_aligned() && bytes.len().is_multiple_of(size), "a block is cut between elements");
    // SAFETY: the memory is aligned and long enough, and any bits may be in memory that is not initialised.
    unsafe { std::slice::from_raw_parts_mut(at.cast(), bytes.len() / size) }
}
