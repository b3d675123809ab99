//! Elementwise functions of one operand.

mod tools;

use std::slice::from_ref;

use ex_burn_engine::program::{Op, Unary};
use ex_burn_engine::{Type, Value};
use tools::*;

type Case = (Unary, fn(f64) -> f64, [f64; 5]);

/// Functions with the standard library's, and operands within their domain and away from kinks.
const SMOOTH: [Case; 25] = [
    (Unary::Abs, f64::abs, [-3.5, -0.25, 0.5, 1.0, 7.0]),
    (Unary::Acos, f64::acos, [-0.9, -0.3, 0.0, 0.4, 0.8]),
    (Unary::Acosh, f64::acosh, [1.1, 1.5, 2.0, 10.0, 300.0]),
    (Unary::Asin, f64::asin, [-0.9, -0.3, 0.0, 0.4, 0.8]),
    (Unary::Asinh, f64::asinh, [-20.0, -0.3, 0.0, 0.4, 8.0]),
    (Unary::Atan, f64::atan, [-20.0, -0.3, 0.0, 0.4, 8.0]),
    (Unary::Atanh, f64::atanh, [-0.9, -0.3, 0.0, 0.4, 0.8]),
    (Unary::Cbrt, f64::cbrt, [-27.0, -0.3, 0.2, 1.0, 8.0]),
    (Unary::Cos, f64::cos, [-4.0, -0.3, 0.0, 0.4, 8.0]),
    (Unary::Cosh, f64::cosh, [-4.0, -0.3, 0.0, 0.4, 5.0]),
    (Unary::Exp, f64::exp, [-4.0, -0.3, 0.0, 0.4, 5.0]),
    (Unary::Expm1, f64::exp_m1, [-4.0, -1e-9, 0.0, 1e-9, 5.0]),
    (Unary::Log, f64::ln, [1e-3, 0.3, 1.0, 2.5, 1e6]),
    (Unary::Log1p, f64::ln_1p, [-0.9, -1e-9, 0.0, 1e-9, 100.0]),
    (Unary::Negate, |x| -x, [-4.0, -0.3, 0.0, 0.4, 5.0]),
    (Unary::Rsqrt, |x| 1.0 / x.sqrt(), [1e-2, 0.3, 1.0, 2.5, 1e4]),
    (Unary::Sigmoid, |x| 1.0 / (1.0 + (-x).exp()), [-40.0, -0.3, 0.0, 0.4, 40.0]),
    (Unary::Sin, f64::sin, [-4.0, -0.3, 0.0, 0.4, 8.0]),
    (Unary::Sinh, f64::sinh, [-4.0, -0.3, 0.0, 0.4, 5.0]),
    (Unary::Sqrt, f64::sqrt, [1e-2, 0.3, 1.0, 2.5, 1e4]),
    (Unary::Tan, f64::tan, [-4.0, -0.3, 0.0, 0.4, 1.4]),
    (Unary::Tanh, f64::tanh, [-4.0, -0.3, 0.0, 0.4, 8.0]),
    (Unary::Ceil, f64::ceil, [-1.5, -0.25, 0.5, 1.25, 7.0]),
    (Unary::Floor, f64::floor, [-1.5, -0.25, 0.5, 1.25, 7.0]),
    // Rust rounds halves away from zero, as Nx does.
    (Unary::Round, f64::round, [-2.5, -0.5, 0.5, 1.5, 2.5]),
];

/// Functions, an operand and the value from tables.
const PUBLISHED: [(Unary, f64, f64); 24] = [
    // Abramowitz and Stegun, table 7.1, and NIST's DLMF 7.
    (Unary::Erf, 0.5, 0.520_499_877_813_046_5),
    (Unary::Erf, 1.0, 0.842_700_792_949_714_9),
    (Unary::Erf, -2.0, -0.995_322_265_018_952_7),
    (Unary::Erfc, 0.5, 0.479_500_122_186_953_5),
    (Unary::Erfc, -1.0, 1.842_700_792_949_715),
    (Unary::Erfc, 4.0, 1.541_725_790_028_002e-8),
    // Half the normal distribution's quantiles of 75 %, 97.5 % and 99.95 %, over the square root of 2.
    (Unary::ErfInv, 0.5, 0.476_936_276_204_469_9),
    (Unary::ErfInv, 0.95, 1.385_903_824_349_678_4),
    (Unary::ErfInv, -0.999, -2.326_753_765_513_524_6),
    (Unary::ErfInv, 1e-8, 8.862_269_254_527_58e-9),
    (Unary::ErfInv, 1.0, f64::INFINITY),
    (Unary::ErfInv, -1.0, f64::NEG_INFINITY),
    (Unary::ErfInv, 1.5, f64::NAN),
    (Unary::Sigmoid, -f64::INFINITY, 0.0),
    (Unary::Sigmoid, f64::INFINITY, 1.0),
    (Unary::Sign, -0.5, -1.0),
    (Unary::Sign, 0.0, 0.0),
    (Unary::Sign, f64::INFINITY, 1.0),
    (Unary::Sign, f64::NEG_INFINITY, -1.0),
    (Unary::Sign, f64::NAN, f64::NAN),
    (Unary::Sqrt, -1.0, f64::NAN),
    (Unary::Log, 0.0, f64::NEG_INFINITY),
    (Unary::Phase, -3.0, std::f64::consts::PI),
    (Unary::Phase, 3.0, 0.0),
];

const NONE: &[f64] = &[];

fn eval(op: Unary, x: &Value, dtype: Type) -> Vec<f64> {
    numbers(&run(Op::Unary(op), from_ref(x), &ty(dtype, &x.shape())))
}

#[test]
fn functions_agree_with_the_standard_library_in_each_float_type() {
    for (op, f, xs) in SMOOTH {
        for (dtype, tolerance) in [(Type::F64, 1e-14), (Type::F32, 1e-6), (Type::F16, 2e-3), (Type::BF16, 1e-2)] {
            let x = vector(dtype, &xs);
            let results: Vec<f64> = numbers(&x).into_iter().map(f).collect();
            let want = numbers(&vector(dtype, &results));
            assert_close(&format!("{op:?} of {dtype}"), &eval(op, &x, dtype), &want, tolerance);
        }
    }
}

#[test]
fn functions_agree_with_published_values() {
    for (op, x, want) in PUBLISHED {
        // Nx defines erf_inv by polynomials that are good to 8 digits.
        let exact = if op == Unary::ErfInv { 5e-8 } else { 1e-15 };
        for (dtype, tolerance) in [(Type::F64, exact), (Type::F32, 3e-6)] {
            let got = eval(op, &vector(dtype, &[x]), dtype);
            assert_close(&format!("{op:?} of {x} as {dtype}"), &got, &[want], tolerance);
        }
    }
    let tail = eval(Unary::Erfc, &vector(Type::F64, &[10.0]), Type::F64)[0];
    assert!((tail / 2.088_487_583_762_545e-45 - 1.0).abs() < 1e-13, "erfc(10) is {tail}");
}

#[test]
fn inverse_hyperbolic_functions_keep_their_digits_at_the_ends() {
    let (large, above) = (f64::from(f32::MAX), 1.0 + f64::from(f32::EPSILON));
    let logarithm = large.ln() + std::f64::consts::LN_2;
    for (op, x, want) in [
        (Unary::Asinh, large, logarithm),
        (Unary::Asinh, -large, -logarithm),
        (Unary::Acosh, large, logarithm),
        // sqrt(2 t) (1 - t / 12) at 1 + t, by its series.
        (Unary::Acosh, above, (2.0 * (above - 1.0)).sqrt()),
        (Unary::Acosh, -6961.0, f64::NAN),
        (Unary::Atanh, 1e-30, 1e-30),
        (Unary::Atanh, -1.0, f64::NEG_INFINITY),
    ] {
        let got = eval(op, &vector(Type::F32, &[x]), Type::F32);
        assert_close(&format!("{op:?} of {x}"), &got, &[want], 1e-6 * want.abs().clamp(1e-33, 1.0));
    }
}

#[test]
fn integers_are_computed_as_floats_when_the_result_is_one() {
    assert_close("exp", &eval(Unary::Exp, &vector(Type::S32, &[0.0, 1.0]), Type::F32), &[1.0, 1f64.exp()], 1e-7);
    assert_eq!(eval(Unary::Sqrt, &vector(Type::U8, &[4.0, 144.0]), Type::F32), [2.0, 12.0]);
}

#[test]
fn integer_functions_wrap() {
    let cases: [(Unary, Type, &[i128], &[i128]); 15] = [
        (Unary::Abs, Type::S8, &[-128, -5, 5], &[-128, 5, 5]),
        (Unary::Abs, Type::U64, &[u64::MAX as i128], &[u64::MAX as i128]),
        (Unary::Negate, Type::U8, &[1, 0, 255], &[255, 0, 1]),
        (Unary::Negate, Type::S64, &[i64::MIN as i128, 7], &[i64::MIN as i128, -7]),
        (Unary::Sign, Type::S16, &[-300, 0, 300], &[-1, 0, 1]),
        (Unary::Sign, Type::U32, &[0, 9], &[0, 1]),
        (Unary::BitwiseNot, Type::U8, &[0, 1, 170], &[255, 254, 85]),
        (Unary::BitwiseNot, Type::S32, &[0, -1, 5], &[-1, 0, -6]),
        (Unary::CountLeadingZeros, Type::U8, &[0, 1, 128], &[8, 7, 0]),
        (Unary::CountLeadingZeros, Type::S16, &[0, 1, -1], &[16, 15, 0]),
        (Unary::CountLeadingZeros, Type::U64, &[0, 1 << 33], &[64, 30]),
        (Unary::PopulationCount, Type::S8, &[-1, 0, 5], &[8, 0, 2]),
        (Unary::PopulationCount, Type::U64, &[u64::MAX as i128], &[64]),
        (Unary::Floor, Type::S32, &[-7], &[-7]),
        (Unary::Round, Type::U8, &[200], &[200]),
    ];
    for (op, dtype, xs, want) in cases {
        let got = run(Op::Unary(op), &[integers(dtype, xs)], &ty(dtype, &[xs.len()]));
        assert_eq!(exact(&got), want, "{op:?} of {dtype}");
    }
}

#[test]
fn predicates_answer_u8() {
    let x = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.5];
    for dtype in FLOATS {
        let x = vector(dtype, &x);
        assert_eq!(eval(Unary::IsNan, &x, Type::U8), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(eval(Unary::IsInfinity, &x, Type::U8), [0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(eval(Unary::LogicalNot, &x, Type::U8), [0.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    }
    let x = vector(Type::S8, &[-1.0, 0.0]);
    assert_eq!(eval(Unary::IsNan, &x, Type::U8), [0.0, 0.0]);
    assert_eq!(eval(Unary::IsInfinity, &x, Type::U8), [0.0, 0.0]);
    assert_eq!(eval(Unary::LogicalNot, &x, Type::U8), [0.0, 1.0]);
}

#[test]
fn real_numbers_have_their_own_real_part_and_no_imaginary_one() {
    let x = vector(Type::S32, &[-2.0, 3.0]);
    assert_eq!(eval(Unary::Real, &x, Type::F32), [-2.0, 3.0]);
    assert_eq!(eval(Unary::Imag, &x, Type::F32), [0.0, 0.0]);
}

#[test]
fn gradients_agree_with_differences() {
    for (op, _, xs) in SMOOTH.into_iter().filter(|(op, ..)| !matches!(op, Unary::Ceil | Unary::Floor | Unary::Round)) {
        let xs = xs.map(|x| if op == Unary::Rsqrt { x.max(0.3) } else { x });
        check_gradients(Op::Unary(op), &[vector(Type::F64, &xs)], &[5]);
    }
    for op in [Unary::Erf, Unary::Erfc] {
        check_gradients(Op::Unary(op), &[vector(Type::F64, &[-2.0, -0.3, 0.0, 0.4, 1.5])], &[5]);
    }
    check_gradients(Op::Unary(Unary::ErfInv), &[vector(Type::F64, &[-0.9, -0.3, 0.0, 0.4, 0.9])], &[5]);
}

#[test]
fn gradients_at_kinks_and_extremes_are_those_of_nx() {
    let one = |op, x: f64| {
        let x = tracked(&vector(Type::F32, &[x]));
        gradients(&Op::Unary(op), &[x], &ty(Type::F32, &[1]), &vector(Type::F32, &[1.0])).remove(0)[0]
    };
    assert_eq!(one(Unary::Abs, 0.0), 1.0);
    assert_eq!(one(Unary::Abs, -0.0), 1.0);
    assert_eq!(one(Unary::Sqrt, 0.0), f64::INFINITY);
    assert_eq!(one(Unary::Tanh, 100.0), 0.0);
    assert_eq!(one(Unary::Sigmoid, -200.0), 0.0);
}

#[test]
fn steps_have_no_gradient() {
    for op in [Unary::Floor, Unary::Ceil, Unary::Round, Unary::Sign, Unary::IsNan, Unary::LogicalNot] {
        let dtype = if matches!(op, Unary::IsNan | Unary::LogicalNot) { Type::U8 } else { Type::F32 };
        let y = run(Op::Unary(op), &[tracked(&vector(Type::F32, &[1.5]))], &ty(dtype, &[1]));
        assert!(y.flex().is_some(), "{op:?} is still tracked");
    }
}

#[test]
fn a_result_does_not_depend_on_being_tracked() {
    for (op, _, xs) in SMOOTH {
        for dtype in FLOATS {
            let (x, out) = (vector(dtype, &xs), ty(dtype, &[5]));
            let plain = run(Op::Unary(op), from_ref(&x), &out);
            let followed = run(Op::Unary(op), &[tracked(&x)], &out);
            assert_eq!(numbers(&plain), numbers(&followed), "{op:?} of {dtype}");
        }
    }
}

#[test]
fn any_shape_will_do() {
    for op in [Unary::Exp, Unary::Cbrt] {
        assert_close(
            "scalar",
            &eval(op, &tensor(Type::F32, &[], &[1.0]), Type::F32),
            &[if op == Unary::Exp { 1f64.exp() } else { 1.0 }],
            1e-6,
        );
        assert_eq!(eval(op, &tensor(Type::F32, &[2, 0, 3], NONE), Type::F32), NONE);
    }
    let table = tensor(Type::F64, &[2, 3], &[1.0, 8.0, 27.0, 64.0, 125.0, 216.0]);
    let turned = table.clone().permute(&[1, 0]).flip(&[0]);
    assert_close("turned", &eval(Unary::Cbrt, &turned, Type::F64), &[3.0, 6.0, 2.0, 5.0, 1.0, 4.0], 1e-15);
    let large: Vec<f64> = (0..100_000).map(f64::from).collect();
    let got = eval(Unary::Expm1, &vector(Type::F64, &large).reshape(&[100, 1000]).permute(&[1, 0]), Type::F64);
    let want: Vec<f64> = (0..100_000).map(|i| ((i % 100 * 1000 + i / 100) as f64).exp_m1()).collect();
    assert_eq!(got, want);
}

#[test]
fn types_without_the_function_are_refused() {
    let message = error(Op::Unary(Unary::BitwiseNot), &[vector(Type::F32, &[1.0])], &ty(Type::F32, &[1]));
    assert_eq!(message, "bitwise_not of f32 is not implemented on cpu");
    let message = error(Op::Unary(Unary::Erf), &[vector(Type::F32, &[1.0])], &ty(Type::C64, &[1]));
    assert_eq!(message, "erf of c64 is not implemented on cpu");
}
