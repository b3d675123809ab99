//! The forward and the backward pass.

use std::time::{Duration, Instant};

use burn_backend::AutodiffBackend;
use burn_backend::ops::FloatTensorOps;
use burn_dispatch::{BackendTensor, Dispatch, DispatchTensor, DispatchTensorKind};

use crate::device::Device;
use crate::error::{Error, Result};
use crate::exec::Executable;
use crate::types::TensorType;
use crate::value::Value;

const OP: &str = "compute_gradients";

/// What one forward and backward pass answers.
#[derive(Clone, Debug)]
pub struct Pass {
    /// Outputs of the program; the first one is the loss.
    pub outputs: Vec<Value>,
    /// For each parameter, the gradient of the loss with respect to it.
    pub gradients: Vec<Value>,
    /// How long the program ran, and how long it took from the loss back to the parameters.
    pub times: [Duration; 2],
}

/// Runs a program and differentiates its first output, a float scalar, with respect to its first `params` inputs. Where each
/// operation between them has a rule in instructions, loss and gradients are one program; else Burn's tape follows them, on
/// the CPU, which for another device is counted as what has no kernel there.
/// A parameter that the loss does not depend on has a gradient of zeros.
///
/// ```
/// use ex_burn_engine::program::{Binary, Instruction, Op, Program};
/// use ex_burn_engine::{Device, TensorType, Type, Value, exec::Executable, train};
///
/// let scalar = TensorType::new(Type::F32, []);
/// let square = Instruction { op: Op::Binary(Binary::Multiply), inputs: vec![0, 0], outputs: vec![scalar.clone()] };
/// let program = Program { inputs: vec![scalar.clone()], instructions: vec![square], outputs: vec![1] };
/// let three = Value::full(&scalar, 3.0, &Device::Cpu)?;
/// let pass = train::gradients(&Executable::new(&program, vec![])?, 1, vec![three], &Device::Cpu)?;
/// assert_eq!((pass.outputs[0].to_f64()?, pass.gradients[0].to_f64()?), (9.0, 6.0));
/// # Ok::<(), ex_burn_engine::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Invalid`] when a parameter is not a float or the first output is not a float scalar, else as the program says.
pub fn gradients(executable: &Executable, params: usize, inputs: Vec<Value>, device: &Device) -> Result<Pass> {
    if params > inputs.len() {
        return Err(Error::invalid(OP, format!("{params} parameters asked for, {} inputs given", inputs.len())));
    }
    // By the rules, the gradient of a depthwise convolution is one with groups of the batch: on the CPU the tape takes a third
    // of its time.
    let rules = executable.gradient(params).filter(|rules| *device != Device::Cpu || !rules.has_batch_groups());
    match rules {
        Some(gradient) => answered(&gradient, params, inputs, device),
        None if *device == Device::Cpu => taped(executable, params, inputs),
        None => taped_away(executable, params, inputs, device),
    }
}

/// Checks that the loss, the program's first result, does not lead to its first `params` inputs through complex numbers.
///
/// # Errors
///
/// [`Error::Invalid`] names the operation that makes them.
pub fn check_loss(executable: &Executable, params: usize) -> Result<()> {
    let obstacle = executable.obstacle(params).filter(|(_, dtype)| dtype.is_complex());
    let Some((op, dtype)) = obstacle else { return Ok(()) };
    let reason = format!(
        "the loss leads to the parameters through complex numbers, {op} answers {dtype}, and gradients: :autodiff follows \
         real ones; take Nx.real/1 and Nx.imag/1 of complex targets before they meet the model's answers, or give \
         gradients: :symbolic"
    );
    Err(Error::invalid("loss", reason))
}

/// By Burn's tape, which follows programs on the CPU alone, for what is on another device.
fn taped_away(executable: &Executable, params: usize, inputs: Vec<Value>, device: &Device) -> Result<Pass> {
    #[cfg(feature = "gpu")]
    {
        let loss = executable.program().output_types().first().map_or("", |loss| loss.dtype.name());
        crate::gpu::fallback::count("grad".into(), loss, device)?;
    }
    let pass = taped(executable, params, moved(inputs, &Device::Cpu)?)?;
    Ok(Pass { outputs: moved(pass.outputs, device)?, gradients: moved(pass.gradients, device)?, ..pass })
}

fn moved(values: Vec<Value>, device: &Device) -> Result<Vec<Value>> {
    values.into_iter().map(|value| value.to_device(device)).collect()
}

/// By Burn's tape, which follows the program as it runs.
fn taped(executable: &Executable, params: usize, mut inputs: Vec<Value>) -> Result<Pass> {
    let types = inputs[..params].iter().map(Value::ty).collect::<Vec<_>>();
    let leaves = inputs[..params].iter_mut().enumerate().map(track).collect::<Result<Vec<_>>>()?;
    let start = Instant::now();
    let outputs = executable.followed().run(inputs, &Device::Cpu)?;
    let forward = start.elapsed();
    let loss = scalar_loss(&outputs)?.tensor().clone();
    let outputs = outputs.into_iter().map(|value| value.untracked()).collect();
    let gradients = backward(loss, &leaves, &types)?;
    Ok(Pass { outputs, gradients, times: [forward, start.elapsed() - forward] })
}

/// Runs a program that answers the gradients itself, after everything else.
///
/// # Errors
///
/// [`Error::Invalid`] when it answers too few tensors, else as the program says.
pub fn answered(executable: &Executable, params: usize, inputs: Vec<Value>, device: &Device) -> Result<Pass> {
    let start = Instant::now();
    let mut outputs = executable.run(inputs, device)?;
    scalar_loss(&outputs)?;
    let Some(others) = outputs.len().checked_sub(params) else {
        return Err(Error::invalid(
            OP,
            format!("the program answers {} tensors, not {params} gradients", outputs.len()),
        ));
    };
    let gradients = outputs.split_off(others);
    Ok(Pass { outputs, gradients, times: [start.elapsed(), Duration::ZERO] })
}

/// An error when a parameter has no gradient.
pub(super) fn expect_parameters(values: &[Value]) -> Result<()> {
    values.iter().enumerate().try_for_each(expect_float)
}

fn expect_float((index, value): (usize, &Value)) -> Result<()> {
    if value.dtype().is_float() {
        return Ok(());
    }
    let reason = format!("parameter {index} is {}; only float parameters have a gradient", value.ty());
    Err(Error::invalid(OP, reason))
}

/// Makes a parameter a leaf of the graph and answers Burn's handle of it.
pub(super) fn track((index, value): (usize, &mut Value)) -> Result<DispatchTensor> {
    expect_float((index, value))?;
    let dtype = value.dtype();
    let leaf = Dispatch::float_set_require_grad(Dispatch::from_inner(value.tensor().clone()), true);
    *value = Value::new(dtype, leaf.clone());
    Ok(leaf)
}

pub(super) fn scalar_loss(outputs: &[Value]) -> Result<&Value> {
    match outputs.first() {
        Some(loss) if loss.dtype().is_float() && loss.rank() == 0 => Ok(loss),
        Some(other) => Err(Error::invalid(OP, format!("the loss is {}, not a float scalar", other.ty()))),
        None => Err(Error::invalid(OP, "the program has no output, so no loss")),
    }
}

fn backward(loss: DispatchTensor, leaves: &[DispatchTensor], types: &[TensorType]) -> Result<Vec<Value>> {
    let zeros = |ty: &TensorType| Value::full(ty, 0.0, &Device::Cpu);
    if !is_tracked(&loss) {
        return types.iter().map(zeros).collect();
    }
    let mut all = Dispatch::backward(loss);
    let gradient = |(leaf, ty): (&DispatchTensor, &TensorType)| match Dispatch::grad_remove(leaf, &mut all) {
        Some(tensor) => expect_type(Value::new(ty.dtype, tensor), ty),
        None => zeros(ty),
    };
    leaves.iter().zip(types).map(gradient).collect()
}

/// Whether any parameter reaches `tensor`; Burn panics when asked to go back from one that none reaches.
pub(super) fn is_tracked(tensor: &DispatchTensor) -> bool {
    let DispatchTensorKind::Autodiff(inner) = &tensor.kind else { return false };
    match &**inner {
        DispatchTensorKind::Flex(BackendTensor::Autodiff(tensor)) => tensor.is_tracked(),
        _ => false,
    }
}

pub(super) fn expect_type(gradient: Value, expected: &TensorType) -> Result<Value> {
    let got = gradient.ty();
    if got == *expected {
        Ok(gradient)
    } else {
        Err(Error::Mismatch { op: OP.into(), expected: expected.clone(), got })
    }
}
