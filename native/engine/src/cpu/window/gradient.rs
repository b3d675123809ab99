//! Gradients of folds over windows.

use num_traits::Float;

use super::{Frame, WindowAxis};
use crate::cpu::tasks::CHUNK;
use crate::cpu::tasks::chunks;
use crate::cpu::{Number, memory, value};
use crate::error::Result;
use crate::value::Value;

/// How a fold over windows hands its gradient back, with what it needs to know for that.
#[derive(Clone, Debug)]
pub(crate) enum Share {
    /// All of it to each element: a sum.
    Each,
    /// To the last element that equals the result, which come here: an extremum.
    LastEqual(Value, Value),
    /// To each element, times the other elements of its window, which come here: a product.
    Others(Value),
}

/// The gradient of a tensor of `shape`, whose windows along axis `at` were folded, from the gradient `g` of the result.
pub(crate) fn window_gradient<T: Number + Float>(
    shape: &[usize],
    g: &Value,
    share: &Share,
    (at, axis): (usize, WindowAxis),
) -> Result<Value> {
    let frame = Frame::new(axis, at, shape);
    let g = memory(g)?.to_contiguous();
    let g = g.storage::<T>();
    let gradient = match share {
        Share::Each => frame.gradient(g, |_, window, gradient, g| frame.give_each(window, gradient, g)),
        Share::LastEqual(x, y) => {
            let [x, y] = [memory(x)?.to_contiguous(), memory(y)?.to_contiguous()];
            let (x, y) = (x.storage::<T>(), y.storage::<T>());
            frame.gradient(g, |block, window, gradient, g| {
                let y = &y[(block * axis.count + window) * frame.inner..];
                frame.give_last_equal(window, gradient, g, &x[block * gradient.len()..], y);
            })
        }
        Share::Others(x) => {
            let x = memory(x)?.to_contiguous();
            let x = x.storage::<T>();
            frame.gradient(g, |block, window, gradient, g| {
                frame.give_others(window, gradient, g, &x[block * gradient.len()..]);
            })
        }
    };
    Ok(value(shape, gradient))
}

impl Frame {
    /// Calls `give(block, window, gradient of the block, gradient of the window)` for each window of each block, the part of
    /// the tensor with all elements of the axis.
    fn gradient<T: Number + Float>(&self, g: &[T], give: impl Fn(usize, usize, &mut [T], &mut [T]) + Sync) -> Vec<T> {
        let Self { axis, outer, inner } = *self;
        let size = axis.length * inner;
        if size == 0 {
            return vec![];
        }
        let mut gradient = bytemuck::zeroed_vec::<T>(outer * size);
        let blocks = (CHUNK / size).max(1);
        chunks(&mut gradient, blocks * size, &|part, gradient| {
            let mut rest = vec![T::zero(); inner];
            for (block, gradient) in (part * blocks..).zip(gradient.chunks_exact_mut(size)) {
                for window in 0..axis.count {
                    rest.copy_from_slice(&g[(block * axis.count + window) * inner..][..inner]);
                    give(block, window, gradient, &mut rest);
                }
            }
        });
        gradient
    }

    fn give_each<T: Float>(&self, window: usize, gradient: &mut [T], g: &[T]) {
        for place in self.axis.places(window) {
            gradient[place * self.inner..].iter_mut().zip(g).for_each(|(to, &g)| *to = *to + g);
        }
    }

    /// Nx gives the gradient to the last of equal extrema. `rest` is what no element has got yet.
    fn give_last_equal<T: Float>(&self, window: usize, gradient: &mut [T], rest: &mut [T], x: &[T], y: &[T]) {
        for place in self.axis.places(window).rev() {
            let at = place * self.inner;
            let elements = gradient[at..].iter_mut().zip(&x[at..]).zip(y).zip(rest.iter_mut());
            for (((to, x), y), rest) in elements {
                let hit = x == y;
                *to = *to + if hit { *rest } else { T::zero() };
                *rest = if hit { T::zero() } else { *rest };
            }
        }
    }

    fn give_others<T: Float>(&self, window: usize, gradient: &mut [T], g: &[T], x: &[T]) {
        for place in self.axis.places(window) {
            let mut product = g.to_vec();
            for other in self.axis.places(window).filter(|&other| other != place) {
                product.iter_mut().zip(&x[other * self.inner..]).for_each(|(product, &x)| *product = *product * x);
            }
            gradient[place * self.inner..].iter_mut().zip(product).for_each(|(to, part)| *to = *to + part);
        }
    }
}
