//! How much memory a backward pass takes, counted by the allocator. Nothing else may run in this process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ex_burn_engine::exec::Executable;
use ex_burn_engine::program::{Fold, Instruction, Op, Program, Reduce, Unary};
use ex_burn_engine::train::{Checkpointing, checkpointed};
use ex_burn_engine::{Device, TensorType, Type, Value};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: what holds for this call holds for the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as for `alloc`, which got `memory` from the system.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const DEPTH: usize = 64;
const LENGTH: usize = 1 << 16;

/// The sum of `x`, of which the hyperbolic tangent was taken [`DEPTH`] times.
fn program() -> Arc<Executable> {
    let ty = TensorType::new(Type::F32, [LENGTH]);
    let tanh = |id| Instruction { op: Op::Unary(Unary::Tanh), inputs: vec![id], outputs: vec![ty.clone()] };
    let mut instructions: Vec<_> = (0..DEPTH).map(tanh).collect();
    let sum = Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false });
    let scalar = TensorType::new(Type::F32, []);
    instructions.push(Instruction { op: sum, inputs: vec![DEPTH], outputs: vec![scalar] });
    let program = Program { inputs: vec![ty.clone()], instructions, outputs: vec![DEPTH + 1] };
    Arc::new(Executable::new(&program, vec![]).expect("a good program"))
}

/// The most that a pass takes, in tensors of [`LENGTH`] numbers, and its gradient.
fn measure(program: &Arc<Executable>, way: Checkpointing) -> (usize, Vec<u8>) {
    let x = Value::full(&TensorType::new(Type::F32, [LENGTH]), 0.5, &Device::Cpu).expect("a tensor").contiguous();
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let pass = checkpointed(program, 1, vec![x], way).expect("a gradient");
    let peak = (PEAK.load(Relaxed) - before) / (LENGTH * size_of::<f32>());
    let [gradient] = pass.gradients.try_into().expect("one parameter");
    (peak, gradient.into_bytes().expect("numbers"))
}

#[test]
fn segments_need_the_root_of_the_memory() {
    let program = program();
    let (whole, want) = measure(&program, Checkpointing::Off);
    assert!(whole >= DEPTH, "{whole}");
    for way in [Checkpointing::Balanced, Checkpointing::Every(8)] {
        let (peak, got) = measure(&program, way);
        // 8 segments of 8 operations: 8 between them, 8 of one segment, and a few gradients.
        assert!(peak <= 22, "{way:?}: {peak}");
        assert_eq!(got, want);
    }
}
