//! Optimizers: what a step makes of parameters and gradients. Each rule is a file; [`sweep`] runs any of them.

mod adagrad;
mod adam;
mod adamw;
mod away;
mod compiled;
mod element;
mod formulas;
mod lamb;
mod lion;
mod muon;
mod prepare;
mod program;
mod rmsprop;
mod rule;
mod sgd;
mod state;
mod sweep;
mod update;

pub use adagrad::Adagrad;
pub use adam::Adam;
pub use adamw::Adamw;
pub use lamb::Lamb;
pub use lion::Lion;
pub use muon::Muon;
pub use prepare::{Clip, Prepare};
pub use rmsprop::Rmsprop;
pub use rule::Rule;
pub use sgd::Sgd;
pub use state::OptimizerState;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::exec::Executable;
use crate::ops::cast;
use crate::value::Value;
pub(super) use away::number;
pub(super) use compiled::adding;
pub(super) use element::{wide, widened};
pub(super) use update::blend;

use away::Away;
use update::Update;

/// A rule and what it remembers of its parameters.
///
/// ```
/// use ex_burn_engine::train::{Optimizer, Prepare, Rule, Sgd};
/// use ex_burn_engine::{Device, TensorType, Type, Value};
///
/// let scalar = TensorType::new(Type::F32, []);
/// let params = vec![Value::full(&scalar, 1.0, &Device::Cpu)?];
/// let mut next = params.clone();
/// let mut optimizer = Optimizer::new(Rule::Sgd(Sgd::default()), &params, None)?;
/// let gradient = Value::full(&scalar, 2.0, &Device::Cpu)?;
/// optimizer.step(&params, &mut next, vec![gradient], &Prepare::default(), 0.25)?;
/// assert_eq!((params[0].to_f64()?, next[0].to_f64()?), (1.0, 0.5));
/// # Ok::<(), ex_burn_engine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Optimizer {
    method: Method,
    state: OptimizerState,
    /// What runs where the parameters are not in the CPU's memory.
    away: Option<Away>,
}

#[derive(Clone, Debug)]
enum Method {
    Rule(Rule),
    Program(Arc<Executable>),
}

impl Optimizer {
    /// An optimizer of `params`, with the memory of an earlier one or none.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when an option makes no sense or `state` does not belong to such parameters.
    pub fn new(rule: Rule, params: &[Value], state: Option<OptimizerState>) -> Result<Self> {
        rule.check()?;
        let state = match state {
            Some(state) => state.resumed(&rule, params)?,
            None => OptimizerState::fresh(&rule, params)?,
        };
        Ok(Self { method: Method::Rule(rule), state, away: None })
    }

    /// An optimizer that is a program from `params ++ gradients ++ state` to `params ++ state`. It knows its learning rate.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when the program takes or answers something else.
    pub fn program(program: Arc<Executable>, params: &[Value], state: OptimizerState) -> Result<Self> {
        program::check(&program, params, &state)?;
        let state = state.beside(params)?;
        Ok(Self { method: Method::Program(program), state, away: None })
    }

    /// What it remembers, sharing memory.
    pub fn state(&self) -> &OptimizerState {
        &self.state
    }

    /// Writes into `next` what `params` are one step down along `gradients`, once they are prepared. `next` has tensors of
    /// the same types; their memory is reused where it is not shared. Gradients of parameters of 16 bits may be of `f32`.
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
        prepare: &Prepare,
        learning_rate: f64,
    ) -> Result<()> {
        check_types(params, next, &gradients)?;
        self.state.count += 1;
        let rule = match &self.method {
            Method::Rule(rule) => rule,
            Method::Program(program) => {
                let after = program::step(program, &mut self.state, params, gradients, prepare)?;
                next.clone_from_slice(&after);
                return Ok(());
            }
        };
        for (index, ((param, next), gradient)) in params.iter().zip(next).zip(gradients).enumerate() {
            let moments = self.state.slots.iter_mut().map(|slot| &mut slot[index]).collect();
            // Where a gradient is wider, the parameter is computed as wide and rounded once.
            let dtype = gradient.dtype();
            let (param, gradient) = (cast(param.clone(), dtype)?.contiguous(), gradient.contiguous());
            let narrow = next.dtype();
            *next = cast(std::mem::replace(next, param.clone()), dtype)?;
            let update = Update { param: &param, next, gradient: &gradient, moments, prepare: prepare.active() };
            rule.apply(update, self.state.count, learning_rate)?;
            *next = cast(std::mem::replace(next, param), narrow)?;
        }
        Ok(())
    }
}

fn check_types(params: &[Value], next: &[Value], gradients: &[Value]) -> Result<()> {
    expect(params.len() == gradients.len(), "there must be one gradient for each parameter")?;
    expect(params.len() == next.len(), "there must be one next parameter for each parameter")?;
    let differs = |(param, given): &(&Value, &Value)| param.ty() != given.ty();
    let is_other = |pair: &(&Value, &Value)| {
        let (param, given) = pair;
        differs(pair) && !(given.dtype() == wide(param.dtype()) && given.shape() == param.shape())
    };
    let (gradients, next) = (params.iter().zip(gradients), params.iter().zip(next));
    match gradients.filter(is_other).chain(next.filter(differs)).next() {
        Some((param, given)) => Err(Error::Mismatch { op: "fit".into(), expected: param.ty(), got: given.ty() }),
        None => Ok(()),
    }
}

fn expect(holds: bool, reason: impl std::fmt::Display) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::invalid("fit", reason)) }
}

fn expect_decay(name: &str, decay: f64) -> Result<()> {
    expect((0.0..1.0).contains(&decay), format!("{name} is {decay}; it must be at least 0 and below 1"))
}

fn expect_positive(name: &str, number: f64) -> Result<()> {
    expect(number.is_finite() && number >= 0.0, format!("{name} is {number}; it must be at least 0"))
}
