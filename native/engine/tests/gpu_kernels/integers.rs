//! Functions of integers.

use ex_burn_engine::program::*;
use ex_burn_engine::{Device, TensorType, Type, exec};

use super::{gpu, integers, typed, words};

const A: [i64; 10] = [7, -7, 0, i32::MIN as i64, i32::MAX as i64, 100, -100, 1, -1, 12345];
const B: [i64; 10] = [2, 2, 5, -1, 3, -7, -7, i32::MIN as i64, 1, 100];

/// A comparison and the same of numbers.
type Comparison = (Binary, fn(&i64, &i64) -> bool);

#[test]
fn quotients_and_remainders_round_towards_zero() {
    let Some(gpu) = gpu() else { return };
    let run = |op: Binary, dtype: Type| {
        let inputs = [words(dtype, &[10], &A), words(dtype, &[10], &B)];
        integers(&gpu.one(&Op::Binary(op), &inputs, TensorType::new(dtype, [10])))
    };
    let signed =
        |f: fn(i32, i32) -> i32| -> Vec<i64> { A.iter().zip(B).map(|(&a, b)| f(a as i32, b as i32).into()).collect() };
    let unsigned =
        |f: fn(u32, u32) -> u32| -> Vec<i64> { A.iter().zip(B).map(|(&a, b)| f(a as u32, b as u32).into()).collect() };
    assert_eq!(run(Binary::Quotient, Type::S32), signed(i32::wrapping_div));
    assert_eq!(run(Binary::Remainder, Type::S32), signed(i32::wrapping_rem));
    assert_eq!(run(Binary::Quotient, Type::U32), unsigned(|a, b| a / b));
    assert_eq!(run(Binary::Remainder, Type::U32), unsigned(|a, b| a % b));
}

#[test]
fn what_cannot_be_divided_is_an_error() {
    let Some(gpu) = gpu() else { return };
    for (op, right) in
        [(Binary::Quotient, 0), (Binary::Remainder, 0), (Binary::LeftShift, -1), (Binary::RightShift, -3)]
    {
        let inputs = [words(Type::S32, &[3], &[1, 2, 3]), words(Type::S32, &[3], &[1, right, 1])];
        let there = inputs.into_iter().map(|value| value.to_device(&gpu.device).unwrap()).collect();
        let result = exec::instruction(&Op::Binary(op), there, &[TensorType::new(Type::S32, [3])], &gpu.device);
        assert!(result.is_err(), "{op:?}");
    }
    ex_burn_engine::gpu::fallback::take();
}

#[test]
fn shifts_past_the_width_leave_the_sign() {
    let Some(gpu) = gpu() else { return };
    let (x, counts) = ([-8, -8, 8, i32::MIN as i64, 1, -1], [1, 40, 2, 31, 31, 32]);
    let inputs = [words(Type::S32, &[6], &x), words(Type::S32, &[6], &counts)];
    let run = |op: Binary| integers(&gpu.one(&Op::Binary(op), &inputs, TensorType::new(Type::S32, [6])));
    assert_eq!(run(Binary::RightShift), [-4, -1, 2, -1, 0, -1]);
    assert_eq!(run(Binary::LeftShift), [-16, 0, 32, 0, i32::MIN as i64, 0]);
    let narrow = [typed(Type::U8, &[3], &[255.0, 3.0, 1.0]), typed(Type::U8, &[3], &[1.0, 7.0, 9.0])];
    let shifted = gpu.one(&Op::Binary(Binary::LeftShift), &narrow, TensorType::new(Type::U8, [3]));
    assert_eq!(integers(&shifted), [254, 128, 0]);
}

#[test]
fn powers_wrap() {
    let Some(gpu) = gpu() else { return };
    let (x, y) = ([3, -3, 2, 0, 0, 7, -1], [4, 3, 33, 0, 5, 20, 1_000_001]);
    let inputs = [words(Type::S32, &[7], &x), words(Type::S32, &[7], &y)];
    let found = integers(&gpu.one(&Op::Binary(Binary::Pow), &inputs, TensorType::new(Type::S32, [7])));
    assert_eq!(found, x.iter().zip(y).map(|(&x, y)| (x as i32).wrapping_pow(y as u32).into()).collect::<Vec<i64>>());
}

#[test]
fn comparisons_of_signed_with_unsigned_integers() {
    let Some(gpu) = gpu() else { return };
    let (a, b) = ([-1, 5, 5, 0, i32::MIN as i64, 7], [0xffff_ffff, 5, 6, 0, 0x8000_0000, 3]);
    let (signed, unsigned) = (words(Type::S32, &[6], &a), words(Type::U32, &[6], &b));
    let cases: [Comparison; 6] = [
        (Binary::Less, |a, b| a < b),
        (Binary::LessEqual, |a, b| a <= b),
        (Binary::Greater, |a, b| a > b),
        (Binary::GreaterEqual, |a, b| a >= b),
        (Binary::Equal, |a, b| a == b),
        (Binary::NotEqual, |a, b| a != b),
    ];
    for (op, holds) in cases {
        let out = || TensorType::new(Type::U8, [6]);
        let found = integers(&gpu.one(&Op::Binary(op), &[signed.clone(), unsigned.clone()], out()));
        assert_eq!(found, a.iter().zip(&b).map(|(a, b)| holds(a, b).into()).collect::<Vec<i64>>(), "{op:?}");
        let found = integers(&gpu.one(&Op::Binary(op), &[unsigned.clone(), signed.clone()], out()));
        assert_eq!(found, a.iter().zip(&b).map(|(a, b)| holds(b, a).into()).collect::<Vec<i64>>(), "{op:?}");
    }
}

#[test]
fn connectives_of_any_types() {
    let Some(gpu) = gpu() else { return };
    let inputs = [typed(Type::F32, &[4], &[0.0, 1e-40, f32::NAN, -0.0]), words(Type::S32, &[4], &[1, 0, 5, 0])];
    let run = |op: Binary| integers(&gpu.one(&Op::Binary(op), &inputs, TensorType::new(Type::U8, [4])));
    assert_eq!(run(Binary::LogicalAnd), [0, 0, 1, 0]);
    assert_eq!(run(Binary::LogicalOr), [1, 1, 1, 0]);
    assert_eq!(run(Binary::LogicalXor), [1, 1, 0, 0]);
}

#[test]
fn parts_of_several_types_become_one() {
    let Some(gpu) = gpu() else { return };
    let parts = [typed(Type::U8, &[2], &[1.0, 2.0]), words(Type::S32, &[2], &[-3, 4])];
    let joined = gpu.one(&Op::Concatenate(Axis { axis: 0 }), &parts, TensorType::new(Type::S32, [4]));
    assert_eq!(integers(&joined), [1, 2, -3, 4]);
    assert_eq!(joined.device(), Device::Cpu);
}
