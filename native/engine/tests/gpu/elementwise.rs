//! Functions of each element.

use super::*;

#[test]
fn small_halves() {
    let Some((_turn, device)) = gpu() else { return };
    let sizes = [1e-9f32, 2.9e-8, 3.0e-8, 4.4e-8, 8.9e-8, 5.5e-6, 6.097_555e-5, 6.1e-5, 65519.9, 65520.0];
    let bytes = sizes.into_iter().flat_map(f32::to_le_bytes).collect();
    let x = Value::from_bytes(&TensorType::new(Type::F32, [10]), bytes, &Device::Cpu).unwrap();
    same(&device, &Op::Cast, &[x], TensorType::new(Type::F16, [10]), 0.0);
}

const UNARY: [(Unary, f64); 19] = [
    (Unary::Abs, 0.0),
    (Unary::Ceil, 0.0),
    (Unary::Cos, 2.0),
    (Unary::Erf, 2.0),
    (Unary::Exp, 2.0),
    (Unary::Expm1, 2.0),
    (Unary::Floor, 0.0),
    (Unary::IsInfinity, 0.0),
    (Unary::IsNan, 0.0),
    (Unary::Log, 2.0),
    (Unary::Log1p, 2.0),
    (Unary::LogicalNot, 0.0),
    (Unary::Negate, 0.0),
    (Unary::Round, 0.0),
    (Unary::Rsqrt, 4.0),
    (Unary::Sigmoid, 4.0),
    (Unary::Sign, 0.0),
    (Unary::Sin, 2.0),
    (Unary::Sqrt, 2.0),
];

#[test]
fn functions_of_one_float() {
    let Some((_turn, device)) = gpu() else { return };
    let mut failed = false;
    for (op, units) in UNARY.into_iter().chain([(Unary::Tanh, 2.0)]) {
        let predicate = matches!(op, Unary::IsInfinity | Unary::IsNan | Unary::LogicalNot);
        for dtype in [Type::F32, Type::F16, Type::BF16] {
            let out = if predicate { Type::U8 } else { dtype };
            let units = if dtype == Type::F32 { units } else { units.min(1.0) };
            let (x, out) = (value(dtype, &[37, 41], 1), TensorType::new(out, [37, 41]));
            let run = || same(&device, &Op::Unary(op), &[x], out, units);
            failed |= std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err();
        }
    }
    assert!(!failed);
}

#[test]
fn functions_of_two_floats() {
    use Binary::*;
    let Some((_turn, device)) = gpu() else { return };
    let arithmetic = [(Add, 0.0), (Divide, 3.0), (Max, 0.0), (Min, 0.0), (Multiply, 0.0), (Subtract, 0.0)];
    let predicates = [Equal, NotEqual, Greater, GreaterEqual, Less, LessEqual, LogicalAnd, LogicalOr, LogicalXor];
    for dtype in [Type::F32, Type::F16, Type::BF16] {
        let (a, b) = (value(dtype, &[5, 1, 37], 1), value(dtype, &[41, 1], 2));
        for (op, units) in arithmetic {
            same(&device, &Op::Binary(op), &[a.clone(), b.clone()], TensorType::new(dtype, [5, 41, 37]), units);
        }
        for op in predicates {
            same(&device, &Op::Binary(op), &[a.clone(), b.clone()], TensorType::new(Type::U8, [5, 41, 37]), 0.0);
            same(&device, &Op::Binary(op), &[a.clone(), a.clone()], TensorType::new(Type::U8, [5, 1, 37]), 0.0);
        }
    }
}

const INTEGERS: [Type; 6] = [Type::U8, Type::U16, Type::U32, Type::S8, Type::S16, Type::S32];

#[test]
fn functions_of_integers() {
    use Binary::*;
    let Some((_turn, device)) = gpu() else { return };
    for dtype in INTEGERS {
        let (a, b) = (value(dtype, &[300], 1), value(dtype, &[300], 2));
        for op in [Add, Subtract, Multiply, Max, Min, BitwiseAnd, BitwiseOr, BitwiseXor] {
            same(&device, &Op::Binary(op), &[a.clone(), b.clone()], TensorType::new(dtype, [300]), 0.0);
        }
        for op in [Equal, NotEqual, Greater, Less, LessEqual, LogicalAnd, LogicalXor] {
            same(&device, &Op::Binary(op), &[a.clone(), b.clone()], TensorType::new(Type::U8, [300]), 0.0);
        }
        for op in [Unary::Abs, Unary::Negate, Unary::Sign, Unary::BitwiseNot, Unary::LogicalNot] {
            let out = if op == Unary::LogicalNot { Type::U8 } else { dtype };
            same(&device, &Op::Unary(op), std::slice::from_ref(&a), TensorType::new(out, [300]), 0.0);
        }
    }
    let (a, b) = (value(Type::U32, &[300], 1), ops::cast(value(Type::U8, &[300], 2), Type::U32).unwrap());
    for op in [LeftShift, RightShift] {
        same(&device, &Op::Binary(op), &[a.clone(), b.clone()], TensorType::new(Type::U32, [300]), 0.0);
    }
}

#[test]
fn casts() {
    let Some((_turn, device)) = gpu() else { return };
    let floats = [Type::F32, Type::F16, Type::BF16];
    for from in INTEGERS.into_iter().chain(floats) {
        for to in INTEGERS.into_iter().chain(floats) {
            same(&device, &Op::Cast, &[value(from, &[1000], 3)], TensorType::new(to, [1000]), 0.0);
        }
    }
}

/// Beside and between the halves that large integers lie among: both devices round to `f32` first.
#[test]
fn integers_as_halves() {
    let Some((_turn, device)) = gpu() else { return };
    let sizes = (8..32).flat_map(|bit| [0u32, 1, 3].map(|odd| (1u32 << bit) | (odd << (bit - 8))));
    let unsigned: Vec<u32> = sizes.flat_map(|size| [size - 1, size, size + 1]).collect();
    let len = unsigned.len();
    for (from, negated) in [(Type::U32, false), (Type::S32, false), (Type::S32, true)] {
        let bits = unsigned.iter().map(|&size| if negated { size.wrapping_neg() } else { size });
        let bytes = bits.flat_map(u32::to_le_bytes).collect();
        let x = Value::from_bytes(&TensorType::new(from, [len]), bytes, &Device::Cpu).unwrap();
        for to in [Type::F16, Type::BF16] {
            same(&device, &Op::Cast, std::slice::from_ref(&x), TensorType::new(to, [len]), 0.0);
        }
    }
}

#[test]
fn choices() {
    let Some((_turn, device)) = gpu() else { return };
    let inputs = [value(Type::S16, &[4, 1], 1), single(&[7], 2), single(&[], 3)];
    same(&device, &Op::Select, &inputs, TensorType::new(Type::F32, [4, 7]), 0.0);
    let limits = [single(&[50], 1), value(Type::F32, &[], 40), ops::cast(value(Type::U8, &[], 7), Type::F32).unwrap()];
    same(&device, &Op::Clip, &limits, TensorType::new(Type::F32, [50]), 0.0);
}
