//! The kernel of Fourier transforms: a step of Stockham's algorithm, which leaves numbers in their order.
//!
//! Lines lie along the middle axis of `[outer, length, inner]`, and neighbouring threads go through the inner one first, so that
//! no axis has to be brought to the end.
#![allow(clippy::too_many_arguments, reason = "a kernel has as many as it has buffers")]

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::function::{bits, number};

/// A step of a transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pass {
    /// How many numbers a thread transforms.
    pub(crate) radix: usize,
    /// Nothing was transformed before.
    pub(crate) first: bool,
    pub(crate) read: Read,
    pub(crate) write: Write,
}

/// How a step reads: the first one of a transform what is given, all others plain complex numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Read {
    /// There are no imaginary parts.
    pub(crate) real: bool,
    /// Of a line that mirrors itself, there is the first half.
    pub(crate) mirrored: bool,
    /// Numbers are multiplied by factors.
    pub(crate) times: bool,
    /// After that, they are conjugated.
    pub(crate) conjugate: bool,
}

/// How a step writes: the last one of a transform what is asked for, all others plain complex numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Write {
    /// Numbers are conjugated.
    pub(crate) conjugate: bool,
    /// After that, they are multiplied by factors.
    pub(crate) times: bool,
    /// They are divided by a number, and small parts of them become zero.
    pub(crate) settles: bool,
    /// Imaginary parts are left out.
    pub(crate) real: bool,
}

/// Where a layout holds the number of threads, the length of lines, of the inner axis, and of what is transformed already; that
/// of a line as it is meant, of those that are read and of those that are written; and bits of a divisor and of the largest part
/// that becomes zero.
const COUNT: usize = 0;
const LENGTH: usize = 1;
const INNER: usize = 2;
const DONE: usize = 3;
const MEANT: usize = 4;
const GIVEN: usize = 5;
const MADE: usize = 6;
const DIVISOR: usize = 7;
const SMALL: usize = 8;

/// A complex number.
#[derive(CubeType, Clone, Copy)]
struct Complex {
    re: f32,
    im: f32,
}

/// Each thread transforms numbers of a line that are apart by a part of its length.
#[cube(launch_unchecked)]
pub(crate) fn transform(
    from: &[u32],
    to: &mut [u32],
    roots: &[u32],
    factors: &[u32],
    layout: &[u32],
    #[comptime] pass: Pass,
) {
    let thread = ABSOLUTE_POS as u32;
    if thread < layout[COUNT] {
        let inner = layout[INNER];
        let apart = layout[LENGTH] / comptime!(pass.radix as u32);
        let column = thread % inner;
        let number_of_part = (thread / inner) % apart;
        let line = thread / inner / apart;
        let done = layout[DONE];
        let within = number_of_part % done;
        let turn = within * (apart / done);
        let mut re = Sequence::<f32>::new();
        let mut im = Sequence::<f32>::new();
        #[unroll]
        for r in 0..pass.radix {
            let k = number_of_part + comptime!(r as u32) * apart;
            let x = read(from, factors, layout, line, k, column, pass);
            if comptime!(pass.first || r == 0) {
                re.push(x.re);
                im.push(x.im);
            } else {
                let x = times(&x, &held(roots, turn * comptime!(r as u32)));
                re.push(x.re);
                im.push(x.im);
            }
        }
        let start = (number_of_part / done) * done * comptime!(pass.radix as u32) + within;
        #[unroll]
        for q in 0..pass.radix {
            let mut sum_re = *re.index(0usize);
            let mut sum_im = *im.index(0usize);
            #[unroll]
            for r in 1..pass.radix {
                let x = Complex { re: *re.index(r), im: *im.index(r) };
                let x = turned(&x, comptime!(q * r % pass.radix), pass.radix);
                sum_re += x.re;
                sum_im += x.im;
            }
            let k = start + comptime!(q as u32) * done;
            write(to, factors, layout, line, k, column, &Complex { re: sum_re, im: sum_im }, pass);
        }
    }
}

#[cube]
fn times(x: &Complex, y: &Complex) -> Complex {
    Complex { re: x.re * y.re - x.im * y.im, im: x.re * y.im + x.im * y.re }
}

/// The number times the root of one that is so many steps of a circle, clockwise.
#[cube]
fn turned(x: &Complex, #[comptime] step: usize, #[comptime] steps: usize) -> Complex {
    if comptime!(step == 0) {
        Complex { re: x.re, im: x.im }
    } else if comptime!(2 * step == steps) {
        Complex { re: -x.re, im: -x.im }
    } else if comptime!(4 * step == steps) {
        Complex { re: x.im, im: -x.re }
    } else if comptime!(4 * step == 3 * steps) {
        Complex { re: -x.im, im: x.re }
    } else {
        let root =
            Complex { re: comptime!(cosine(step, steps)).runtime(), im: comptime!(-sine(step, steps)).runtime() };
        times(x, &root)
    }
}

fn angle(step: usize, steps: usize) -> f64 {
    std::f64::consts::TAU * step as f64 / steps as f64
}

fn cosine(step: usize, steps: usize) -> f32 {
    angle(step, steps).cos() as f32
}

fn sine(step: usize, steps: usize) -> f32 {
    angle(step, steps).sin() as f32
}

/// A complex number of a table.
#[cube]
fn held(table: &[u32], at: u32) -> Complex {
    Complex { re: number(table[(2u32 * at) as usize]), im: number(table[(2u32 * at + 1u32) as usize]) }
}

/// The number at a place of a line, zero where it ends.
#[cube]
fn read(
    from: &[u32],
    factors: &[u32],
    layout: &[u32],
    line: u32,
    k: u32,
    column: u32,
    #[comptime] pass: Pass,
) -> Complex {
    let length = layout[MEANT];
    let mut place = k;
    let mut second = false.runtime();
    if comptime!(pass.read.mirrored) {
        second = k > length / 2u32;
        place = select(second, length - k, k);
    }
    let exists = (k < length) & (place < layout[GIVEN]);
    let at = select(exists, (line * layout[GIVEN] + place) * layout[INNER] + column, 0u32.runtime());
    let mut re = 0.0f32.runtime();
    let mut im = 0.0f32.runtime();
    if comptime!(pass.read.real) {
        re = select(exists, number(from[at as usize]), re);
    } else {
        let x = held(from, at);
        re = select(exists, x.re, re);
        im = select(exists, select(second, -x.im, x.im), im);
    }
    if comptime!(pass.read.times) {
        // Where there is no number, there may be no factor.
        let x = times(&Complex { re, im }, &held(factors, select(exists, k, 0u32.runtime())));
        re = x.re;
        im = x.im;
    }
    if comptime!(pass.read.conjugate) {
        im = -im;
    }
    Complex { re, im }
}

/// Writes the number at a place of a line, if that has it.
#[cube]
fn write(
    to: &mut [u32],
    factors: &[u32],
    layout: &[u32],
    line: u32,
    k: u32,
    column: u32,
    x: &Complex,
    #[comptime] pass: Pass,
) {
    if k < layout[MADE] {
        let mut re = x.re;
        let mut im = x.im;
        if comptime!(pass.write.conjugate) {
            im = -im;
        }
        if comptime!(pass.write.times) {
            let x = times(&Complex { re, im }, &held(factors, k));
            re = x.re;
            im = x.im;
        }
        if comptime!(pass.write.settles) {
            re = settled(re, layout);
            im = settled(im, layout);
        }
        let at = (line * layout[MADE] + k) * layout[INNER] + column;
        if comptime!(pass.write.real) {
            to[at as usize] = bits(re);
        } else {
            to[(2u32 * at) as usize] = bits(re);
            to[(2u32 * at + 1u32) as usize] = bits(im);
        }
    }
}

#[cube]
fn settled(x: f32, layout: &[u32]) -> f32 {
    let divided = bits(x / number(layout[DIVISOR]));
    number(select((divided & 0x7fff_ffffu32) <= layout[SMALL], 0u32.runtime(), divided))
}
