//! Kernels of our own on a GPU against known answers and loops over indices. Needs a driver: with `EX_BURN_TEST_DEVICE=gpu` none
//! is an error, otherwise the tests do nothing without one and say so.
#![cfg(feature = "gpu")]

mod attend;
mod fourier;
mod functions;
mod integers;
mod linalg;
mod linear;
#[path = "../tools/gpu.rs"]
mod machine;
mod nearest;
mod order;
mod products;
mod recorded;
mod running;
mod sizes;
mod types;
mod update;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use burn_cubecl::cubecl::logging::{LaunchObservation, LaunchObserver};
use ex_burn_engine::exec;
use ex_burn_engine::gpu::fallback;
use ex_burn_engine::program::Op;
use ex_burn_engine::{Device, TensorType, Type, Value};

/// What runs on the CPU instead is counted for the whole process, so tests take turns.
static TURN: Mutex<()> = Mutex::new(());

struct Gpu {
    device: Device,
    _turn: MutexGuard<'static, ()>,
}

fn gpu() -> Option<Gpu> {
    let adapter = machine::adapter();
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    adapter.map(|adapter| Gpu { device: Device::Gpu(adapter), _turn: turn })
}

impl Gpu {
    /// Runs an operation, which needs no CPU.
    fn run(&self, op: &Op, inputs: &[Value], outputs: &[TensorType]) -> Vec<Value> {
        let there = inputs.iter().map(|value| value.clone().to_device(&self.device).unwrap()).collect();
        fallback::take();
        let results = exec::instruction(op, there, outputs, &self.device).unwrap();
        assert_eq!(fallback::take(), [], "{op} of {outputs:?} has no kernel");
        results.into_iter().map(|value| value.to_device(&Device::Cpu).unwrap()).collect()
    }

    fn one(&self, op: &Op, inputs: &[Value], output: TensorType) -> Value {
        self.run(op, inputs, &[output]).remove(0)
    }
}

/// How many kernels are asked for while `run` runs.
fn launches(run: impl FnOnce()) -> usize {
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl LaunchObserver for Count {
        fn launched(&self, _kernel: &'static str) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    let count = Arc::new(Count::default());
    let watching = LaunchObservation::new(count.clone());
    run();
    drop(watching);
    count.0.load(Ordering::Relaxed)
}

/// Numbers that look random, from 0 up to 1.
fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn singles(shape: &[usize], numbers: &[f32]) -> Value {
    let bytes = numbers.iter().copied().flat_map(f32::to_le_bytes).collect();
    Value::from_bytes(&TensorType::new(Type::F32, shape), bytes, &Device::Cpu).unwrap()
}

/// Integers of 32 bits.
fn words(dtype: Type, shape: &[usize], numbers: &[i64]) -> Value {
    let bytes = numbers.iter().flat_map(|&number| (number as u32).to_le_bytes()).collect();
    Value::from_bytes(&TensorType::new(dtype, shape), bytes, &Device::Cpu).unwrap()
}

/// Of any real type of up to 32 bits.
fn typed(dtype: Type, shape: &[usize], numbers: &[f32]) -> Value {
    ex_burn_engine::ops::cast(singles(shape, numbers), dtype).unwrap()
}

fn floats(value: &Value) -> Vec<f64> {
    let wide = ex_burn_engine::ops::cast(value.clone(), Type::F64).unwrap();
    let bytes = wide.into_bytes().unwrap();
    bytes.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn integers(value: &Value) -> Vec<i64> {
    floats(value).into_iter().map(|number| number as i64).collect()
}

/// The place of the first element of each line along an axis, and how far its elements are apart.
fn lines(shape: &[usize], axis: usize) -> (Vec<usize>, usize) {
    let step: usize = shape[axis + 1..].iter().product();
    let len: usize = shape.iter().product();
    ((0..len).filter(|at| (at / step).is_multiple_of(shape[axis])).collect(), step)
}
