//! Tables of numbers that are computed on the host once, for kernels that need them again and again.

use std::f64::consts::{PI, TAU};

use burn_cubecl::cubecl::prelude::BufferArg;
use burn_cubecl::cubecl::server::Handle;
use num_complex::Complex64;
use parking_lot::Mutex;

use super::Adapter;
use super::recorded::transferred;
use crate::error::Result;
use crate::ops::fft;

/// Most tables that are kept on a GPU, and how many numbers in all.
const TABLES: usize = 64;
const NUMBERS: usize = 1 << 23;

/// What a table holds, for transforms of a length; some are others for inverse transforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// The powers of the root of one that has this exponent, clockwise.
    Roots(usize),
    /// The factors of Bluestein's algorithm.
    Chirp(usize, bool),
    /// The transform of their conjugates, divided by its length, by which it is inverted.
    Spectrum(usize, bool),
}

/// The length of the transforms that Bluestein's algorithm uses for one of length `n`.
pub(super) fn padded(n: usize) -> usize {
    (2 * n - 1).next_power_of_two()
}

impl Table {
    fn numbers(self) -> Vec<Complex64> {
        match self {
            Table::Roots(n) => (0..n).map(|k| Complex64::cis(-TAU * k as f64 / n as f64)).collect(),
            Table::Chirp(n, inverse) => chirp(n, inverse),
            Table::Spectrum(n, inverse) => spectrum(n, inverse),
        }
    }
}

/// The squares of places are taken modulo twice the length, so that their angles are as exact as small ones.
fn chirp(n: usize, inverse: bool) -> Vec<Complex64> {
    let sign = if inverse { 1.0 } else { -1.0 };
    let square = |k: usize| (k as u128 * k as u128 % (2 * n as u128)) as f64;
    (0..n).map(|k| Complex64::cis(sign * PI * square(k) / n as f64)).collect()
}

fn spectrum(n: usize, inverse: bool) -> Vec<Complex64> {
    let m = padded(n);
    let mut numbers = vec![Complex64::ZERO; m];
    for (k, x) in chirp(n, inverse).into_iter().enumerate() {
        let share = x.conj() / m as f64;
        (numbers[k], numbers[(m - k) % m]) = (share, share);
    }
    fft::plan(m, false).process(&mut numbers);
    numbers
}

/// Tables, those used last at the end.
#[derive(Default)]
pub(super) struct Tables(Mutex<Vec<(Table, Handle, usize)>>);

/// A table as complex numbers of single precision, which kernels only read.
///
/// # Errors
///
/// As [`Adapter::client`].
pub(super) fn table(adapter: Adapter, table: Table) -> Result<BufferArg> {
    let client = adapter.client()?;
    let known = |kept: &mut Vec<(Table, Handle, usize)>| {
        let place = kept.iter().position(|(known, ..)| *known == table)?;
        let (_, handle, len) = kept.remove(place);
        kept.push((table, handle.clone(), len));
        Some((handle, len))
    };
    let there = known(&mut adapter.tables().0.lock());
    let (handle, len) = there.unwrap_or_else(|| {
        // Without the lock, as layouts are.
        let words: Vec<f32> = table.numbers().iter().flat_map(|x| [x.re as f32, x.im as f32]).collect();
        transferred();
        (client.create_from_slice(bytemuck::cast_slice(&words)), words.len())
    });
    let mut kept = adapter.tables().0.lock();
    kept.retain(|(known, ..)| *known != table);
    kept.push((table, handle.clone(), len));
    let too_many = |kept: &[(Table, Handle, usize)]| {
        kept.len() > TABLES || kept.iter().map(|(.., len)| len / 2).sum::<usize>() > NUMBERS
    };
    while kept.len() > 1 && too_many(&kept) {
        kept.remove(0);
    }
    // SAFETY: it holds so many words.
    Ok(unsafe { BufferArg::from_raw_parts(handle, len) })
}
