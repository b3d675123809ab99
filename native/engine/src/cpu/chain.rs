//! Several functions of single-precision numbers in one loop: what is between them stays in registers.
//!
//! Each is computed and rounded as in a loop of its own, so the results are the same.

use std::mem::MaybeUninit;

use bytemuck::{cast, cast_slice, cast_slice_mut, pod_read_unaligned};
use pulp::{Arch, Simd, WithSimd};

use super::quotient::{Divisor, Sizes};
use super::single;
use crate::program::{Binary, Op, Unary};

/// Most functions in one loop.
pub(crate) const LINKS: usize = 16;

/// Vectors that are computed side by side: so many that finding the next function takes no time beside them, and so few
/// that they fit in the registers.
const WIDTH: usize = 8;

/// Elements in that many of the longest vectors.
const GROUP: usize = WIDTH * 16;

/// What the functions so far have made of some elements.
type Running<S> = [<S as Simd>::f32s; WIDTH];

/// A function that a chain may have: of what its functions so far have made, and perhaps of something beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Abs,
    Add,
    Divide,
    Erf,
    Exp,
    Max,
    Min,
    Multiply,
    Negate,
    Sigmoid,
    Sqrt,
    Subtract,
    Tanh,
}

impl Link {
    /// The function of an operation on `f32`, where chains have it.
    pub(crate) fn of(op: &Op) -> Option<Self> {
        Some(match op {
            Op::Binary(Binary::Add) => Self::Add,
            Op::Binary(Binary::Divide) => Self::Divide,
            Op::Binary(Binary::Max) => Self::Max,
            Op::Binary(Binary::Min) => Self::Min,
            Op::Binary(Binary::Multiply) => Self::Multiply,
            Op::Binary(Binary::Subtract) => Self::Subtract,
            Op::Unary(Unary::Abs) => Self::Abs,
            Op::Unary(Unary::Erf) => Self::Erf,
            Op::Unary(Unary::Exp) => Self::Exp,
            Op::Unary(Unary::Negate) => Self::Negate,
            Op::Unary(Unary::Sigmoid) => Self::Sigmoid,
            Op::Unary(Unary::Sqrt) => Self::Sqrt,
            Op::Unary(Unary::Tanh) => Self::Tanh,
            _ => return None,
        })
    }
}

/// The other operand of a function.
#[derive(Clone, Copy)]
pub(crate) enum Beside<'a> {
    /// None, or the same numbers.
    Same,
    /// One number for all.
    One(f32),
    /// One number that all are divided by.
    By(Divisor<f32>),
    /// A number for each.
    Many(&'a [f32]),
    /// A number for each, times one number.
    Times(&'a [f32], f32),
}

impl<'a> Beside<'a> {
    /// The `len` numbers from number `first` on, in a group.
    fn within(self, first: usize, len: usize, group: &'a mut [f32; GROUP]) -> Self {
        let mut copied = |ys: &[f32]| group[..len].copy_from_slice(&ys[first..first + len]);
        match self {
            Self::Same | Self::One(_) | Self::By(_) => self,
            Self::Many(ys) => {
                copied(ys);
                Self::Many(group)
            }
            Self::Times(ys, by) => {
                copied(ys);
                Self::Times(group, by)
            }
        }
    }
}

/// A function with its other operand.
#[derive(Clone, Copy)]
pub(crate) struct Linked<'a> {
    pub(crate) link: Link,
    pub(crate) beside: Beside<'a>,
    /// Whether the other operand is the first one.
    pub(crate) turned: bool,
}

impl Linked<'_> {
    /// One that nobody looks at.
    pub(crate) const NONE: Self = Self { link: Link::Abs, beside: Beside::Same, turned: false };

    /// The same with the processor's division.
    fn plain(self) -> Self {
        match self.beside {
            Beside::By(by) => Self { beside: Beside::One(by.number()), ..self },
            _ => self,
        }
    }
}

/// The functions of `links` one after the other, of each element of `xs`.
///
/// # Panics
///
/// When other operands or places for results are fewer than the elements, or the functions more than [`LINKS`].
pub(crate) fn chain(xs: &[f32], links: &[Linked<'_>], out: &mut [MaybeUninit<f32>]) {
    if !usual(xs, links, out) {
        let mut plain = [Linked::NONE; LINKS];
        plain.iter_mut().zip(links).for_each(|(plain, linked)| *plain = linked.plain());
        usual(xs, &plain[..links.len()], out);
    }
}

/// Answers whether all numbers were of a size to be divided [by](Beside::By) others.
fn usual(xs: &[f32], links: &[Linked<'_>], out: &mut [MaybeUninit<f32>]) -> bool {
    let whole = xs.len() / GROUP * GROUP;
    let is_usual = Arch::new().dispatch(Chain { xs: &xs[..whole], links, out: &mut out[..whole] });
    is_usual && (whole == xs.len() || rest(&xs[whole..], links, whole, &mut out[whole..]))
}

/// Fewer elements than a group, the others before them: the rest of the group may be any numbers.
fn rest(xs: &[f32], links: &[Linked<'_>], first: usize, out: &mut [MaybeUninit<f32>]) -> bool {
    let mut groups = [[0.0; GROUP]; LINKS + 1];
    let mut made = [MaybeUninit::uninit(); GROUP];
    let (start, others) = groups.split_at_mut(1);
    start[0][..xs.len()].copy_from_slice(xs);
    let mut padded = [Linked::NONE; LINKS];
    for ((linked, &of), group) in padded.iter_mut().zip(links).zip(others) {
        *linked = of;
        linked.beside = of.beside.within(first, xs.len(), group);
    }
    let is_usual = Arch::new().dispatch(Chain { xs: &start[0], links: &padded[..links.len()], out: &mut made });
    out.copy_from_slice(&made[..xs.len()]);
    is_usual
}

/// A chain of whole groups.
struct Chain<'a> {
    xs: &'a [f32],
    links: &'a [Linked<'a>],
    out: &'a mut [MaybeUninit<f32>],
}

impl WithSimd for Chain<'_> {
    type Output = bool;

    // The compiler keeps the numbers in registers only while all of this is one function without calls.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        let mut sizes = Sides::<S>::none(simd);
        for at in (0..self.xs.len()).step_by(WIDTH * S::F32_LANES) {
            let mut xs = load::<S>(self.xs, at);
            for linked in self.links {
                xs = match linked.link {
                    Link::Abs => vectors::<S>(xs, |x| simd.abs_f32s(x)),
                    Link::Add => pairs(simd, xs, linked, at, |x, y| simd.add_f32s(x, y)),
                    Link::Divide => match linked.beside {
                        Beside::By(by) => {
                            sizes.add(simd, &xs);
                            numbers::<S>(xs, |x| by.quotient(x))
                        }
                        _ => pairs(simd, xs, linked, at, |x, y| simd.div_f32s(x, y)),
                    },
                    Link::Erf => numbers::<S>(xs, single::erf),
                    Link::Exp => numbers::<S>(xs, single::exp),
                    Link::Max => pairs(simd, xs, linked, at, |x, y| extremum(simd, simd.greater_than_f32s(y, x), x, y)),
                    Link::Min => pairs(simd, xs, linked, at, |x, y| extremum(simd, simd.less_than_f32s(y, x), x, y)),
                    Link::Multiply => pairs(simd, xs, linked, at, |x, y| simd.mul_f32s(x, y)),
                    Link::Negate => vectors::<S>(xs, |x| simd.neg_f32s(x)),
                    Link::Sigmoid => numbers::<S>(xs, single::sigmoid),
                    Link::Sqrt => vectors::<S>(xs, |x| simd.sqrt_f32s(x)),
                    Link::Subtract => pairs(simd, xs, linked, at, |x, y| simd.sub_f32s(x, y)),
                    Link::Tanh => numbers::<S>(xs, single::tanh),
                };
            }
            self.out[at..at + WIDTH * S::F32_LANES].write_copy_of_slice(cast_slice(&xs));
        }
        sizes.are_usual()
    }
}

/// [`Sizes`] of vectors, side by side.
struct Sides<S: Simd> {
    least: S::u32s,
    most: S::u32s,
}

impl<S: Simd> Sides<S> {
    #[inline(always)]
    fn none(simd: S) -> Self {
        let Sizes { least, most } = Sizes::<f32>::none();
        Self { least: simd.splat_u32s(least), most: simd.splat_u32s(most) }
    }

    #[inline(always)]
    fn add(&mut self, simd: S, xs: &Running<S>) {
        for &x in xs {
            let bits = simd.and_u32s(cast(x), simd.splat_u32s(u32::MAX >> 1));
            self.least = simd.min_u32s(self.least, simd.sub_u32s(bits, simd.splat_u32s(1)));
            self.most = simd.max_u32s(self.most, bits);
        }
    }

    #[inline(always)]
    fn are_usual(self) -> bool {
        let sides = [self.least, self.most];
        let (least, most) = cast_slice::<S::u32s, u32>(&sides).split_at(S::U32_LANES);
        let all = least.iter().zip(most).map(|(&least, &most)| Sizes::<f32> { least, most });
        all.fold(Sizes::none(), Sizes::join).are_usual()
    }
}

#[inline(always)]
fn load<S: Simd>(numbers: &[f32], at: usize) -> Running<S> {
    pod_read_unaligned(cast_slice(&numbers[at..at + WIDTH * S::F32_LANES]))
}

/// A function of vectors.
#[inline(always)]
fn vectors<S: Simd>(mut xs: Running<S>, f: impl Fn(S::f32s) -> S::f32s) -> Running<S> {
    for x in &mut xs {
        *x = f(*x);
    }
    xs
}

/// A function of numbers, which the compiler makes one of vectors.
#[inline(always)]
fn numbers<S: Simd>(xs: Running<S>, f: impl Fn(f32) -> f32) -> Running<S> {
    let mut made = xs;
    for x in cast_slice_mut::<S::f32s, f32>(&mut made) {
        *x = f(*x);
    }
    made
}

/// A function of vectors and those beside them.
#[inline(always)]
fn pairs<S: Simd>(
    simd: S,
    mut xs: Running<S>,
    linked: &Linked<'_>,
    at: usize,
    f: impl Fn(S::f32s, S::f32s) -> S::f32s,
) -> Running<S> {
    match (linked.beside, linked.turned) {
        (Beside::Same, _) => xs.iter_mut().for_each(|x| *x = f(*x, *x)),
        (Beside::By(by), _) => {
            let y = simd.splat_f32s(by.number());
            xs.iter_mut().for_each(|x| *x = f(*x, y));
        }
        (Beside::One(y), false) => {
            let y = simd.splat_f32s(y);
            xs.iter_mut().for_each(|x| *x = f(*x, y));
        }
        (Beside::One(y), true) => {
            let y = simd.splat_f32s(y);
            xs.iter_mut().for_each(|x| *x = f(y, *x));
        }
        (Beside::Many(ys), false) => {
            let ys = load::<S>(ys, at);
            (0..WIDTH).for_each(|i| xs[i] = f(xs[i], ys[i]));
        }
        (Beside::Many(ys), true) => {
            let ys = load::<S>(ys, at);
            (0..WIDTH).for_each(|i| xs[i] = f(ys[i], xs[i]));
        }
        (Beside::Times(ys, by), false) => {
            let (ys, by) = (load::<S>(ys, at), simd.splat_f32s(by));
            (0..WIDTH).for_each(|i| xs[i] = f(xs[i], simd.mul_f32s(ys[i], by)));
        }
        (Beside::Times(ys, by), true) => {
            let (ys, by) = (load::<S>(ys, at), simd.splat_f32s(by));
            (0..WIDTH).for_each(|i| xs[i] = f(simd.mul_f32s(ys[i], by), xs[i]));
        }
    }
    xs
}

/// `y` where it wins over `x` or is NaN.
#[inline(always)]
fn extremum<S: Simd>(simd: S, wins: S::m32s, x: S::f32s, y: S::f32s) -> S::f32s {
    simd.select_f32s(simd.equal_f32s(y, y), simd.select_f32s(wins, y, x), y)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `x` less 1, divided by `y`.
    fn quotients(xs: &[f32], y: f32) -> Vec<u32> {
        let beside = Divisor::new(y).map_or(Beside::One(y), Beside::By);
        let links = [
            Linked { link: Link::Subtract, beside: Beside::One(1.0), turned: false },
            Linked { link: Link::Divide, beside, turned: false },
        ];
        let mut out = vec![MaybeUninit::uninit(); xs.len()];
        chain(xs, &links, &mut out);
        // SAFETY: each place was written.
        out.iter().map(|r| unsafe { r.assume_init() }.to_bits()).collect()
    }

    #[test]
    fn quotients_of_sizes_of_all_kinds_are_those_of_the_processor() {
        let usual: Vec<f32> = (0..1000).map(|i| (i as f32 - 300.0) * 0.377).collect();
        let with = |x: f32, at: usize| {
            let mut xs = usual.clone();
            xs[at] = x;
            xs
        };
        let odd = [f32::MAX, f32::MIN_POSITIVE, f32::INFINITY, -f32::INFINITY, 1.0, -0.0, 1e-45];
        let cases =
            odd.into_iter().flat_map(|x| [with(x, 5), with(x, 999)]).chain([usual.clone(), usual[..7].to_vec()]);
        for xs in cases {
            for y in [3.0f32, 0.1, 1.5e-7, 1e30, -2.0, 0.0, f32::INFINITY] {
                let expected: Vec<u32> = xs.iter().map(|x| ((x - 1.0) / y).to_bits()).collect();
                let same = |(a, b): (&u32, &u32)| a == b || f32::from_bits(*a).is_nan() && f32::from_bits(*b).is_nan();
                assert!(quotients(&xs, y).iter().zip(&expected).all(same), "divided by {y:e}");
            }
        }
    }
}
