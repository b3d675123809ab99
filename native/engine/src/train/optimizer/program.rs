//! An optimizer that is a program.

use std::sync::Arc;

use super::{OptimizerState, Prepare, expect};
use crate::device::Device;
use crate::error::Result;
use crate::exec::Executable;
use crate::ops::cast;
use crate::types::TensorType;
use crate::value::Value;

/// Refuses a program that does not take `params ++ gradients ++ state` to `params ++ state`.
pub(super) fn check(program: &Executable, params: &[Value], state: &OptimizerState) -> Result<()> {
    let types = |values: &[Value]| values.iter().map(Value::ty).collect::<Vec<TensorType>>();
    let (params, state) = (types(params), types(&state.slots.concat()));
    let taken = [&*params, &*params, &*state].concat();
    let reason = "the optimizer's program must take parameters, gradients and its state";
    expect(program.input_types() == taken, reason)?;
    let reason = "the optimizer's program must answer parameters and its state, of the types that it takes";
    expect(program.program().output_types() == [params, state].concat(), reason)
}

/// The next parameters; the state moves on.
pub(super) fn step(
    program: &Arc<Executable>,
    state: &mut OptimizerState,
    params: &[Value],
    mut gradients: Vec<Value>,
    prepare: &Prepare,
) -> Result<Vec<Value>> {
    for (gradient, param) in gradients.iter_mut().zip(params) {
        *gradient = cast(std::mem::replace(gradient, param.clone()), param.dtype())?;
    }
    if let Some(prepare) = prepare.active() {
        prepare.all(params, &mut gradients)?;
    }
    let inputs = params.iter().cloned().chain(gradients).chain(state.slots.concat()).collect();
    let mut next = program.run(inputs, &Device::Cpu)?;
    state.slots = vec![next.split_off(params.len())];
    Ok(next.into_iter().map(Value::contiguous).collect())
}
