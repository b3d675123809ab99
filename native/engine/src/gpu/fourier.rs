//! Fourier transforms on a GPU: lengths without prime factors above 7 by Stockham's steps, all others by Bluestein's algorithm.

use burn_cubecl::cubecl::calculate_cube_count_elemwise;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::tensor::CubeTensor;

use super::kernel::fourier::{self as kernel, Pass, Read, Write};
use super::launch::{buffer, counted, lost};
use super::tables::{Table, padded, table};
use super::transfer::{empty, from_cube};
use super::{Adapter, cast, layouts};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{Op, Transform};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// The transform; `None` where the CPU has to say what is wrong, or where there is no kernel.
pub(super) fn run(call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([x], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    let passes: Vec<(Transform, usize, usize, f64)> = match call.op {
        Op::Fft(attrs) => vec![(attrs.transform, attrs.axis, attrs.length, attrs.eps)],
        Op::Fft2(attrs) if matches!(attrs.transform, Transform::Fft | Transform::Ifft) => {
            let axes = attrs.axes.iter().zip(&attrs.lengths).rev();
            axes.map(|(&axis, &length)| (attrs.transform, axis, length, attrs.eps)).collect()
        }
        _ => return Ok(None),
    };
    let dtype = if x.dtype() == Type::C64 { Type::C64 } else { Type::F32 };
    let Some(mut x) = (if dtype == x.dtype() { Some(x.clone()) } else { cast(x, dtype, adapter)? }) else {
        return Ok(None);
    };
    let mut shapes = vec![x.shape()];
    for &(transform, axis, length, _) in &passes {
        let mut shape = shapes[shapes.len() - 1].clone();
        if axis >= shape.len() || length == 0 || shape.contains(&0) {
            return Ok(None);
        }
        shape[axis] = if transform == Transform::Rfft { length / 2 + 1 } else { length };
        shapes.push(shape);
    }
    let real = |transform: Transform| transform == Transform::Irfft;
    let made = if passes.iter().any(|pass| real(pass.0)) { Type::F32 } else { Type::C64 };
    if shapes.last() != Some(&out.shape) || out.dtype != made {
        return Ok(None);
    }
    for ((transform, axis, length, eps), shape) in passes.into_iter().zip(&shapes[1..]) {
        let out = TensorType::new(if real(transform) { Type::F32 } else { Type::C64 }, shape.clone());
        let lines = Lines::new(&x, axis, length, shape[axis], adapter);
        if !lines.fit()? {
            return Ok(None);
        }
        x = lines.transform(&x, transform, eps, &out)?;
    }
    Ok(Some(x))
}

/// Lines of a tensor `[outer, given, inner]` that are transformed as ones of `length`, of whose results `made` are asked for.
struct Lines {
    outer: usize,
    inner: usize,
    given: usize,
    length: usize,
    made: usize,
    adapter: Adapter,
}

impl Lines {
    fn new(x: &Value, axis: usize, length: usize, made: usize, adapter: Adapter) -> Self {
        let shape = x.shape();
        let [outer, inner] = [&shape[..axis], &shape[axis + 1..]].map(|axes| axes.iter().product());
        Self { outer, inner, given: shape[axis], length, made, adapter }
    }

    /// Whether the GPU can hold what lies between the steps.
    fn fit(&self) -> Result<bool> {
        let length = if radices(self.length).is_some() { self.length } else { padded(self.length) };
        let words = [self.inner, length, 2].iter().try_fold(self.outer, |all, &n| all.checked_mul(n));
        let largest = self.adapter.largest()? / 4;
        Ok(words.is_some_and(|words| counted(words).is_ok() && words <= largest))
    }

    fn transform(&self, x: &Value, transform: Transform, eps: f64, out: &TensorType) -> Result<Value> {
        let x_tensor = x.cube().ok_or_else(lost)?;
        let inverse = matches!(transform, Transform::Ifft | Transform::Irfft);
        let result = empty(out, self.adapter)?;
        let run = Run {
            length: self.length,
            meant: self.length,
            from: (x_tensor, self.given),
            to: (&result, self.made),
            read: Read {
                real: !x.dtype().is_complex(),
                mirrored: transform == Transform::Irfft,
                conjugate: inverse,
                times: false,
            },
            write: Write { conjugate: inverse, times: false, settles: true, real: !out.dtype.is_complex() },
            factors: [Table::Roots(1); 2],
            settled: [if inverse { self.length as f32 } else { 1.0 }, eps as f32],
        };
        match radices(self.length) {
            Some(radices) => self.steps(run, &radices)?,
            None => self.bluestein(run, inverse)?,
        }
        Ok(from_cube(out.dtype, result))
    }

    /// As a convolution, whose length may be any that is long enough.
    fn bluestein(&self, run: Run<'_>, inverse: bool) -> Result<()> {
        let (n, m) = (self.length, padded(self.length));
        let Some(radices) = radices(m) else { return Err(lost()) };
        let between = empty(&self.numbers(m), self.adapter)?;
        let factors = [Table::Chirp(n, inverse); 2];
        let forth = Run {
            length: m,
            to: (&between, m),
            read: Read { times: true, conjugate: false, ..run.read },
            write: Write::default(),
            factors,
            ..run
        };
        self.steps(forth, &radices)?;
        let back = Run {
            length: m,
            meant: m,
            from: (&between, m),
            read: Read { times: true, conjugate: true, ..Read::default() },
            write: Write { conjugate: true, times: true, ..run.write },
            factors: [Table::Spectrum(n, inverse), factors[1]],
            ..run
        };
        self.steps(back, &radices)
    }

    fn numbers(&self, length: usize) -> TensorType {
        TensorType::new(Type::C64, [self.outer, length, self.inner])
    }

    /// The steps of a transform, one for each radix.
    fn steps(&self, run: Run<'_>, radices: &[usize]) -> Result<()> {
        let mut from = run.from.0.clone();
        let mut done = 1;
        for (number, &radix) in radices.iter().enumerate() {
            let (first, last) = (number == 0, number + 1 == radices.len());
            let pass = Pass {
                radix,
                first,
                read: if first { run.read } else { Read::default() },
                write: if last { run.write } else { Write::default() },
            };
            let to = if last { run.to.0.clone() } else { empty(&self.numbers(run.length), self.adapter)? };
            let [meant, given] = if first { [run.meant, run.from.1] } else { [run.length; 2] };
            let made = if last { run.to.1 } else { run.length };
            self.step(&run, pass, [&from, &to], [done, meant, given, made])?;
            from = to;
            done *= radix;
        }
        Ok(())
    }

    fn step(&self, run: &Run<'_>, pass: Pass, [from, to]: [&CubeTensor; 2], lengths: [usize; 4]) -> Result<()> {
        let threads = counted(self.outer * self.inner * (run.length / pass.radix))?;
        let counts = [threads, run.length, self.inner].into_iter().chain(lengths).map(|number| number as u32);
        let layout: Vec<u32> = counts.chain(run.settled.map(f32::to_bits)).collect();
        let factors = if pass.read.times { run.factors[0] } else { run.factors[1] };
        let client = self.adapter.client()?;
        let dim = CubeDim::new(client, threads);
        // SAFETY: a thread reads and writes inside of its line, at places of its own; there is a root and a factor for each.
        unsafe {
            kernel::transform::launch_unchecked(
                client,
                calculate_cube_count_elemwise(client, threads, dim),
                dim,
                buffer(from),
                buffer(to),
                table(self.adapter, Table::Roots(run.length))?,
                table(self.adapter, factors)?,
                layouts::words(self.adapter, &layout)?,
                pass,
            )
        };
        Ok(())
    }
}

/// A transform of lines of `length` that are meant as ones of another, from a tensor of lines to another.
#[derive(Clone, Copy)]
struct Run<'a> {
    length: usize,
    meant: usize,
    from: (&'a CubeTensor, usize),
    to: (&'a CubeTensor, usize),
    read: Read,
    write: Write,
    /// By which the first step multiplies what it reads, and the last one what it writes.
    factors: [Table; 2],
    /// By what results are divided, and what is small.
    settled: [f32; 2],
}

/// The numbers that steps transform at once; `None` for a length with a large prime factor.
fn radices(length: usize) -> Option<Vec<usize>> {
    let (mut rest, mut radices) = (length, Vec::new());
    for radix in [8, 4, 2, 7, 5, 3] {
        while rest.is_multiple_of(radix) {
            rest /= radix;
            radices.push(radix);
        }
    }
    // A single number is its own transform.
    if radices.is_empty() {
        radices.push(1);
    }
    (rest == 1).then_some(radices)
}
