//! Folds over windows.

use super::{Frame, WindowAxis};
use crate::cpu::tasks::CHUNK;
use crate::cpu::tasks::chunks;
use crate::cpu::{Cell, Fold, View, value};
use crate::error::Result;
use crate::value::Value;

/// `x` folded over the windows of one axis.
pub(crate) fn fold_windows<T, F>(x: &Value, at: usize, axis: WindowAxis) -> Result<Value>
where
    T: Cell,
    F: Fold<T, Result = T>,
{
    let x = x.clone().contiguous();
    let mut shape = x.shape();
    shape[at] = axis.count;
    let frame = Frame::new(axis, at, &shape);
    Ok(value(&shape, frame.fold::<T, F>(&View::new(&x)?)))
}

impl Frame {
    fn fold<T: Cell, F: Fold<T, Result = T>>(&self, x: &[T]) -> Vec<T> {
        let Self { axis, outer, inner } = *self;
        let mut out = bytemuck::zeroed_vec::<T>(outer * axis.count * inner);
        if out.is_empty() {
            return out;
        }
        let rows = (CHUNK / inner).max(1);
        chunks(&mut out, rows * inner, &|part, out| {
            let mut states = vec![F::IDENTITY; inner];
            for (row, out) in (part * rows..).zip(out.chunks_exact_mut(inner)) {
                states.fill(F::IDENTITY);
                let first = row / axis.count * axis.length;
                for place in axis.places(row % axis.count) {
                    let xs = &x[(first + place) * inner..][..inner];
                    states.iter_mut().zip(xs).for_each(|(state, &x)| *state = F::step(*state, x));
                }
                out.iter_mut().zip(&states).for_each(|(out, &state)| *out = F::finish(state));
            }
        });
        out
    }
}
