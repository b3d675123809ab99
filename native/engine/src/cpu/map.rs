//! Elementwise kernels.
//!
//! A kernel is one loop over slices. Operands of any layout reach it in blocks: as they lie in memory where they are
//! neighbours, else copied side by side first.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use burn_flex::{FlexTensor, Layout};
use burn_std::Bytes;

use super::ahead::{ask, strip};
use super::block::{BLOCK, Blocks, build, is_own, own, vectorized};
use super::tasks::{CHUNK, chunks};
use super::{Cell, Number, View, value};
use crate::error::Result;
use crate::value::Value;

/// Computes a block of results from a block of operands; called through a pointer, so that all else is compiled once.
type MapFn<'a, T, R> = &'a (dyn Fn(&[T], &mut [MaybeUninit<R>]) + Sync);

/// [`MapFn`] of two operands.
type ZipFn<'a, A, B, R> = &'a (dyn Fn(&[A], &[B], &mut [MaybeUninit<R>]) + Sync);

/// The loops of a function of two elements.
pub(super) struct Loops<'a, A, B, R> {
    pub(super) both: ZipFn<'a, A, B, R>,
    /// For one left element beside many right ones.
    pub(super) left: Option<ZipFn<'a, A, B, R>>,
    /// For one right element beside many left ones.
    pub(super) right: Option<ZipFn<'a, A, B, R>>,
}

impl<'a, A, B, R> Loops<'a, A, B, R> {
    fn of(both: ZipFn<'a, A, B, R>) -> Self {
        Self { both, left: None, right: None }
    }
}

/// `f` of each element.
pub(crate) fn map<T: Cell, R: Cell>(x: &Value, f: impl Fn(T) -> R + Sync) -> Result<Value> {
    map_blocks(x, &|xs, out| each(xs, out, &f))
}

/// `f` of each pair of elements of two tensors of one shape.
pub(crate) fn zip<A: Cell, B: Cell, R: Cell>(a: &Value, b: &Value, f: impl Fn(A, B) -> R + Sync) -> Result<Value> {
    zip_blocks(a, b, &Loops::of(&|xs: &[A], ys: &[B], out: &mut [MaybeUninit<R>]| each_pair(xs, ys, out, &f)))
}

/// `f` of each pair of elements of two tensors of one shape, in the memory of one where nobody else holds it.
pub(crate) fn combine<T: Number>(a: Value, b: Value, f: impl Fn(T, T) -> T + Sync) -> Result<Value> {
    combine_blocks(a, b, &Loops::of(&|xs: &[T], ys: &[T], out: &mut [MaybeUninit<T>]| each_pair(xs, ys, out, &f)))
}

/// The loop over a function of one element.
#[inline(always)]
pub(super) fn each<T: Copy, R>(xs: &[T], out: &mut [MaybeUninit<R>], f: impl Fn(T) -> R) {
    vectorized(
        #[inline(always)]
        || xs.iter().zip(out).for_each(|(&x, r)| write(r, f(x))),
    );
}

/// The loop over a function of two elements.
#[inline(always)]
pub(super) fn each_pair<A: Copy, B: Copy, R>(xs: &[A], ys: &[B], out: &mut [MaybeUninit<R>], f: impl Fn(A, B) -> R) {
    vectorized(
        #[inline(always)]
        || xs.iter().zip(ys).zip(out).for_each(|((&x, &y), r)| write(r, f(x, y))),
    );
}

#[inline(always)]
pub(super) fn write<T>(place: &mut MaybeUninit<T>, element: T) {
    place.write(element);
}

pub(super) fn map_blocks<T: Cell, R: Cell>(x: &Value, kernel: MapFn<'_, T, R>) -> Result<Value> {
    if let Some((xs, layout)) = few::<T>(x) {
        return Ok(plain(layout, build(xs.len(), &|_, out| kernel(xs, out))));
    }
    let view = View::<T>::new(x)?;
    let blocks = Blocks::new(&view);
    let out = build(x.len(), &|first, part| {
        let mut buffer = Vec::new();
        for (i, out) in part.chunks_mut(BLOCK).enumerate() {
            let xs = blocks.read(first + i * BLOCK, out.len(), &mut buffer);
            for (xs, out) in xs.chunks(strip::<T>()).zip(out.chunks_mut(strip::<T>())) {
                ask(xs);
                kernel(xs, out);
            }
        }
    });
    Ok(value(&x.shape(), out))
}

/// The elements of a small tensor of real numbers that lie in row-major order, and its layout: for them a [`View`] would
/// take longer than the work.
fn few<T: Cell>(x: &Value) -> Option<(&[T], &Layout)> {
    let tensor = x.flex()?;
    let layout = tensor.layout();
    let is_plain = x.dtype() == T::TYPE && !T::TYPE.is_complex() && layout.is_contiguous();
    if !is_plain || !(1..=BLOCK).contains(&layout.num_elements()) {
        return None;
    }
    let elements = bytemuck::try_cast_slice(tensor.bytes()).ok()?;
    Some((elements.get(layout.start_offset()..)?.get(..layout.num_elements())?, layout))
}

/// Results that lie as their operand's elements do.
fn plain<R: Cell>(layout: &Layout, data: Vec<R>) -> Value {
    if R::TYPE.is_complex() {
        return value(layout.shape(), data);
    }
    let layout = Layout::contiguous(layout.shape().clone());
    Value::from_flex(R::TYPE, FlexTensor::new(Bytes::from_elems(data), layout, R::TYPE.storage()))
}

pub(super) fn update_blocks<T: Number>(mut x: Value, kernel: MapFn<'_, T, T>) -> Result<Value> {
    let Some(memory) = own::<T>(&mut x) else { return map_blocks(&x, kernel) };
    chunks(memory, CHUNK, &|_, part| {
        let mut buffer = Vec::new();
        for block in part.chunks_mut(BLOCK) {
            over(block, &mut buffer, kernel);
        }
    });
    Ok(x)
}

pub(super) fn zip_blocks<A: Cell, B: Cell, R: Cell>(a: &Value, b: &Value, loops: &Loops<'_, A, B, R>) -> Result<Value> {
    if let (Some((xs, layout)), Some((ys, _))) = (few::<A>(a), few::<B>(b)) {
        return Ok(plain(layout, build(xs.len(), &|_, out| (loops.both)(xs, ys, out))));
    }
    let (xs, ys) = (View::<A>::new(a)?, View::<B>::new(b)?);
    let (xs, ys) = (Blocks::new(&xs), Blocks::new(&ys));
    let (way, row) = loops.way(&xs, &ys);
    let out = build(a.len(), &|first, part| {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        cut(first, part, row, &mut |at, out| match way {
            Way::Both(both) => both(xs.read(at, out.len(), &mut left), ys.read(at, out.len(), &mut right), out),
            Way::OneLeft(one) => one(xs.one(at), ys.read(at, out.len(), &mut right), out),
            Way::OneRight(one) => one(xs.read(at, out.len(), &mut left), ys.one(at), out),
        });
    });
    Ok(value(&a.shape(), out))
}

/// Which operand is one element for each row, and the loop to take.
enum Way<'a, A, B, R> {
    Both(ZipFn<'a, A, B, R>),
    OneLeft(ZipFn<'a, A, B, R>),
    OneRight(ZipFn<'a, A, B, R>),
}

impl<'a, A: Cell, B: Cell, R> Loops<'a, A, B, R> {
    /// The loop to take for these operands, and elements of a row that blocks must not cross.
    fn way(&self, xs: &Blocks<'_, A>, ys: &Blocks<'_, B>) -> (Way<'a, A, B, R>, usize) {
        match (self.left, xs.repeated(), self.right, ys.repeated()) {
            (_, _, Some(right), Some(row)) => (Way::OneRight(right), row),
            (Some(left), Some(row), _, _) => (Way::OneLeft(left), row),
            _ => (Way::Both(self.both), usize::MAX),
        }
    }
}

/// The blocks of the elements from number `first` on, none of which crosses the end of a row.
fn cut<R>(first: usize, mut part: &mut [R], row: usize, block: &mut dyn FnMut(usize, &mut [R])) {
    let mut at = first;
    while !part.is_empty() {
        let len = BLOCK.min(part.len()).min(row - at % row);
        let (next, rest) = part.split_at_mut(len);
        block(at, next);
        (at, part) = (at + len, rest);
    }
}

pub(super) fn combine_blocks<T: Number>(a: Value, b: Value, loops: &Loops<'_, T, T, T>) -> Result<Value> {
    if is_own::<T>(&a) {
        combine_into(a, &b, loops)
    } else if is_own::<T>(&b) {
        let both = |ys: &[T], xs: &[T], out: &mut [MaybeUninit<T>]| (loops.both)(xs, ys, out);
        let left = loops.left.map(|left| move |ys: &[T], xs: &[T], out: &mut [MaybeUninit<T>]| left(xs, ys, out));
        let right = left.as_ref().map(|left| left as ZipFn<'_, T, T, T>);
        combine_into(b, &a, &Loops { both: &both, left: None, right })
    } else {
        zip_blocks(&a, &b, loops)
    }
}

/// The result in the memory of `a`, which is its alone.
fn combine_into<T: Number>(mut a: Value, b: &Value, loops: &Loops<'_, T, T, T>) -> Result<Value> {
    let ys = View::<T>::new(b)?;
    let ys = Blocks::new(&ys);
    let one = loops.right.zip(ys.repeated());
    let row = one.map_or(usize::MAX, |(_, row)| row);
    let Some(memory) = own::<T>(&mut a) else { return zip_blocks(&a, b, loops) };
    chunks(memory, CHUNK, &|number, part| {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        cut(number * CHUNK, part, row, &mut |at, block| match one {
            Some((one, _)) => over(block, &mut left, &|xs, out| one(xs, ys.one(at), out)),
            None => {
                let ys = ys.read(at, block.len(), &mut right);
                over(block, &mut left, &|xs, out| (loops.both)(xs, ys, out));
            }
        });
    });
    Ok(a)
}

/// The kernel's results in place of its operands.
fn over<T: Number>(block: &mut [T], buffer: &mut Vec<T>, kernel: MapFn<'_, T, T>) {
    buffer.clear();
    buffer.extend_from_slice(block);
    // SAFETY: a kernel only writes initialised elements to the block, so it stays initialised.
    let out = unsafe { std::slice::from_raw_parts_mut(block.as_mut_ptr().cast::<MaybeUninit<T>>(), block.len()) };
    kernel(buffer, out);
}

/// Whether `test` holds for any element.
pub(crate) fn any<T: Cell>(x: &Value, test: impl Fn(T) -> bool + Sync) -> Result<bool> {
    let x = x.clone().contiguous();
    let view = View::<T>::new(&x)?;
    let first = view.layout().start_offset();
    Ok(any_block(&view[first..first + x.len()], &|xs| {
        let mut any = false;
        vectorized(
            #[inline(always)]
            || any = xs.iter().fold(false, |any, &x| any | test(x)),
        );
        any
    }))
}

fn any_block<T: Cell>(xs: &[T], test: &(dyn Fn(&[T]) -> bool + Sync)) -> bool {
    let found = AtomicBool::new(false);
    let mut parts: Vec<&[T]> = xs.chunks(CHUNK).collect();
    chunks(&mut parts, 1, &|_, parts| {
        if !found.load(Ordering::Relaxed) && parts.iter().any(|part| test(part)) {
            found.store(true, Ordering::Relaxed);
        }
    });
    found.into_inner()
}
