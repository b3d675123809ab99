//! What the tests of operations share.
#![allow(dead_code, unreachable_pub, reason = "each test file is a crate and uses some of it")]

use burn_backend::AutodiffBackend;
use burn_backend::ops::FloatTensorOps;
use burn_dispatch::{Dispatch, DispatchAutodiffContext};
use ex_burn_engine::exec::{Executable, instruction};
use ex_burn_engine::ops::cast;
use ex_burn_engine::program::{Binary, Fold, Instruction, Op, Program, Reduce};
use ex_burn_engine::{Device, Error, TensorType, Type, Value, scalar, train};

/// Types that hold small whole numbers exactly.
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

pub fn ty(dtype: Type, shape: &[usize]) -> TensorType {
    TensorType::new(dtype, shape)
}

pub fn tensor(dtype: Type, shape: &[usize], numbers: &[f64]) -> Value {
    let bytes = numbers.iter().flat_map(|&n| scalar::from_f64(dtype, n)).collect();
    Value::from_bytes(&ty(dtype, shape), bytes, &Device::Cpu).expect("as many numbers as the shape holds")
}

/// A vector of the numbers.
pub fn vector(dtype: Type, numbers: &[f64]) -> Value {
    tensor(dtype, &[numbers.len()], numbers)
}

/// A vector of integers, exactly.
pub fn integers(dtype: Type, numbers: &[i128]) -> Value {
    let bytes = numbers.iter().flat_map(|n| n.to_le_bytes()[..dtype.size()].to_vec()).collect();
    Value::from_bytes(&ty(dtype, &[numbers.len()]), bytes, &Device::Cpu).expect("an integer type")
}

/// 0, 1, 2 ... in `shape`.
pub fn iota(dtype: Type, shape: &[usize]) -> Value {
    let numbers: Vec<f64> = (0..shape.iter().product()).map(|n: usize| n as f64).collect();
    tensor(dtype, shape, &numbers)
}

pub fn numbers(value: &Value) -> Vec<f64> {
    let dtype = value.dtype();
    let bytes = value.untracked().into_bytes().expect("readable");
    bytes.chunks_exact(dtype.size()).map(|b| scalar::to_f64(dtype, b).expect("a real type")).collect()
}

/// A complex vector of the pairs.
pub fn complex(dtype: Type, numbers: &[[f64; 2]]) -> Value {
    let bytes = numbers.iter().flatten().flat_map(|&n| scalar::from_f64(dtype.part(), n)).collect();
    Value::from_bytes(&ty(dtype, &[numbers.len()]), bytes, &Device::Cpu).expect("a complex type")
}

/// Real and imaginary part of each complex number.
pub fn parts(value: &Value) -> Vec<f64> {
    let part = value.dtype().part();
    let bytes = value.clone().into_bytes().expect("readable");
    bytes.chunks_exact(part.size()).map(|b| scalar::to_f64(part, b).expect("a complex type")).collect()
}

/// The integers, exactly.
pub fn exact(value: &Value) -> Vec<i128> {
    let dtype = value.dtype();
    let bytes = value.clone().into_bytes().expect("readable");
    bytes.chunks_exact(dtype.size()).map(|b| scalar::to_i128(dtype, b).expect("an integer type")).collect()
}

/// Fails unless the numbers agree to `tolerance`, relative above 1; NaN agrees with NaN.
#[track_caller]
pub fn assert_close(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    let close = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * b.abs().max(1.0);
    let agree = got.len() == want.len() && got.iter().zip(want).all(|(&a, &b)| close(a, b));
    assert!(agree, "{what}: got {got:?}, want {want:?}");
}

pub fn try_run(op: Op, inputs: &[Value], out: &TensorType) -> Result<Value, Error> {
    instruction(&op, inputs.to_vec(), std::slice::from_ref(out), &Device::Cpu).map(|mut results| results.remove(0))
}

pub fn run(op: Op, inputs: &[Value], out: &TensorType) -> Value {
    try_run(op.clone(), inputs, out).unwrap_or_else(|error| panic!("{op:?}: {error}"))
}

/// The message of the error that the operation must answer.
pub fn error(op: Op, inputs: &[Value], out: &TensorType) -> String {
    match try_run(op.clone(), inputs, out) {
        Ok(value) => panic!("{op:?} answered {}", value.ty()),
        Err(error) => error.to_string(),
    }
}

/// Whole numbers that look random, `-range..=range`.
pub fn noise(seed: u64, count: usize, range: i64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5678_9abc_def1);
    let next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as i64 % (2 * range + 1) - range
    };
    std::iter::repeat_with(next).take(count).map(|n| n as f64).collect()
}

/// A tensor that autodiff follows.
pub fn tracked(value: &Value) -> Value {
    let tensor = Dispatch::from_inner(value.tensor().clone());
    Value::new(value.dtype(), Dispatch::float_set_require_grad(tensor, true))
}

/// Gradients of `sum(weights * op(inputs))` for the tracked `inputs`.
pub fn gradients(op: &Op, inputs: &[Value], out: &TensorType, weights: &Value) -> Vec<Vec<f64>> {
    let line = [weights.len()];
    let result = run(op.clone(), inputs, out).reshape(&line);
    let weighted = Dispatch::float_mul(result.into_tensor(), weights.clone().reshape(&line).into_tensor());
    let grads = Dispatch::backward(Dispatch::float_sum(weighted));
    let followed = |input: &Value| input.tensor().autodiff != DispatchAutodiffContext::Disabled;
    let gradient = |input: &Value| match followed(input).then(|| Dispatch::grad(input.tensor(), &grads)).flatten() {
        Some(tensor) => numbers(&Value::new(input.dtype(), tensor)),
        None => vec![0.0; input.len()],
    };
    inputs.iter().filter(|input| input.dtype().is_float()).map(gradient).collect()
}

/// Compares the gradient of each float operand, in f64, with central differences.
#[track_caller]
pub fn check_gradients(op: Op, inputs: &[Value], out_shape: &[usize]) {
    let out = ty(Type::F64, out_shape);
    let weights = noise(7, out_shape.iter().product(), 5);
    let weights_value = tensor(Type::F64, out_shape, &weights);
    let followed: Vec<Value> =
        inputs.iter().map(|v| if v.dtype().is_float() { tracked(v) } else { v.clone() }).collect();
    let got = gradients(&op, &followed, &out, &weights_value);
    assert_same_in_a_program(&op, inputs, &out, &weights_value, &got);
    let loss = |inputs: &[Value]| -> f64 {
        numbers(&run(op.clone(), inputs, &out)).iter().zip(&weights).map(|(a, b)| a * b).sum()
    };
    let float_at: Vec<usize> = (0..inputs.len()).filter(|&i| inputs[i].dtype().is_float()).collect();
    for (&at, got) in float_at.iter().zip(&got) {
        let base = numbers(&inputs[at]);
        for element in 0..base.len() {
            let at_offset = |offset: f64| {
                let mut moved = base.clone();
                moved[element] += offset;
                let mut inputs = inputs.to_vec();
                inputs[at] = tensor(Type::F64, &inputs[at].shape(), &moved);
                loss(&inputs)
            };
            let step = 1e-5 * base[element].abs().max(1.0);
            let slope = (at_offset(step) - at_offset(-step)) / (2.0 * step);
            assert!(
                (slope - got[element]).abs() < 1e-6 * slope.abs().max(1.0),
                "{op:?}: operand {at}, element {element}: {} should be {slope}",
                got[element]
            );
        }
    }
}

/// Fails unless a training step that sums the weighted results has the gradients `want`.
#[track_caller]
fn assert_same_in_a_program(op: &Op, inputs: &[Value], out: &TensorType, weights: &Value, want: &[Vec<f64>]) {
    let (floats, others): (Vec<usize>, Vec<usize>) = (0..inputs.len()).partition(|&i| inputs[i].dtype().is_float());
    let order = [floats.clone(), others].concat();
    let mut values: Vec<Value> = order.iter().map(|&i| inputs[i].untracked()).collect();
    values.push(weights.clone());
    let operands = (0..inputs.len()).map(|i| order.iter().position(|&at| at == i).expect("all of them")).collect();
    let result = values.len();
    let step = |op, inputs, ty: &TensorType| Instruction { op, inputs, outputs: vec![ty.clone()] };
    let sum = Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false });
    let program = Program {
        inputs: values.iter().map(Value::ty).collect(),
        instructions: vec![
            step(op.clone(), operands, out),
            step(Op::Binary(Binary::Multiply), vec![result, result - 1], out),
            step(sum, vec![result + 1], &ty(out.dtype, &[])),
        ],
        outputs: vec![result + 2],
    };
    for executable in [Executable::new(&program, vec![]), Executable::optimised(&program, vec![], &[])] {
        let executable = executable.expect("a program");
        let pass = train::gradients(&executable, floats.len(), values.clone(), &Device::Cpu).expect("gradients");
        let got: Vec<Vec<f64>> = pass.gradients.iter().map(numbers).collect();
        for (at, (got, want)) in got.iter().zip(want).enumerate() {
            assert_close(&format!("gradient {at} of {op:?} in a step"), got, want, 1e-9);
        }
    }
}

/// `value` in another type.
pub fn as_type(value: &Value, dtype: Type) -> Value {
    cast(value.clone(), dtype).expect("a type that the device has")
}

/// Calls `visit` with every index of `shape`, in row-major order.
pub fn each_index(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    for flat in 0..shape.iter().product::<usize>() {
        let (mut rest, mut index) = (flat, vec![0; shape.len()]);
        for axis in (0..shape.len()).rev() {
            index[axis] = rest % shape[axis];
            rest /= shape[axis];
        }
        visit(&index);
    }
}

/// Row-major position of `index` in `shape`.
pub fn position(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |at, (&i, &n)| at * n + i)
}
