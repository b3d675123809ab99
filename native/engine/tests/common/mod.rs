//! What the tests of operations share: values from numbers, one operation at a time, gradients two ways.

#![allow(dead_code, unreachable_pub, missing_docs)]

use burn_backend::AutodiffBackend;
use burn_backend::ops::FloatTensorOps;
use burn_dispatch::Dispatch;
use ex_burn_engine::program::Op;
use ex_burn_engine::{Device, Result, TensorType, Type, Value, exec, scalar};

/// All types that the CPU has.
pub const TYPES: [Type; 12] = [
    Type::U8,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S8,
    Type::S16,
    Type::S32,
    Type::S64,
    Type::BF16,
    Type::F16,
    Type::F32,
    Type::F64,
];

pub const FLOATS: [Type; 4] = [Type::BF16, Type::F16, Type::F32, Type::F64];

/// A tensor of the numbers, each wrapped or rounded into `dtype`.
pub fn tensor(dtype: Type, shape: &[usize], numbers: &[f64]) -> Value {
    let bytes = numbers.iter().flat_map(|&n| scalar::from_f64(dtype, n).expect("a real type")).collect();
    Value::from_bytes(&TensorType::new(dtype, shape), bytes, &Device::Cpu).expect("as many numbers as elements")
}

/// A vector of the numbers.
pub fn vector(dtype: Type, numbers: &[f64]) -> Value {
    tensor(dtype, &[numbers.len()], numbers)
}

/// A vector of integers, exactly.
pub fn integers(dtype: Type, numbers: &[i128]) -> Value {
    let bytes = numbers.iter().flat_map(|n| n.to_le_bytes()[..dtype.size()].to_vec()).collect();
    Value::from_bytes(&TensorType::new(dtype, [numbers.len()]), bytes, &Device::Cpu).expect("an integer type")
}

/// The elements in row-major order.
pub fn numbers(value: &Value) -> Vec<f64> {
    let dtype = value.dtype();
    let bytes = value.untracked().into_bytes().expect("memory of the CPU");
    bytes.chunks(dtype.size()).map(|b| scalar::to_f64(dtype, b).expect("a real type")).collect()
}

/// The integers in row-major order, exactly.
pub fn exact(value: &Value) -> Vec<i128> {
    let dtype = value.dtype();
    let bytes = value.untracked().into_bytes().expect("memory of the CPU");
    bytes.chunks(dtype.size()).map(|b| scalar::to_i128(dtype, b).expect("an integer type")).collect()
}

/// The results of one operation.
pub fn run_all(op: &Op, inputs: &[Value], outputs: &[TensorType]) -> Result<Vec<Value>> {
    exec::instruction(op, inputs.to_vec(), outputs, &Device::Cpu)
}

/// The result of one operation.
pub fn run(op: &Op, inputs: &[Value], dtype: Type, shape: &[usize]) -> Result<Value> {
    Ok(run_all(op, inputs, &[TensorType::new(dtype, shape)])?.remove(0))
}

/// The elements of the result of one operation that succeeds.
pub fn eval(op: &Op, inputs: &[Value], dtype: Type, shape: &[usize]) -> Vec<f64> {
    numbers(&run(op, inputs, dtype, shape).unwrap_or_else(|e| panic!("{op:?}: {e}")))
}

/// Fails unless the numbers agree to `tolerance`, relative above 1; NaN agrees with NaN.
#[track_caller]
pub fn assert_close(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    let close = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * b.abs().max(1.0);
    let agree = got.len() == want.len() && got.iter().zip(want).all(|(&a, &b)| close(a, b));
    assert!(agree, "{what}: got {got:?}, want {want:?}");
}

/// A value whose gradient autodiff follows.
pub fn tracked(value: Value) -> Value {
    let dtype = value.dtype();
    Value::new(dtype, Dispatch::float_set_require_grad(Dispatch::from_inner(value.into_tensor()), true))
}

/// The gradient of each float input from `weights` as the gradient of the result, by autodiff.
pub fn gradients(op: &Op, inputs: &[Value], out: &TensorType, weights: &[f64]) -> Vec<Vec<f64>> {
    let inputs: Vec<Value> =
        inputs.iter().map(|v| if v.dtype().is_float() { tracked(v.clone()) } else { v.clone() }).collect();
    let result = run_all(op, &inputs, std::slice::from_ref(out)).unwrap_or_else(|e| panic!("{op:?}: {e}")).remove(0);
    let weights = tensor(out.dtype, &out.shape, weights).into_tensor();
    let loss = Dispatch::float_sum(Dispatch::float_mul(result.into_tensor(), weights));
    let gradients = Dispatch::backward(loss);
    let of = |v: &Value| {
        let gradient = Dispatch::grad(v.tensor(), &gradients);
        gradient.map_or(vec![0.0; v.len()], |g| numbers(&Value::new(v.dtype(), g)))
    };
    inputs.iter().filter(|v| v.dtype().is_float()).map(of).collect()
}

/// Unequal weights for `n` results, so that no two elements' gradients can be exchanged unseen.
pub fn weights(n: usize) -> Vec<f64> {
    (0..n).map(|i| 0.5 + (i as f64 * 0.7).sin()).collect()
}

/// Fails unless autodiff's gradients of f64 inputs agree with central differences.
#[track_caller]
pub fn check_gradients(op: &Op, inputs: &[Value], shape: &[usize]) {
    let out = TensorType::new(Type::F64, shape);
    let weights = weights(shape.iter().product());
    let loss =
        |inputs: &[Value]| -> f64 { eval(op, inputs, Type::F64, shape).iter().zip(&weights).map(|(y, w)| y * w).sum() };
    let gradients = gradients(op, inputs, &out, &weights);
    for (k, gradient) in (0..inputs.len()).filter(|&k| inputs[k].dtype().is_float()).zip(gradients) {
        let at = numbers(&inputs[k]);
        let slope = |i: usize| {
            let step = 1e-6 * at[i].abs().max(1.0);
            let moved = |by: f64| {
                let (mut numbers, mut inputs) = (at.clone(), inputs.to_vec());
                numbers[i] += by;
                inputs[k] = tensor(Type::F64, &inputs[k].shape(), &numbers);
                loss(&inputs)
            };
            (moved(step) - moved(-step)) / (2.0 * step)
        };
        let want: Vec<f64> = (0..at.len()).map(slope).collect();
        assert_close(&format!("gradient of operand {k} of {op:?}"), &gradient, &want, 1e-5);
    }
}
