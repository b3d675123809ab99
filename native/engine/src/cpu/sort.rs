//! Orders of a line of elements. Equal elements keep their order; NaN is above all numbers.
//!
//! Elements become integers that order alike, each beside its place; these pairs are sorted digit by digit, the least
//! significant first, in runs that are then merged. The number of runs does not matter for the result.

use std::mem::MaybeUninit;

use super::Number;
use super::block::build_parts;
use super::crew::threads;
use super::tasks::{CHUNK, chunks};

/// Shorter runs are sorted by comparison.
const SHORT: usize = 256;

/// From this length on, larger digits pay for their larger tables.
const LONG: usize = 1 << 14;

/// Fills `out` with `result` of the places of the elements in their order, the first ones when there is no room for all.
pub(crate) fn order<T: Number, R: Send>(
    line: &[T],
    descending: bool,
    out: &mut [R],
    result: impl Fn(usize) -> R + Sync,
) {
    let bits = 8 * size_of::<T>() as u32;
    let last = u64::MAX >> (64 - bits);
    let key = |place: usize| if descending { last - line[place].rank() } else { line[place].rank() };
    if bits <= 32 && u32::try_from(line.len()).is_ok() {
        fill::<u32, R>(&sorted(line.len(), bits, &key), out, &result);
    } else {
        fill::<u64, R>(&sorted(line.len(), bits, &key), out, &result);
    }
}

fn fill<W: Word, R: Send>(pairs: &[Pair<W>], out: &mut [R], result: &(dyn Fn(usize) -> R + Sync)) {
    chunks(out, CHUNK, &|number, part| {
        part.iter_mut()
            .zip(&pairs[number * CHUNK..])
            .for_each(|(out, pair)| *out = result(pair.place.whole() as usize));
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

/// The pairs of keys of `bits` bits and their places, by key and then by place.
fn sorted<W: Word>(len: usize, bits: u32, key: &(dyn Fn(usize) -> u64 + Sync)) -> Vec<Pair<W>> {
    let threads = threads();
    let run = if len < 2 * CHUNK { len } else { len.div_ceil(threads) };
    let pair = |place: usize| Pair { key: W::of(key(place)), place: W::of(place as u64) };
    let mut pairs = build_parts(len, run, &|number, part: &mut [MaybeUninit<Pair<W>>]| {
        part.iter_mut().enumerate().for_each(|(i, out)| {
            out.write(pair(number * run + i));
        });
    });
    chunks(&mut pairs, run, &|_, part| sort_run(part, bits));
    let mut run = run;
    while run < len {
        pairs = merged(&pairs, run, len.div_ceil(threads));
        run *= 2;
    }
    pairs
}

fn sort_run<W: Word>(run: &mut [Pair<W>], bits: u32) {
    if run.len() < SHORT {
        return run.sort_unstable_by_key(|pair| (pair.key, pair.place));
    }
    let digit_bits = if run.len() < LONG { 8 } else { 11 };
    let digits = bits.div_ceil(digit_bits) as usize;
    let buckets = 1 << digit_bits;
    let digit = |key: W, at: usize| (key.whole() >> (at as u32 * digit_bits)) as usize & (buckets - 1);
    let mut counts = vec![0; digits * buckets];
    for pair in run.iter() {
        (0..digits).for_each(|at| counts[at * buckets + digit(pair.key, at)] += 1);
    }
    let mut sorted = run.to_vec();
    let mut other = run.to_vec();
    for (at, counts) in counts.chunks_exact_mut(buckets).enumerate() {
        if counts.contains(&run.len()) {
            continue;
        }
        starts(counts);
        for &pair in &sorted {
            let next = &mut counts[digit(pair.key, at)];
            other[*next] = pair;
            *next += 1;
        }
        std::mem::swap(&mut sorted, &mut other);
    }
    run.copy_from_slice(&sorted);
}

/// The place of each bucket's first element, from their numbers of elements.
fn starts(counts: &mut [usize]) {
    let mut start = 0;
    counts.iter_mut().for_each(|count| start += std::mem::replace(count, start));
}

/// Neighbouring runs made one, in tasks of `size` pairs.
fn merged<W: Word>(pairs: &[Pair<W>], run: usize, size: usize) -> Vec<Pair<W>> {
    build_parts(pairs.len(), size, &|number, part| {
        let (mut at, end) = (number * size, number * size + part.len());
        let mut rest = part;
        while at < end {
            let couple = at / (2 * run) * (2 * run);
            let both = &pairs[couple..pairs.len().min(couple + 2 * run)];
            let (left, right) = both.split_at(run.min(both.len()));
            let count = (end - at).min(couple + both.len() - at);
            let (out, later) = rest.split_at_mut(count);
            merge(left, right, at - couple, out);
            (at, rest) = (at + count, later);
        }
    })
}

/// Writes the pairs of two runs in order, from number `first` on.
fn merge<W: Word>(left: &[Pair<W>], right: &[Pair<W>], first: usize, out: &mut [MaybeUninit<Pair<W>>]) {
    let mut i = taken_from_left(left, right, first);
    let mut j = first - i;
    for out in out {
        let from_left = j == right.len() || (i < left.len() && left[i].key <= right[j].key);
        out.write(if from_left { left[i] } else { right[j] });
        i += usize::from(from_left);
        j += usize::from(!from_left);
    }
}

/// How many of the first `count` pairs of two runs in order come from the left one.
fn taken_from_left<W: Word>(left: &[Pair<W>], right: &[Pair<W>], count: usize) -> usize {
    let (mut low, mut high) = (count.saturating_sub(right.len()), count.min(left.len()));
    while low < high {
        let middle = (low + high) / 2;
        if right[count - middle - 1].key >= left[middle].key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
