//! Where the time of a step goes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::job::{Config, Gradients, Job};
use super::passes::Passes;
use crate::device::Device;
use crate::error::Result;
use crate::exec::Executable;
use crate::value::Value;

/// How long the forward pass, the backward pass and the optimizer take in one step on `batch`, which is not kept.
///
/// With [`Gradients::Program`](super::Gradients::Program) the first one holds the second one, which is 0.
///
/// # Errors
///
/// As [`Session::start`](super::Session::start).
pub fn profile(executable: &Arc<Executable>, batch: Vec<Value>, config: Config, job: Job) -> Result<[Duration; 3]> {
    let job = Job { data: None, validation: vec![], steps: vec![], ..job };
    let mut model = job.check(config)?.model;
    let params = model.params.len();
    let device = model.device().clone();
    let batch = batch.into_iter().map(|value| value.to_device(&device)).collect::<Result<Vec<_>>>()?;
    let inputs = [model.inputs(), batch].concat();
    let mut passes = Passes::new(config.gradients, config.checkpointing, device.clone())?;
    let states = model.states.clone();
    if !matches!(device, Device::Cpu) {
        // The first step there makes the kernels.
        let pass = passes.run(executable, params, inputs.clone())?;
        model.add(pass.gradients, states.clone(), 1.0, config.learning_rate)?;
        device.wait()?;
    }
    let alone = match config.gradients {
        Gradients::Autodiff => forward(executable, &inputs, &device)?,
        Gradients::Program => Duration::MAX,
    };
    let start = Instant::now();
    let pass = passes.run(executable, params, inputs)?;
    device.wait()?;
    let both = start.elapsed();
    let start = Instant::now();
    model.add(pass.gradients, states, 1.0, config.learning_rate)?;
    device.wait()?;
    let optimizer = start.elapsed();
    let [forward, backward] = pass.times;
    // Where one program does both, what it takes longer than the forward pass alone.
    let alone = if backward.is_zero() { both.min(alone) } else { forward };
    Ok([alone, both - alone, optimizer])
}

/// How long a program takes that is not followed.
fn forward(executable: &Executable, inputs: &[Value], device: &Device) -> Result<Duration> {
    let start = Instant::now();
    executable.run(inputs.to_vec(), device)?;
    device.wait()?;
    Ok(start.elapsed())
}
