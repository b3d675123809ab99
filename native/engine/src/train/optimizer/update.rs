//! One parameter's part of a step, whatever its type.

use rayon::prelude::*;

use super::element::{Element, Wide};
use super::prepare::Prepare;
use super::sweep::{GRAIN, Step, sweep};
use crate::cpu::vectorized;
use crate::error::{Error, Result};
use crate::types::Type;
use crate::value::Value;

/// A parameter, what it becomes, its gradient and what the optimizer remembers of it. All lie in a row in memory.
pub(super) struct Update<'a> {
    pub(super) param: &'a Value,
    pub(super) next: &'a mut Value,
    pub(super) gradient: &'a Value,
    pub(super) moments: Vec<&'a mut Value>,
    pub(super) prepare: Option<Prepare>,
}

impl Update<'_> {
    /// Does `step` to every element.
    pub(super) fn run<S: Step<N>, const N: usize>(mut self, step: S) -> Result<()> {
        self.sweep(step)
    }

    /// [`run`](Self::run) when something is left to do.
    pub(super) fn sweep<S: Step<N>, const N: usize>(&mut self, step: S) -> Result<()> {
        let done = match self.param.dtype() {
            Type::F32 => self.sweep_as::<f32, S, N>(step),
            Type::F64 => self.sweep_as::<f64, S, N>(step),
            Type::F16 => self.sweep_as::<half::f16, S, N>(step),
            Type::BF16 => self.sweep_as::<half::bf16, S, N>(step),
            _ => None,
        };
        done.ok_or_else(|| unsupported(self.param))
    }

    /// `None` when a value is not in CPU memory.
    fn sweep_as<P: Element, S: Step<N>, const N: usize>(&mut self, step: S) -> Option<()> {
        let mut moments = self.moments.iter_mut();
        let mut slices: [_; N] = std::array::from_fn(|_| {
            let moment = moments.next()?;
            Some(moment.flex_mut()?.storage_mut::<P::Wide>())
        });
        if slices.iter().any(Option::is_none) {
            return None;
        }
        let slices = slices.each_mut().map(|slice| slice.take().unwrap_or_default());
        let (params, gradients) = (self.param.flex()?.storage::<P>(), self.gradient.flex()?.storage::<P>());
        sweep(step, self.prepare, params, self.next.flex_mut()?.storage_mut::<P>(), gradients, slices);
        Some(())
    }
}

/// Makes `into` `k * x + l * into`, for values that lie in a row in memory.
pub(in crate::train) fn blend(x: &Value, into: &mut Value, k: f64, l: f64) -> Result<()> {
    let done = match x.dtype() {
        Type::F32 => blend_as::<f32>(x, into, k, l),
        Type::F64 => blend_as::<f64>(x, into, k, l),
        Type::F16 => blend_as::<half::f16>(x, into, k, l),
        Type::BF16 => blend_as::<half::bf16>(x, into, k, l),
        _ => None,
    };
    done.ok_or_else(|| unsupported(x))
}

fn blend_as<P: Element>(x: &Value, into: &mut Value, k: f64, l: f64) -> Option<()> {
    let (k, l) = (P::Wide::of(k), P::Wide::of(l));
    let (x, into) = (x.flex()?.storage::<P>(), into.flex_mut()?.storage_mut::<P>());
    into.par_chunks_mut(GRAIN).zip(x.par_chunks(GRAIN)).for_each(|(into, x)| {
        vectorized(
            #[inline(always)]
            || into.iter_mut().zip(x).for_each(|(into, x)| *into = P::narrow(k * x.widen() + l * into.widen())),
        );
    });
    Some(())
}

pub(super) fn unsupported(param: &Value) -> Error {
    Error::Unsupported { op: "fit".into(), dtype: param.dtype(), device: param.device().to_string() }
}
