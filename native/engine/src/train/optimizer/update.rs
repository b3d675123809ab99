//! One parameter's part of a step, whatever its type.

use rayon::prelude::*;

use super::element::{Element, Wide, wide};
use super::prepare::Prepare;
use super::sweep::{GRAIN, Step, sweep};
use crate::cpu::vectorized;
use crate::error::{Error, Result};
use crate::ops::cast;
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
        let mut next = self.take_next();
        let done = match self.param.dtype() {
            Type::F32 => self.sweep::<f32, f32, S, N>(step, &mut next),
            Type::F64 => self.sweep::<f64, f64, S, N>(step, &mut next),
            Type::F16 => self.sweep::<half::f16, half::f16, S, N>(step, &mut next),
            Type::BF16 => self.sweep::<half::bf16, half::bf16, S, N>(step, &mut next),
            _ => None,
        };
        *self.next = next;
        done.ok_or_else(|| unsupported(self.param))
    }

    /// What `step` changes every element by, in the type that it is computed in.
    pub(super) fn change<S: Step<N>, const N: usize>(&mut self, step: S) -> Result<Value> {
        let mut change = cast(self.take_next(), wide(self.param.dtype()))?;
        let done = match self.param.dtype() {
            Type::F32 => self.sweep::<f32, f32, S, N>(step, &mut change),
            Type::F64 => self.sweep::<f64, f64, S, N>(step, &mut change),
            Type::F16 => self.sweep::<half::f16, f32, S, N>(step, &mut change),
            Type::BF16 => self.sweep::<half::bf16, f32, S, N>(step, &mut change),
            _ => None,
        };
        done.map(|()| change).ok_or_else(|| unsupported(self.param))
    }

    /// Makes the next parameter `k` times the parameter and `l` times the change.
    pub(super) fn mix(self, mut change: Value, k: f64, l: f64) -> Result<()> {
        blend(&cast(self.param.clone(), change.dtype())?, &mut change, k, l)?;
        *self.next = cast(change, self.param.dtype())?;
        Ok(())
    }

    /// The memory for the next parameter.
    fn take_next(&mut self) -> Value {
        std::mem::replace(self.next, self.param.clone())
    }

    /// `None` when a value is not in CPU memory.
    fn sweep<P, O, S, const N: usize>(&mut self, step: S, into: &mut Value) -> Option<()>
    where
        P: Element,
        O: Element<Wide = P::Wide>,
        S: Step<N>,
    {
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
        sweep(step, self.prepare, params, into.flex_mut()?.storage_mut::<O>(), gradients, slices);
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
