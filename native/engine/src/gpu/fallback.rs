//! What a GPU has no kernel for runs on the CPU, and is counted: nobody should have to guess why a program is slow.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::{Adapter, transfer};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::ops::{self, Call};
use crate::types::Type;
use crate::value::Value;

/// How often operations ran on the CPU instead, by their names and the types that had no kernel, since it was last asked.
static COUNTS: Mutex<BTreeMap<(String, &'static str), u64>> = Mutex::new(BTreeMap::new());
static TOTAL: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Operations that ran on the CPU instead of a GPU since this was last asked: name, the type that has no kernel, how often.
pub fn take() -> Vec<(String, &'static str, u64)> {
    if TOTAL.swap(0, Ordering::Relaxed) == 0 {
        return Vec::new();
    }
    let counts = std::mem::take(&mut *COUNTS.lock());
    counts.into_iter().map(|((op, dtype), count)| (op, dtype, count)).collect()
}

/// Makes what a GPU has no kernel for an error, or lets the CPU do it again.
pub fn refuse(refused: bool) {
    REFUSED.store(refused, Ordering::Relaxed);
}

/// Runs the operation on the CPU and brings its results to the GPU.
pub(super) fn run(call: Call<'_>, adapter: Adapter) -> Result<Vec<Value>> {
    count(call.op.name(), lacking(&call), call.device)?;
    let inputs = call.inputs.into_iter().map(transfer::download).collect::<Result<_>>()?;
    let results = ops::run(Call { inputs, device: &Device::Cpu, ..call })?;
    results.into_iter().map(|result| transfer::upload(result, adapter)).collect()
}

/// The type that the GPU has no kernel for: the one that has no place there, of the operands before the results, else that of
/// the first operand.
fn lacking(call: &Call<'_>) -> &'static str {
    let inputs = call.inputs.iter().map(Value::dtype);
    let types: Vec<Type> = inputs.chain(call.outputs.iter().map(|out| out.dtype)).collect();
    let homeless = types.iter().find(|&&dtype| transfer::word(dtype).is_none());
    homeless.or(types.first()).map_or("", |dtype| dtype.name())
}

/// Counts that `name` runs on the CPU and not on `device`.
///
/// # Errors
///
/// [`Error::Invalid`] where that is refused.
pub(crate) fn count(name: String, dtype: &'static str, device: &Device) -> Result<()> {
    if REFUSED.load(Ordering::Relaxed) {
        let reason = format!("has no kernel for {dtype} on {device} and may not run on the CPU instead");
        return Err(Error::invalid(name, reason));
    }
    *COUNTS.lock().entry((name, dtype)).or_default() += 1;
    TOTAL.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
