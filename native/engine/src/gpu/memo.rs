//! The kernel of an instruction, kept with it: to write its steps takes the host as long as a small kernel takes the GPU.

use std::sync::OnceLock;

use burn_cubecl::tensor::CubeTensor;

use super::Adapter;
use super::mapped::Mapped;
use super::rows::RowsKernel;
use crate::error::Result;
use crate::ops::Call;
use crate::value::Value;

/// What one GPU, the first that ran the instruction, runs again for other operands of the same types.
#[derive(Debug, Default)]
pub(crate) struct Memo(OnceLock<(Adapter, Ready)>);

/// A kernel, and how operands lie.
#[derive(Debug)]
pub(super) enum Ready {
    Map(Mapped),
    Rows(RowsKernel),
}

/// The results of the call; `None` where its kernel is not known yet.
pub(super) fn run(call: &Call<'_>, adapter: Adapter) -> Result<Option<Vec<Value>>> {
    let kept = call.memo.and_then(|memo| memo.0.get()).filter(|(own, _)| *own == adapter);
    let tensors: Option<Vec<&CubeTensor>> = call.inputs.iter().map(Value::cube).collect();
    let Some(((_, ready), tensors)) = kept.zip(tensors) else { return Ok(None) };
    ready.run(&tensors, call, adapter).map(Some)
}

/// The results of the call by its kernel, which is kept.
pub(super) fn keep(ready: Ready, call: &Call<'_>, adapter: Adapter) -> Result<Option<Vec<Value>>> {
    let tensors: Option<Vec<&CubeTensor>> = call.inputs.iter().map(Value::cube).collect();
    let Some(tensors) = tensors else { return Ok(None) };
    let results = ready.run(&tensors, call, adapter)?;
    if let Some(memo) = call.memo {
        // Another thread may have been first, with the same.
        let _ = memo.0.set((adapter, ready));
    }
    Ok(Some(results))
}

impl Ready {
    fn run(&self, tensors: &[&CubeTensor], call: &Call<'_>, adapter: Adapter) -> Result<Vec<Value>> {
        match self {
            Ready::Map(kernel) => kernel.run(tensors, call.outputs, adapter),
            Ready::Rows(kernel) => kernel.run(tensors, call.outputs, adapter),
        }
    }
}
