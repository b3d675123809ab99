//! How much memory a backward pass takes, counted by the allocator. Nothing else may run in this process, so
//! its tests wait for each other.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use ex_burn_engine::exec::Executable;
use ex_burn_engine::program::{Axes, Binary, Constant, Fold, Instruction, Op, Program, Reduce, Slice, Unary, While};
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

static ALONE: Mutex<()> = Mutex::new(());

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

/// Elements of a row of what a loop writes.
const ROW: usize = LENGTH / 16;

fn instruction(op: Op, inputs: &[usize], ty: &TensorType) -> Instruction {
    Instruction { op, inputs: inputs.to_vec(), outputs: vec![ty.clone()] }
}

/// The sum of what a loop of [`DEPTH`] iterations writes: the first [`ROW`] elements of `x`, which begins with ones and becomes the
/// hyperbolic tangent of its product with `w`.
fn looped() -> Arc<Executable> {
    let [number, truth] = [Type::S32, Type::U8].map(|dtype| TensorType::new(dtype, []));
    let [x, row, line] = [vec![LENGTH], vec![ROW], vec![1, ROW]].map(|shape| TensorType::new(Type::F32, shape));
    let rows = TensorType::new(Type::F32, [DEPTH, ROW]);
    let constant = |n: usize| Op::Constant(Constant { bytes: (n as i32).to_le_bytes().to_vec() });
    let inputs = vec![number.clone(), x.clone(), rows.clone(), x.clone()];
    let condition = Program {
        inputs: inputs.clone(),
        instructions: vec![
            instruction(constant(DEPTH), &[], &number),
            instruction(Op::Binary(Binary::Less), &[0, 4], &truth),
        ],
        outputs: vec![5],
    };
    let first = Op::Slice(Slice { starts: vec![0], lengths: vec![ROW], strides: vec![1] });
    let body = Program {
        inputs,
        instructions: vec![
            instruction(constant(1), &[], &number),
            instruction(Op::Binary(Binary::Add), &[0, 4], &number),
            instruction(Op::Binary(Binary::Multiply), &[1, 3], &x),
            instruction(Op::Unary(Unary::Tanh), &[6], &x),
            instruction(first, &[7], &row),
            instruction(Op::Reshape, &[8], &line),
            instruction(constant(0), &[], &number),
            instruction(Op::PutSlice, &[2, 9, 0, 10], &rows),
        ],
        outputs: vec![5, 7, 11],
    };
    let state = vec![number.clone(), x.clone(), rows.clone()];
    let zeros = Op::Broadcast(Axes { axes: vec![] });
    let one = Op::Constant(Constant { bytes: 1.0f32.to_le_bytes().to_vec() });
    let scalar = TensorType::new(Type::F32, []);
    let sum = Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false });
    let instructions = vec![
        instruction(constant(0), &[], &number),
        instruction(one, &[], &scalar),
        instruction(zeros.clone(), &[2], &x),
        instruction(constant(0), &[], &scalar),
        instruction(zeros, &[4], &rows),
        Instruction { op: Op::While(While { condition, body }), inputs: vec![1, 3, 5, 0], outputs: state },
        instruction(sum, &[8], &scalar),
    ];
    let program = Program { inputs: vec![x], instructions, outputs: vec![9] };
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
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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

#[test]
fn a_loop_needs_the_root_of_the_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let program = looped();
    let (whole, _) = measure(&program, Checkpointing::Off);
    assert!(whole >= DEPTH, "{whole}");
    // One element of x by the rule of chains: it is tanh(x w), and w is 0.5.
    let (mut x, mut slope, mut sum) = (1.0f64, 0.0, 0.0);
    for _ in 0..DEPTH {
        let next = (x * 0.5).tanh();
        slope = (1.0 - next * next) * (x + 0.5 * slope);
        (x, sum) = (next, sum + slope);
    }
    for way in [Checkpointing::Off, Checkpointing::Balanced, Checkpointing::Every(3)] {
        let (peak, got) = measure(&program, way);
        let got: Vec<f32> = got.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("4 bytes"))).collect();
        let near = |(place, &got): (usize, &f32)| (f64::from(got) - if place < ROW { sum } else { 0.0 }).abs() < 1e-5;
        assert!(got.iter().enumerate().all(near), "{way:?}: {} for {sum}, {}", got[0], got[LENGTH - 1]);
        // 8 states, two tensors of each of 8 iterations, rows of 4 with their gradients, and a few gradients.
        assert!(way == Checkpointing::Off || peak < whole / 2, "{way:?}: {peak} of {whole}");
    }
}
