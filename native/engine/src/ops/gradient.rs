//! Operations with their own gradient, as nodes of Burn's autodiff graph.
//!
//! An operation computes its result from plain values, whether autodiff tracks its operands or not, and says how the
//! gradient of the result becomes the gradient of each operand. So a result never depends on being tracked, and a
//! gradient is the rule of `Nx.Defn.grad` rather than the one that falls out of a composition.

use std::fmt;
use std::sync::Arc;

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::{BalancedCheckpointing, CheckpointStrategy, NoCheckpointing};
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, NodeGuard, Ops, OpsKind};
use burn_backend::tensor::FloatTensor;
use burn_backend::{AutodiffBackend, DType};
use burn_dispatch::{
    BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, GradientCheckpointingStrategy,
};
use burn_flex::{Flex, FlexTensor};

use crate::error::Result;
use crate::ops::reduce::sum_to;
use crate::ops::{broadcast_to, cast};
use crate::types::{TensorType, Type};
use crate::value::Value;

type Tracked = FloatTensor<Autodiff<Flex>>;

/// The result of `forward` on the plain operands, with gradients by `backward` where operands are tracked.
///
/// `backward` gets the index of an operand and the gradient of the result, and answers the gradient of that operand, in
/// any float type and broadcast to the result's shape or not: it is summed and cast to the operand's type here.
pub(super) fn with_gradient<const N: usize>(
    operands: [Value; N],
    forward: impl FnOnce([Value; N]) -> Result<Value>,
    backward: impl FnOnce(&[Value; N], &Value) -> Rule,
) -> Result<Value> {
    let tracked: [Option<Tracked>; N] = operands.each_ref().map(tracked);
    let plain = operands.each_ref().map(Value::untracked);
    if tracked.iter().all(Option::is_none) {
        drop(operands);
        return forward(plain);
    }
    let context = operands.iter().fold(DispatchAutodiffContext::Disabled, |all, v| all.merge(v.tensor().autodiff));
    let result = forward(plain.clone())?;
    let rule = Arc::new(backward(&plain, &result));
    let state = State { operands: plain.each_ref().map(Value::ty), result: result.dtype(), rule };
    Ok(register(tracked, result, state, context))
}

/// The gradient of one operand, by its index and the gradient of the result.
pub(super) type Rule = Box<dyn Fn(usize, Value) -> Result<Value> + Send + Sync>;

/// The value's node in the autodiff graph, if a gradient is asked of it.
fn tracked(value: &Value) -> Option<Tracked> {
    match &value.tensor().kind {
        DispatchTensorKind::Autodiff(kind) => match kind.as_ref() {
            DispatchTensorKind::Flex(BackendTensor::Autodiff(t)) if t.is_tracked() => Some(t.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// What the backward pass needs of an operation.
#[derive(Clone)]
struct State<const N: usize> {
    operands: [TensorType; N],
    result: Type,
    rule: Arc<Rule>,
}

impl<const N: usize> fmt::Debug for State<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("operands", &self.operands).finish_non_exhaustive()
    }
}

fn register<const N: usize>(
    tracked: [Option<Tracked>; N],
    result: Value,
    state: State<N>,
    context: DispatchAutodiffContext,
) -> Value {
    let dtype = result.dtype();
    let nodes = tracked.map(|t| t.unwrap_or_else(constant).node());
    let output = to_flex(result);
    let tensor = match context {
        DispatchAutodiffContext::Enabled(GradientCheckpointingStrategy::Balanced) => {
            node::<BalancedCheckpointing, N>(nodes, output, state)
        }
        _ => node::<NoCheckpointing, N>(nodes, output, state),
    };
    let kind = DispatchTensorKind::Autodiff(Box::new(DispatchTensorKind::Flex(BackendTensor::Autodiff(tensor))));
    Value::new(dtype, DispatchTensor { kind, autodiff: context })
}

fn node<C: CheckpointStrategy, const N: usize>(nodes: [NodeGuard; N], output: FlexTensor, state: State<N>) -> Tracked {
    match ByRule.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(state, output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    }
}

/// Stands in the graph for an operand that asks for no gradient; nobody reads its elements.
fn constant() -> Tracked {
    <Autodiff<Flex> as AutodiffBackend>::from_inner(FlexTensor::empty([0].into(), DType::F32))
}

fn to_flex(value: Value) -> FlexTensor {
    match value.into_tensor().kind {
        DispatchTensorKind::Flex(tensor) => tensor.float(),
        DispatchTensorKind::Autodiff(_) => unreachable!("a plain value is not tracked"),
    }
}

#[derive(Debug)]
struct ByRule;

impl<const N: usize> Backward<Flex, N> for ByRule {
    type State = State<N>;

    /// # Panics
    ///
    /// With the error's message when the rule fails: Burn's backward pass has no other way to stop.
    fn backward(self, ops: Ops<State<N>, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let State { operands, result, rule } = ops.state;
        let gradient = Value::from_flex(result, gradients.consume::<Flex>(&ops.node));
        for (i, (parent, ty)) in ops.parents.into_iter().zip(&operands).enumerate() {
            let Some(parent) = parent else { continue };
            match rule(i, gradient.clone()).and_then(|g| fit(g, ty)) {
                Ok(gradient) => gradients.register::<Flex>(parent.id, to_flex(gradient)),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// The gradient of an operand of type `ty` from the one of what it was broadcast and cast to.
fn fit(gradient: Value, ty: &TensorType) -> Result<Value> {
    let gradient = cast(gradient, ty.dtype)?;
    let gradient = if gradient.rank() < ty.shape.len() { broadcast_to(gradient, &ty.shape) } else { gradient };
    sum_to(gradient, &ty.shape)
}
