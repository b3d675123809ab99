//! Elementwise functions of one operand.

mod common;

use common::*;
use ex_burn_engine::Type;
use ex_burn_engine::program::{Op, Unary};

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

#[test]
fn functions_agree_with_the_standard_library_in_each_float_type() {
    for (op, f, xs) in SMOOTH {
        for (dtype, tolerance) in [(Type::F64, 1e-14), (Type::F32, 1e-6), (Type::F16, 2e-3), (Type::BF16, 1e-2)] {
            let x = vector(dtype, &xs);
            let rounded: Vec<f64> = numbers(&x).into_iter().map(f).collect();
            let want = numbers(&vector(dtype, &rounded));
            assert_close(&format!("{op:?} of {dtype}"), &eval(&Op::Unary(op), &[x], dtype, &[5]), &want, tolerance);
        }
    }
}

#[test]
fn gradients_agree_with_differences() {
    for (op, _, xs) in SMOOTH.into_iter().filter(|(op, ..)| !matches!(op, Unary::Ceil | Unary::Floor | Unary::Round)) {
        check_gradients(&Op::Unary(op), &[vector(Type::F64, &xs)], &[5]);
    }
    for op in [Unary::Erf, Unary::Erfc] {
        check_gradients(&Op::Unary(op), &[vector(Type::F64, &[-2.0, -0.3, 0.0, 0.4, 1.5])], &[5]);
    }
    check_gradients(&Op::Unary(Unary::ErfInv), &[vector(Type::F64, &[-0.9, -0.3, 0.0, 0.4, 0.99])], &[5]);
}
