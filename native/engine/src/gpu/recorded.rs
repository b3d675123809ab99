//! Programs whose kernels are recorded once and then asked for together: most small kernels take a GPU less time than it takes the
//! host to ask for them.
//!
//! What is recorded works on memory of its own. A run copies those inputs there that are not there yet, asks for all kernels at once,
//! and copies the results, so that a recording can run again while they are in use.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use burn_cubecl::cubecl::client::{Client, Graph};
use burn_cubecl::cubecl::server::ServerError;
use burn_cubecl::tensor::CubeTensor;
use parking_lot::Mutex;

use super::ask::tell;
use super::copy::copy;
use super::transfer::{empty, from_cube};
use super::{Adapter, wait};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::exec::Plan;
use crate::panics::catch;
use crate::program::{Op, Program};
use crate::types::TensorType;
use crate::value::Value;

/// So many runs come before the one that is recorded: most programs of a session run once or twice.
const RUNS: u32 = 2;
/// A program of fewer instructions is not recorded: copies would take as long.
const INSTRUCTIONS: usize = 4;
/// Most bytes of the values of a program that is recorded: kernels over more take a GPU longer than the host.
const LARGEST: usize = 64 << 20;
/// Most bytes of the values of all recordings.
const MOST: usize = 256 << 20;

/// Bytes of the values of recordings that there are, and of those whose memory is still to be given back.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static LEFT: AtomicUsize = AtomicUsize::new(0);

static REPLAYS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static TRANSFERS: Cell<usize> = const { Cell::new(0) };
}

/// How often a GPU was asked for a program by its recording, since the process began.
///
/// ```
/// assert_eq!(ex_burn_engine::gpu::replays(), 0);
/// ```
pub fn replays() -> u64 {
    REPLAYS.load(Ordering::Relaxed)
}

/// Tells that the thread sent something to a GPU or read something from it, which a recording does not do again.
pub(super) fn transferred() {
    TRANSFERS.set(TRANSFERS.get() + 1);
}

/// The recording of a program, if there is one.
#[derive(Debug)]
pub(crate) struct Recorded(Mutex<State>);

#[derive(Debug)]
enum State {
    /// So many runs came before.
    Runs(u32),
    Never,
    Kept(Box<Recording>),
}

impl Recorded {
    /// For runs of `program`, if its kernels depend on nothing but types.
    pub(crate) fn new(program: &Program, wanted: bool) -> Self {
        let enough = program.instructions.len() >= INSTRUCTIONS && bytes(program) <= LARGEST;
        let straight = |op: &Op| !matches!(op, Op::While(_) | Op::Cond(_)) && !op.has_effect();
        let can = wanted && enough && program.instructions.iter().all(|instruction| straight(&instruction.op));
        Self(Mutex::new(if can { State::Runs(0) } else { State::Never }))
    }

    /// The results of `plan`, the program that this was made for, on `inputs` of its types; `None` if it is to run step by step.
    ///
    /// # Errors
    ///
    /// As [`Plan::run`]; [`Error::Invalid`] when the GPU fails.
    pub(crate) fn run(&self, plan: &Plan, inputs: &[Value], adapter: Adapter) -> Result<Option<Vec<Value>>> {
        let mut state = self.0.lock();
        match &mut *state {
            State::Runs(runs) if *runs < RUNS => {
                *runs += 1;
                let last = *runs == RUNS;
                drop(state);
                let before = TRANSFERS.get();
                let results = plan.run(inputs.to_vec(), &Device::Gpu(adapter))?;
                if last && TRANSFERS.get() != before {
                    *self.0.lock() = State::Never;
                }
                return Ok(Some(results));
            }
            State::Runs(_) => {
                *state = Recording::new(plan, inputs, adapter).map_or(State::Never, |new| State::Kept(Box::new(new)));
            }
            State::Kept(recording) if recording.failed.load(Ordering::Relaxed) => *state = State::Never,
            State::Never | State::Kept(_) => {}
        }
        let results = match &mut *state {
            State::Kept(recording) if recording.adapter == adapter => recording.run(inputs),
            _ => return Ok(None),
        };
        if results.is_err() {
            *state = State::Never;
        }
        results
    }
}

/// Which memory a tensor is: no other gets the same name, and no kernel changes what a tensor holds.
type Name = (usize, Option<u64>, Option<u64>);

fn name(tensor: &CubeTensor) -> Name {
    let handle = &tensor.handle;
    (handle.memory.descriptor().id.value, handle.offset_start, handle.offset_end)
}

/// The memory that kernels of a recording read an input from.
#[derive(Debug)]
struct Slot {
    tensor: CubeTensor,
    /// The input that it is a copy of.
    holds: Option<Name>,
}

#[derive(Debug)]
struct Recording {
    // Given up before the memory that it works on.
    graph: Graph,
    adapter: Adapter,
    /// Where inputs are read from; `None` for those that nobody reads.
    slots: Vec<Option<Slot>>,
    results: Vec<Value>,
    /// Whether the GPU once refused to run it: so do the values of that run when they are read.
    failed: Arc<AtomicBool>,
    _share: Share,
}

impl Recording {
    /// `None` for a program that the GPU does not run alone, and where there is no memory for it.
    fn new(plan: &Plan, inputs: &[Value], adapter: Adapter) -> Option<Self> {
        let share = Share::take(bytes(plan.program()))?;
        let client = adapter.client().ok()?;
        if LEFT.load(Ordering::Relaxed) > MOST / 2 {
            LEFT.store(0, Ordering::Relaxed);
            adapter.release_memory().ok()?;
        }
        // CUDA takes no questions of other threads while it records.
        let _alone = wait::hold();
        // Memory of its own, since nobody else gets any of what lies beside that of a recording. What other threads ask for comes
        // before or behind.
        let record = || client.memory_persistent_allocation((), |()| record(plan, inputs, adapter, client));
        let recorded = client.exclusive(|| wait::alone(|| catch("program", record)));
        let (graph, slots, results) = recorded.ok()?.ok()??;
        Some(Self { graph, adapter, slots, results, failed: Arc::default(), _share: share })
    }

    /// `None` for inputs that are elsewhere.
    fn run(&mut self, inputs: &[Value]) -> Result<Option<Vec<Value>>> {
        let mut moved = vec![];
        for (slot, value) in self.slots.iter().zip(inputs) {
            let Some(slot) = slot else { continue };
            let Some(tensor) = value.cube() else { return Ok(None) };
            if slot.holds != Some(name(tensor)) {
                moved.push((tensor, &slot.tensor));
            }
        }
        copy(&moved, self.adapter)?;
        for (slot, value) in self.slots.iter_mut().zip(inputs) {
            if let Some((slot, tensor)) = slot.as_mut().zip(value.cube()) {
                slot.holds = Some(name(tensor));
            }
        }
        let (graph, failed) = (self.graph.clone(), self.failed.clone());
        // SAFETY: the recording holds the memory that its kernels were given, nobody else has it, and all threads ask by one stream.
        // It is given back behind what was asked for before.
        let replay = move || failed.store(unsafe { graph.replay() }.is_err(), Ordering::Relaxed);
        tell(self.adapter, replay)?;
        REPLAYS.fetch_add(1, Ordering::Relaxed);
        let types: Vec<TensorType> = self.results.iter().map(Value::ty).collect();
        let results = types.iter().map(|ty| empty(ty, self.adapter)).collect::<Result<Vec<_>>>()?;
        let pairs: Vec<_> = self.results.iter().filter_map(Value::cube).zip(&results).collect();
        copy(&pairs, self.adapter)?;
        Ok(Some(results.into_iter().zip(types).map(|(tensor, ty)| from_cube(ty.dtype, tensor)).collect()))
    }
}

type Made = (Graph, Vec<Option<Slot>>, Vec<Value>);

/// Runs the program as it would run, and once more to record it; `None` if that is no use.
fn record(plan: &Plan, inputs: &[Value], adapter: Adapter, client: &Client) -> Result<Option<Made>> {
    let Some(slots) = slots(plan, inputs, adapter)? else { return Ok(None) };
    let own = |(slot, value): (&Option<Slot>, &Value)| match slot {
        Some(slot) => from_cube(value.dtype(), slot.tensor.clone()),
        None => value.clone(),
    };
    let values: Vec<Value> = slots.iter().zip(inputs).map(own).collect();
    let run = || catch("program", || plan.run(values.clone(), &Device::Gpu(adapter)));
    client.graph_prepare().map_err(failed)?;
    let before = TRANSFERS.get();
    let alone = run().is_ok_and(|results| results.iter().all(|value| value.cube().is_some()));
    let results = match alone && TRANSFERS.get() == before && client.start_capture().is_ok() {
        true => run(),
        false => Err(Error::invalid("program", "is not run by a GPU alone")),
    };
    let graph = client.stop_capture();
    Ok(results.ok().zip(graph.ok()).map(|(results, graph)| (graph, slots, results)))
}

/// Copies of the inputs that are read; `None` if one is not on the GPU.
fn slots(plan: &Plan, inputs: &[Value], adapter: Adapter) -> Result<Option<Vec<Option<Slot>>>> {
    let unused = plan.unused_inputs();
    let mut slots = Vec::with_capacity(inputs.len());
    for (id, value) in inputs.iter().enumerate() {
        match value.cube() {
            _ if unused.contains(&id) => slots.push(None),
            Some(tensor) => {
                let own = empty(&value.ty(), adapter)?;
                copy(&[(tensor, &own)], adapter)?;
                slots.push(Some(Slot { tensor: own, holds: Some(name(tensor)) }));
            }
            None => return Ok(None),
        }
    }
    Ok(Some(slots))
}

/// A part of the memory that recordings may take.
#[derive(Debug)]
struct Share(usize);

impl Share {
    fn take(bytes: usize) -> Option<Self> {
        let more = |taken: usize| Some(taken + bytes).filter(|&taken| taken <= MOST);
        TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(bytes))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
        LEFT.fetch_add(self.0, Ordering::Relaxed);
    }
}

/// Of all values, though some take the place of others.
fn bytes(program: &Program) -> usize {
    let types = program.value_types();
    let words = types.iter().map(|ty| ty.shape.iter().product::<usize>() * if ty.dtype.is_complex() { 2 } else { 1 });
    words.sum::<usize>().saturating_mul(4)
}

fn failed(error: ServerError) -> Error {
    Error::invalid("device", format!("the GPU failed: {error}"))
}
