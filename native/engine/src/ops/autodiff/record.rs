//! Puts an operation of ours on Burn's tape.

use std::fmt::Debug;

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::{BalancedCheckpointing, CheckpointStrategy, NoCheckpointing};
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};
use burn_backend::AutodiffBackend;
use burn_backend::tensor::FloatTensor;
use burn_dispatch::{
    BackendTensor, DispatchAutodiffContext, DispatchKindConversion, DispatchTensor, GradientCheckpointingStrategy,
};
use burn_flex::{Flex, FlexTensor};

use crate::error::{Error, Result};
use crate::types::Type;
use crate::value::Value;

/// How the gradient of an operation's result becomes the gradients of its `N` operands.
pub(in crate::ops) trait Pullback<const N: usize>: Clone + Debug + Send + 'static {
    /// One gradient for each operand; those of operands that are not `wanted` are not looked at.
    ///
    /// # Errors
    ///
    /// Stop the backward pass.
    fn pull(self, upstream: Value, wanted: [bool; N]) -> Result<[Option<Value>; N]>;
}

/// Whether autodiff follows `value`.
pub(in crate::ops) fn is_tracked(value: &Value) -> bool {
    value.tensor().autodiff != DispatchAutodiffContext::Disabled
}

/// `output`, computed from `inputs` outside of autodiff, with the gradient that `pullback` gives. All of them are floats.
///
/// # Errors
///
/// [`Error::Invalid`] when `inputs` are tracked on a device without gradients of our own operations.
pub(in crate::ops) fn record<const N: usize>(
    inputs: [Value; N],
    output: Value,
    pullback: impl Pullback<N>,
) -> Result<Value> {
    let strategy = inputs.iter().find_map(|input| match input.tensor().autodiff {
        DispatchAutodiffContext::Enabled(strategy) => Some(strategy),
        DispatchAutodiffContext::Disabled => None,
    });
    match strategy {
        None => Ok(output),
        Some(GradientCheckpointingStrategy::Balanced) => attach::<N, BalancedCheckpointing>(inputs, output, pullback),
        Some(GradientCheckpointingStrategy::Disabled) => attach::<N, NoCheckpointing>(inputs, output, pullback),
    }
}

type Tracked<C> = FloatTensor<Autodiff<Flex, C>>;

fn attach<const N: usize, C: CheckpointStrategy>(
    inputs: [Value; N],
    output: Value,
    pullback: impl Pullback<N>,
) -> Result<Value>
where
    DispatchTensor: DispatchKindConversion<Autodiff<Flex, C>>,
{
    let dtype = output.dtype();
    let guards = inputs.into_iter().map(|input| Ok(track::<C>(input)?.node())).collect::<Result<Vec<_>>>()?;
    let guards = guards.try_into().map_err(|_| missing("operands"))?;
    let output = primitive(output)?;
    let tensor = match Recorded(std::marker::PhantomData).prepare::<C>(guards).compute_bound().stateful() {
        OpsKind::Tracked(prep) => prep.finish((dtype, pullback), output),
        OpsKind::UnTracked(prep) => prep.finish(output),
    };
    let tensor =
        <DispatchTensor as DispatchKindConversion<Autodiff<Flex, C>>>::from_backend(BackendTensor::Float(tensor));
    Ok(Value::new(dtype, tensor))
}

/// The step that Burn runs backward.
#[derive(Debug)]
struct Recorded<P>(std::marker::PhantomData<P>);

impl<P: Pullback<N>, const N: usize> Backward<Flex, N> for Recorded<P> {
    type State = (Type, P);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let (dtype, pullback) = ops.state;
        let upstream = Value::from_flex(dtype, grads.consume::<Flex>(&ops.node));
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let results = pullback.pull(upstream, wanted).unwrap_or_else(|error| std::panic::panic_any(error));
        for (parent, result) in ops.parents.into_iter().zip(results) {
            let Some(parent) = parent else { continue };
            let result = result.ok_or_else(|| missing("gradient")).and_then(primitive);
            grads.register::<Flex>(parent.id, result.unwrap_or_else(|error| std::panic::panic_any(error)));
        }
    }
}

fn track<C: CheckpointStrategy>(value: Value) -> Result<Tracked<C>>
where
    DispatchTensor: DispatchKindConversion<Autodiff<Flex, C>>,
{
    if !is_tracked(&value) {
        return Ok(Autodiff::<Flex, C>::from_inner(primitive(value)?));
    }
    let tensor = <DispatchTensor as DispatchKindConversion<Autodiff<Flex, C>>>::try_into_backend(value.into_tensor());
    tensor.map(BackendTensor::float).map_err(|reason| Error::invalid("gradient", reason))
}

fn primitive(value: Value) -> Result<FlexTensor> {
    let tensor = <DispatchTensor as DispatchKindConversion<Flex>>::try_into_backend(value.into_tensor());
    tensor.map(BackendTensor::float).map_err(|reason| Error::invalid("gradient", reason))
}

fn missing(what: &str) -> Error {
    Error::invalid("gradient", format!("an operation gave no {what}"))
}
