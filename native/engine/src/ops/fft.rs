//! Discrete Fourier transforms of any length, by the `rustfft` crate in double precision.

use std::sync::{Arc, Mutex, PoisonError};

use burn_backend::Slice;
use num_complex::Complex64;
use rustfft::{FftDirection, FftPlanner};

use crate::cpu::{self, Cell};
use crate::error::Result;
use crate::ops::autodiff::is_tracked;
use crate::ops::{Call, cast, check};
use crate::program::{Fft, Fft2, Transform};
use crate::types::Type;
use crate::value::Value;

type Plan = Arc<dyn rustfft::Fft<f64>>;

/// The transform of each line along an axis.
pub(super) fn fft(attrs: &Fft, mut call: Call<'_>) -> Result<Value> {
    let [x] = call.args()?;
    let pass = Pass { transform: attrs.transform, length: attrs.length, eps: attrs.eps };
    check_operand(&call, &x, &[attrs.axis], &[pass.out_length()])?;
    cast(pass.along(&x, attrs.axis)?, call.out()?.dtype)
}

/// The transform along two axes, one after the other.
pub(super) fn fft2(attrs: &Fft2, mut call: Call<'_>) -> Result<Value> {
    if !matches!(attrs.transform, Transform::Fft | Transform::Ifft) {
        return Err(call.invalid("is made of complex transforms"));
    }
    let [mut x] = call.args()?;
    check_operand(&call, &x, &attrs.axes, &attrs.lengths)?;
    // What is cut off along the second axis is not transformed along the first.
    let shape = x.shape();
    let mut kept: Vec<Slice> = vec![Slice::full(); shape.len()];
    for (&axis, &length) in attrs.axes.iter().zip(&attrs.lengths) {
        kept[axis] = (0..length.min(shape[axis])).into();
    }
    x = x.slice(&kept);
    let out = call.out()?.dtype;
    for (&axis, &length) in attrs.axes.iter().zip(&attrs.lengths).rev() {
        let pass = Pass { transform: attrs.transform, length, eps: attrs.eps };
        x = pass.along(&x, axis)?;
    }
    cast(x, out)
}

/// Refuses an operand without the axes, or whose result differs from the declared one.
fn check_operand(call: &Call<'_>, x: &Value, axes: &[usize], lengths: &[usize]) -> Result<()> {
    if is_tracked(x) {
        return Err(call.invalid("has no gradient on the tape of a training step; give gradients: :symbolic, or compute it outside of the model"));
    }
    if lengths.contains(&0) {
        return Err(call.invalid("needs a length of at least 1"));
    }
    check::axes(call, axes, x)?;
    let mut shape = x.shape();
    axes.iter().zip(lengths).for_each(|(&axis, &length)| shape[axis] = length);
    check::result_shape(call, &shape)
}

/// One transform of lines, which are cut or filled up with zeros to `length`.
struct Pass {
    transform: Transform,
    length: usize,
    eps: f64,
}

impl Pass {
    /// The transform of each line of `x` along `axis`, of type `f64` for real results, else `c128`.
    fn along(&self, x: &Value, axis: usize) -> Result<Value> {
        if x.dtype().is_complex() {
            self.lines::<Complex64>(&cast(x.clone(), Type::C128)?, axis)
        } else {
            self.lines::<f64>(&cast(x.clone(), Type::F64)?, axis)
        }
    }

    fn lines<T: Cell + Into<Complex64>>(&self, x: &Value, axis: usize) -> Result<Value> {
        let plan = plan(self.length, self.is_inverse());
        let lines = [x];
        match self.transform {
            Transform::Irfft => cpu::lines(lines, axis, self.length, &|[line]: [&[T]; 1], out: &mut [f64]| {
                let mut numbers = self.mirrored(line);
                self.transform(plan.as_ref(), &mut numbers);
                out.iter_mut().zip(numbers).for_each(|(out, x)| *out = x.re);
            }),
            Transform::Rfft => {
                cpu::lines(lines, axis, self.out_length(), &|[line]: [&[T]; 1], out: &mut [Complex64]| {
                    let mut numbers = vec![Complex64::ZERO; self.length];
                    fill(&mut numbers, line);
                    self.transform(plan.as_ref(), &mut numbers);
                    out.copy_from_slice(&numbers[..out.len()]);
                })
            }
            _ => cpu::lines(lines, axis, self.length, &|[line]: [&[T]; 1], out: &mut [Complex64]| {
                fill(out, line);
                self.transform(plan.as_ref(), out);
            }),
        }
    }

    fn is_inverse(&self) -> bool {
        matches!(self.transform, Transform::Ifft | Transform::Irfft)
    }

    /// The spectrum of real numbers repeats itself in its second half.
    fn out_length(&self) -> usize {
        if self.transform == Transform::Rfft { self.length / 2 + 1 } else { self.length }
    }

    /// The whole spectrum of real numbers, of which `line` is the first half.
    fn mirrored<T: Copy + Into<Complex64>>(&self, line: &[T]) -> Vec<Complex64> {
        let half = self.length / 2 + 1;
        let mut numbers: Vec<Complex64> = line.iter().take(half).map(|&x| x.into()).collect();
        numbers.resize(half, Complex64::ZERO);
        numbers.extend_from_within(1..1 + self.length - half);
        numbers[half..].reverse();
        numbers[half..].iter_mut().for_each(|x| *x = x.conj());
        numbers
    }

    /// The transform itself; an inverse one is divided by its length, and parts of at most `eps` become 0.
    fn transform(&self, plan: &dyn rustfft::Fft<f64>, numbers: &mut [Complex64]) {
        plan.process(numbers);
        let clean = |x: f64| if x.abs() <= self.eps { 0.0 } else { x };
        if self.is_inverse() {
            let length = self.length as f64;
            numbers.iter_mut().for_each(|x| *x = Complex64::new(clean(x.re / length), clean(x.im / length)));
        } else {
            numbers.iter_mut().for_each(|x| *x = Complex64::new(clean(x.re), clean(x.im)));
        }
    }
}

/// Puts a line in front of zeros; what is longer is cut off.
fn fill<T: Copy + Into<Complex64>>(numbers: &mut [Complex64], line: &[T]) {
    numbers.iter_mut().zip(line).for_each(|(number, &x)| *number = x.into());
}

/// The steps of a transform. Making them takes longer than following them, so those used last are kept: at most
/// `PLANS`, whose tables hold about `ELEMENTS` numbers in all.
pub(crate) fn plan(length: usize, inverse: bool) -> Plan {
    const PLANS: usize = 64;
    const ELEMENTS: usize = 1 << 23;
    static KEPT: Mutex<Vec<Plan>> = Mutex::new(Vec::new());
    let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let direction = if inverse { FftDirection::Inverse } else { FftDirection::Forward };
    let is_same = |plan: &Plan| plan.len() == length && plan.fft_direction() == direction;
    let known = kept().iter().find(|plan| is_same(plan)).cloned();
    let plan = known.unwrap_or_else(|| FftPlanner::new().plan_fft(length, direction));
    let mut kept = kept();
    kept.retain(|other| !is_same(other));
    kept.push(plan.clone());
    let too_many = |kept: &[Plan]| kept.len() > PLANS || kept.iter().map(|plan| plan.len()).sum::<usize>() > ELEMENTS;
    while kept.len() > 1 && too_many(&kept) {
        kept.remove(0);
    }
    plan
}
