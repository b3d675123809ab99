//! Optimizers: what a step makes of parameters and gradients. Each rule is a file; [`sweep`] runs any of them.

mod adam;
mod element;
mod sgd;
mod sweep;

use serde::{Deserialize, Serialize};

pub use adam::Adam;
pub use sgd::Sgd;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::types::{TensorType, Type};
use crate::value::Value;
use element::{Element, wide};
use sweep::{Step, sweep};

/// An optimizer and its options.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Gradient descent.
    Sgd(Sgd),
    /// Adam.
    Adam(Adam),
}

/// What an optimizer remembers between steps.
#[derive(Clone, Debug, Default)]
pub struct OptimizerState {
    /// Steps done.
    pub count: u64,
    /// For each moment that the rule keeps, one tensor for each parameter: `f64` for `f64` parameters, else `f32`.
    pub slots: Vec<Vec<Value>>,
}

/// A rule and what it remembers of its parameters.
///
/// ```
/// use ex_burn_engine::train::{Optimizer, Rule, Sgd};
/// use ex_burn_engine::{Device, TensorType, Type, Value};
///
/// let scalar = TensorType::new(Type::F32, []);
/// let params = vec![Value::full(&scalar, 1.0, &Device::Cpu)?];
/// let mut next = params.clone();
/// let mut optimizer = Optimizer::new(Rule::Sgd(Sgd::default()), &params, None)?;
/// optimizer.step(&params, &mut next, vec![Value::full(&scalar, 2.0, &Device::Cpu)?], 0.25)?;
/// assert_eq!((params[0].to_f64()?, next[0].to_f64()?), (1.0, 0.5));
/// # Ok::<(), ex_burn_engine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Optimizer {
    rule: Rule,
    state: OptimizerState,
}

impl Rule {
    /// Moments kept of each parameter.
    fn moments(&self) -> usize {
        match self {
            Rule::Sgd(sgd) => usize::from(sgd.momentum.is_some()),
            Rule::Adam(_) => 2,
        }
    }

    /// Refuses options that make no sense.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] names the option.
    pub fn check(&self) -> Result<()> {
        match self {
            Rule::Sgd(sgd) => sgd.check(),
            Rule::Adam(adam) => adam.check(),
        }
    }
}

impl Optimizer {
    /// An optimizer of `params`, with the memory of an earlier one or none.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when an option makes no sense or `state` does not belong to such parameters.
    pub fn new(rule: Rule, params: &[Value], state: Option<OptimizerState>) -> Result<Self> {
        rule.check()?;
        let types: Vec<TensorType> =
            params.iter().map(|param| TensorType::new(wide(param.dtype()), param.shape())).collect();
        let state = match state {
            Some(state) => resumed(state, rule.moments(), &types)?,
            None => fresh(rule.moments(), &types)?,
        };
        Ok(Self { rule, state })
    }

    /// What it remembers, sharing memory.
    pub fn state(&self) -> &OptimizerState {
        &self.state
    }

    /// Writes into `next` what `params` are one step down along `gradients`. `next` has tensors of the same types; their
    /// memory is reused where it is not shared.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`] when a gradient or a next parameter has not the type of its parameter; nothing has been changed
    /// then.
    pub fn step(
        &mut self,
        params: &[Value],
        next: &mut [Value],
        gradients: Vec<Value>,
        learning_rate: f64,
    ) -> Result<()> {
        expect(params.len() == gradients.len(), "there must be one gradient for each parameter")?;
        expect(params.len() == next.len(), "there must be one next parameter for each parameter")?;
        for (param, given) in params.iter().zip(&gradients).chain(params.iter().zip(&*next)) {
            if param.ty() != given.ty() {
                return Err(Error::Mismatch { op: "fit".into(), expected: param.ty(), got: given.ty() });
            }
        }
        self.state.count += 1;
        match self.rule {
            Rule::Sgd(sgd) => match sgd.momentum {
                None => self.apply(Sgd::plain(learning_rate), params, next, gradients),
                Some(decay) => self.apply(sgd.traced(decay, learning_rate), params, next, gradients),
            },
            Rule::Adam(adam) => self.apply(adam.at(self.state.count, learning_rate), params, next, gradients),
        }
    }

    fn apply<S: Step<N>, const N: usize>(
        &mut self,
        step: S,
        params: &[Value],
        next: &mut [Value],
        gradients: Vec<Value>,
    ) -> Result<()> {
        for (index, ((param, next), gradient)) in params.iter().zip(next).zip(gradients).enumerate() {
            let mut slots = self.state.slots.iter_mut();
            let moments: [Option<&mut Value>; N] =
                std::array::from_fn(|_| slots.next().and_then(|slot| slot.get_mut(index)));
            let param = param.clone().contiguous();
            update(step, &param, next, &gradient.contiguous(), moments)?;
        }
        Ok(())
    }
}

fn fresh(moments: usize, types: &[TensorType]) -> Result<OptimizerState> {
    let zeros = || types.iter().map(|ty| Ok(Value::full(ty, 0.0, &Device::Cpu)?.contiguous())).collect();
    Ok(OptimizerState { count: 0, slots: (0..moments).map(|_| zeros()).collect::<Result<_>>()? })
}

fn resumed(mut state: OptimizerState, moments: usize, types: &[TensorType]) -> Result<OptimizerState> {
    let fits = |slot: &Vec<Value>| slot.len() == types.len() && slot.iter().zip(types).all(|(v, ty)| v.ty() == *ty);
    let reason = "the optimizer's state belongs to another optimizer or to other parameters";
    expect(state.slots.len() == moments && state.slots.iter().all(fits), reason)?;
    state.slots.iter_mut().flatten().for_each(|value| *value = value.clone().contiguous());
    Ok(state)
}

fn update<S: Step<N>, const N: usize>(
    step: S,
    param: &Value,
    next: &mut Value,
    gradient: &Value,
    moments: [Option<&mut Value>; N],
) -> Result<()> {
    let dtype = param.dtype();
    let done = match dtype {
        Type::F32 => update_as::<f32, S, N>(step, param, next, gradient, moments),
        Type::F64 => update_as::<f64, S, N>(step, param, next, gradient, moments),
        Type::F16 => update_as::<half::f16, S, N>(step, param, next, gradient, moments),
        Type::BF16 => update_as::<half::bf16, S, N>(step, param, next, gradient, moments),
        _ => None,
    };
    done.ok_or_else(|| Error::Unsupported { op: "fit".into(), dtype, device: param.device().to_string() })
}

/// `None` when a value is not in CPU memory.
fn update_as<P: Element, S: Step<N>, const N: usize>(
    step: S,
    param: &Value,
    next: &mut Value,
    gradient: &Value,
    moments: [Option<&mut Value>; N],
) -> Option<()> {
    let mut slices = moments.map(|value| Some(value?.flex_mut()?.storage_mut::<P::Wide>()));
    if slices.iter().any(Option::is_none) {
        return None;
    }
    let slices = slices.each_mut().map(|slice| slice.take().unwrap_or_default());
    let (from, gradient) = (param.flex()?.storage::<P>(), gradient.flex()?.storage::<P>());
    sweep(step, from, next.flex_mut()?.storage_mut::<P>(), gradient, slices);
    Some(())
}

fn expect(holds: bool, reason: impl std::fmt::Display) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::invalid("fit", reason)) }
}

fn expect_decay(name: &str, decay: f64) -> Result<()> {
    expect((0.0..1.0).contains(&decay), format!("{name} is {decay}; it must be at least 0 and below 1"))
}
