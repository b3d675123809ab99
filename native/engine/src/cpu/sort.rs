//! Orders of a line of elements. Equal elements keep their order; NaN is above all numbers.
//!
//! Elements become integers that order alike. They are sorted digit by digit, the least significant first: each core counts
//! the digits of its part, and then moves the part's elements to where those of all parts with lower digits, and those of
//! earlier parts with the same digit, leave off.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::Number;
use super::block::build_parts;
use super::crew::threads;
use super::tasks::{CHUNK, chunks};

/// Shorter lines are sorted by comparison.
const SHORT: usize = 256;

/// From this length on, larger digits pay for their larger tables.
const LONG: usize = 1 << 14;

/// Fills `out` with the elements in their order, the first ones when there is no room for all.
pub(crate) fn sort<T: Number>(line: &[T], descending: bool, out: &mut [T]) {
    let sorted = by_key(line.to_vec(), bits::<T>(), move |x| key(x, descending));
    out.copy_from_slice(&sorted[..out.len()]);
}

/// Fills `out` with the places of the elements in their order, the first ones when there is no room for all.
pub(crate) fn argsort<T: Number>(line: &[T], descending: bool, out: &mut [i64]) {
    if bits::<T>() <= 32 && u32::try_from(line.len()).is_ok() {
        places::<T, u32>(line, descending, out);
    } else {
        places::<T, u64>(line, descending, out);
    }
}

fn bits<T>() -> u32 {
    8 * size_of::<T>() as u32
}

/// A number of as many bits as the element, which orders as wanted.
#[inline(always)]
fn key<T: Number>(x: T, descending: bool) -> u64 {
    if descending { (u64::MAX >> (64 - bits::<T>())) - x.rank() } else { x.rank() }
}

fn places<T: Number, W: Word>(line: &[T], descending: bool, out: &mut [i64]) {
    let pairs = build_parts(line.len(), CHUNK, &|number, part: &mut [MaybeUninit<Pair<W>>]| {
        let first = number * CHUNK;
        for (i, (pair, &x)) in part.iter_mut().zip(&line[first..]).enumerate() {
            pair.write(Pair { key: W::of(key(x, descending)), place: W::of((first + i) as u64) });
        }
    });
    let sorted = by_key(pairs, bits::<T>(), |pair| pair.key.whole());
    chunks(out, CHUNK, &|number, part| {
        let pairs = &sorted[number * CHUNK..];
        part.iter_mut().zip(pairs).for_each(|(out, pair)| *out = pair.place.whole() as i64);
    });
}

/// A key or a place.
trait Word: Copy + Ord + Send + Sync {
    fn of(whole: u64) -> Self;

    fn whole(self) -> u64;
}

macro_rules! words {
    ($($t:ident)*) => {$(
        impl Word for $t {
            fn of(whole: u64) -> Self {
                whole as $t
            }

            fn whole(self) -> u64 {
                self.into()
            }
        }
    )*};
}

words!(u32 u64);

#[derive(Clone, Copy)]
struct Pair<W> {
    key: W,
    place: W,
}

/// The items by their keys of `bits` bits; those with one key keep their order.
fn by_key<I: Copy + Send + Sync>(mut items: Vec<I>, bits: u32, key: impl Fn(I) -> u64 + Sync) -> Vec<I> {
    if items.len() < SHORT {
        items.sort_by_key(|&item| key(item));
        return items;
    }
    let digit_bits = if items.len() < LONG { 8 } else { 11 };
    let mut moved = items.clone();
    for shift in (0..bits).step_by(digit_bits) {
        let digit = |item: I| (key(item) >> shift) as usize & ((1 << digit_bits) - 1);
        if by_digit(&items, &mut moved, 1 << digit_bits, &digit) {
            std::mem::swap(&mut items, &mut moved);
        }
    }
    items
}

/// Writes the items to `out` by their digits below `buckets`; false when that would not move any, and nothing is written.
fn by_digit<I: Copy + Send + Sync>(
    items: &[I],
    out: &mut [I],
    buckets: usize,
    digit: &(impl Fn(I) -> usize + Sync),
) -> bool {
    let size = if items.len() < 2 * CHUNK { items.len() } else { items.len().div_ceil(threads()) };
    let mut tables = vec![0; items.len().div_ceil(size) * buckets];
    chunks(&mut tables, buckets, &|part, counts| {
        part_of(items, part, size).iter().for_each(|&item| counts[digit(item)] += 1);
    });
    if starts(&mut tables, buckets, items.len()) {
        return false;
    }
    let out = Places::new(out);
    chunks(&mut tables, buckets, &|part, places| {
        for &item in part_of(items, part, size) {
            let place = &mut places[digit(item)];
            // SAFETY: the tables count all items, so each place is that of one item.
            unsafe { out.write(*place, item) };
            *place += 1;
        }
    });
    true
}

fn part_of<I>(items: &[I], part: usize, size: usize) -> &[I] {
    &items[part * size..items.len().min((part + 1) * size)]
}

/// Turns each part's numbers of items in each bucket into the places of their first ones; true when one bucket has all
/// `len` items.
fn starts(tables: &mut [usize], buckets: usize, len: usize) -> bool {
    let mut start = 0;
    for bucket in 0..buckets {
        let before = start;
        for count in tables.iter_mut().skip(bucket).step_by(buckets) {
            start += std::mem::replace(count, start);
        }
        if start - before == len {
            return true;
        }
    }
    false
}

/// A slice that several threads write to, each to places of its own.
struct Places<'a, I> {
    first: *mut I,
    len: usize,
    slice: PhantomData<&'a mut [I]>,
}

// SAFETY: items are only moved in, by callers of `write` who see to it that no two write to one place.
unsafe impl<I: Send> Sync for Places<'_, I> {}

impl<'a, I: Copy> Places<'a, I> {
    fn new(slice: &'a mut [I]) -> Self {
        Self { first: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    /// # Safety
    ///
    /// No other thread writes to this place.
    #[inline(always)]
    unsafe fn write(&self, place: usize, item: I) {
        assert!(place < self.len, "an item has a place");
        // SAFETY: the place is inside of the slice, which is borrowed mutably, and no other thread writes to it.
        unsafe { self.first.add(place).write(item) };
    }
}
