//! A fold over windows along one axis, and its gradient.

use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::element::{Element, by_type};
use crate::error::{Error, Result};
use crate::ops::Call;
use crate::ops::autodiff::{Pullback, is_tracked, record};
use crate::program::Fold;
use crate::value::Value;

/// Elements that one task of the thread pool works on, at least.
const GRAIN: usize = 1 << 14;

/// The windows along one axis: window `o` holds the elements `o * stride + k * dilation - low` for `k < size`, those that
/// exist.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Elements on the axis.
    length: usize,
    /// Number of windows.
    pub(super) count: usize,
    size: usize,
    stride: usize,
    dilation: usize,
    low: i64,
}

impl Line {
    /// The windows that fit, `None` when not even one does or numbers overflow.
    pub(super) fn new(
        length: usize,
        size: usize,
        [low, high]: [i64; 2],
        stride: usize,
        dilation: usize,
    ) -> Option<Self> {
        let span = (size - 1).checked_mul(dilation)?.checked_add(1)?;
        let padded = i64::try_from(length).ok()?.checked_add(low)?.checked_add(high)?;
        let count = usize::try_from(padded).ok()?.checked_sub(span)? / stride + 1;
        Some(Self { length, count, size, stride, dilation, low })
    }

    pub(super) fn is_identity(&self) -> bool {
        self.size == 1 && self.stride == 1 && self.low == 0 && self.count == self.length
    }

    /// The place of element `tap` of window `window`, if there is one.
    #[inline(always)]
    fn place(&self, window: usize, tap: usize) -> Option<usize> {
        let place = (window * self.stride + tap * self.dilation) as i64 - self.low;
        usize::try_from(place).ok().filter(|&place| place < self.length)
    }

    fn places(&self, window: usize) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.size).filter_map(move |tap| self.place(window, tap))
    }
}

/// `value` folded over the windows of `line` along `axis`.
pub(super) fn fold_line(call: &Call<'_>, value: Value, fold: Fold, axis: usize, line: Line) -> Result<Value> {
    let input = value.untracked();
    let Some(tensor) = input.flex().map(FlexTensor::to_contiguous) else { return Err(call.unsupported()) };
    let mut shape = input.shape();
    shape[axis] = line.count;
    let frame = Frame { line, outer: shape[..axis].iter().product(), inner: shape[axis + 1..].iter().product() };
    let folded = by_type!(input.dtype(), T => T::tensor(frame.fold(T::read(&tensor), fold), &shape));
    let output = Value::from_flex(input.dtype(), folded.ok_or_else(|| call.unsupported())?);
    if !is_tracked(&value) {
        return Ok(output);
    }
    let picks = matches!(fold, Fold::Max | Fold::Min | Fold::Product).then(|| [input.clone(), output.clone()]);
    record([value], output, Unfold { picks, shape: input.shape(), fold, frame })
}

/// A line and the axes around it: `outer` of them, each of `inner` neighbouring elements for each place.
#[derive(Clone, Copy, Debug)]
struct Frame {
    line: Line,
    outer: usize,
    inner: usize,
}

impl Frame {
    fn fold<T: Element>(&self, input: &[T], fold: Fold) -> Vec<T> {
        let identity = T::identity(fold);
        match fold {
            Fold::Max => self.fold_with(input, identity, T::larger),
            Fold::Min => self.fold_with(input, identity, T::smaller),
            Fold::Product | Fold::All => self.fold_with(input, identity, T::multiply),
            Fold::Sum | Fold::Any => self.fold_with(input, identity, T::add),
        }
    }

    fn fold_with<T: Element>(&self, input: &[T], identity: T, combine: impl Fn(T, T) -> T + Send + Sync) -> Vec<T> {
        let Self { line, outer, inner } = *self;
        let mut output = vec![identity; outer * line.count * inner];
        let rows_of_task = (GRAIN / inner).max(1);
        let task = |(task, rows): (usize, &mut [T])| {
            for (i, row) in rows.chunks_exact_mut(inner).enumerate() {
                let row_number = task * rows_of_task + i;
                let start = row_number / line.count * line.length;
                for place in line.places(row_number % line.count) {
                    let source = &input[(start + place) * inner..][..inner];
                    row.iter_mut().zip(source).for_each(|(to, &from)| *to = combine(*to, from));
                }
            }
        };
        in_tasks(&mut output, rows_of_task * inner, task);
        output
    }

    /// The gradient of a fold from the gradients of its windows. `picks` holds the input and the output of folds whose
    /// gradient depends on them.
    fn unfold<T: Element>(&self, upstream: &[T], picks: Option<[&[T]; 2]>, fold: Fold) -> Vec<T> {
        let Self { line, outer, inner } = *self;
        let zero = T::identity(Fold::Sum);
        let mut gradient = vec![zero; outer * line.length * inner];
        let block = line.length * inner;
        let blocks_of_task = (GRAIN / block.max(1)).max(1);
        let task = |(task, blocks): (usize, &mut [T])| {
            let mut rest = vec![zero; inner];
            for (i, block) in blocks.chunks_exact_mut(block).enumerate() {
                let number = task * blocks_of_task + i;
                for window in 0..line.count {
                    let at = (number * line.count + window) * inner;
                    rest.copy_from_slice(&upstream[at..][..inner]);
                    match (picks, fold) {
                        (Some([input, output]), Fold::Max | Fold::Min) => self.give_to_last_equal(
                            block,
                            &mut rest,
                            &input[number * block.len()..],
                            &output[at..],
                            window,
                        ),
                        (Some([input, _]), Fold::Product) => {
                            self.give_to_factors(block, &rest, &input[number * block.len()..], window)
                        }
                        _ => self.give_to_all(block, &rest, window),
                    }
                }
            }
        };
        if block > 0 {
            in_tasks(&mut gradient, blocks_of_task * block, task);
        }
        gradient
    }

    fn give_to_all<T: Element>(&self, block: &mut [T], upstream: &[T], window: usize) {
        for place in self.line.places(window) {
            let row = &mut block[place * self.inner..][..self.inner];
            row.iter_mut().zip(upstream).for_each(|(to, &from)| *to = to.add(from));
        }
    }

    /// Of equal extrema the last one gets the gradient, as Nx has it. `rest` is what no element has got yet.
    fn give_to_last_equal<T: Element>(
        &self,
        block: &mut [T],
        rest: &mut [T],
        input: &[T],
        output: &[T],
        window: usize,
    ) {
        let zero = T::identity(Fold::Sum);
        for place in self.line.places(window).rev() {
            let at = place * self.inner;
            let row = block[at..][..self.inner].iter_mut().zip(&input[at..]);
            for (((to, from), extremum), rest) in row.zip(output).zip(rest.iter_mut()) {
                let hit = from == extremum;
                *to = to.add(if hit { *rest } else { zero });
                *rest = if hit { zero } else { *rest };
            }
        }
    }

    fn give_to_factors<T: Element>(&self, block: &mut [T], upstream: &[T], input: &[T], window: usize) {
        for place in self.line.places(window) {
            let mut product = upstream.to_vec();
            for other in self.line.places(window).filter(|&other| other != place) {
                let factors = &input[other * self.inner..];
                product.iter_mut().zip(factors).for_each(|(product, &factor)| *product = product.multiply(factor));
            }
            let row = &mut block[place * self.inner..][..self.inner];
            row.iter_mut().zip(product).for_each(|(to, from)| *to = to.add(from));
        }
    }
}

fn in_tasks<T: Send>(elements: &mut [T], length: usize, task: impl Fn((usize, &mut [T])) + Send + Sync) {
    if elements.len() <= length {
        task((0, elements));
    } else {
        elements.par_chunks_mut(length).enumerate().for_each(task);
    }
}

/// The gradient of a fold: each window hands its gradient to the elements it came from.
#[derive(Clone, Debug)]
struct Unfold {
    /// Input and output, when the gradient depends on them.
    picks: Option<[Value; 2]>,
    /// Shape of the input.
    shape: Vec<usize>,
    fold: Fold,
    frame: Frame,
}

impl Pullback<1> for Unfold {
    fn pull(self, upstream: Value, _wanted: [bool; 1]) -> Result<[Option<Value>; 1]> {
        let dtype = upstream.dtype();
        let on_cpu = |value: &Value| value.flex().map(FlexTensor::to_contiguous);
        let tensors = self.picks.iter().flatten().chain([&upstream]).map(on_cpu).collect::<Option<Vec<_>>>();
        let unfold = |tensors: Vec<FlexTensor>| {
            by_type!(dtype, T => {
                let data: Vec<&[T]> = tensors.iter().map(T::read).collect();
                let (picks, upstream) = match data[..] {
                    [input, output, upstream] => (Some([input, output]), upstream),
                    _ => (None, data[data.len() - 1]),
                };
                T::tensor(self.frame.unfold(upstream, picks, self.fold), &self.shape)
            })
        };
        let gradient = tensors.and_then(unfold);
        let gradient = gradient.ok_or_else(|| Error::invalid("gradient", format!("windows of {}", upstream.ty())))?;
        Ok([Some(Value::from_flex(dtype, gradient))])
    }
}
