//! Elementwise functions of two operands.

mod tools;

use ex_burn_engine::program::{Binary, Op};
use ex_burn_engine::{Type, Value};
use tools::*;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

fn apply(op: Binary, left: &Value, right: &Value, dtype: Type, shape: &[usize]) -> Value {
    run(Op::Binary(op), &[left.clone(), right.clone()], &ty(dtype, shape))
}

/// Functions with the standard library's, and operands away from kinks, where Nx's gradient is the true one.
type Case = (Binary, Real, [f64; 4], [f64; 4]);
type Real = fn(f64, f64) -> f64;
type Test = fn(f64, f64) -> bool;
const SMOOTH: [Case; 11] = [
    (Binary::Add, |a, b| a + b, [1.0, -2.5, 3.0, 0.0], [0.5, 7.0, -3.0, 0.0]),
    (Binary::Subtract, |a, b| a - b, [1.0, -2.5, 3.0, 0.0], [0.5, 7.0, -3.0, 0.0]),
    (Binary::Multiply, |a, b| a * b, [1.0, -2.5, 3.0, 0.0], [0.5, 7.0, -3.0, 0.0]),
    (Binary::Divide, |a, b| a / b, [1.0, -2.5, 3.0, 0.0], [0.5, 7.0, -3.0, 2.0]),
    (Binary::Atan2, f64::atan2, [1.0, -2.5, 3.0, 0.5], [0.5, 7.0, -3.0, 2.0]),
    (Binary::Max, f64::max, [1.0, -2.5, 3.0, 0.0], [0.5, 7.0, -3.0, 2.0]),
    (Binary::Min, f64::min, [1.0, -2.5, 3.0, 0.0], [0.5, 7.0, -3.0, 2.0]),
    (Binary::Pow, f64::powf, [1.0, 2.5, 3.0, 0.5], [0.5, 2.0, -3.0, 0.0]),
    (Binary::Pow, f64::powf, [2.0, 3.0, 0.5, 1.5], [3.0, -0.5, 2.0, 1.0]),
    (Binary::Remainder, |a, b| a % b, [7.5, 2.5, 3.0, 10.0], [2.0, 7.0, 2.0, 3.0]),
    (Binary::Remainder, |a, b| a % b, [-0.5, -5.0, 1.0, 10.5], [2.0, -7.0, 4.0, 3.0]),
];

#[test]
fn functions_agree_with_the_standard_library_in_each_float_type() {
    for (op, f, a, b) in SMOOTH {
        for (dtype, tolerance) in [(Type::F64, 1e-15), (Type::F32, 1e-6), (Type::F16, 2e-3), (Type::BF16, 1e-2)] {
            let (a, b) = (vector(dtype, &a), vector(dtype, &b));
            let want: Vec<f64> = numbers(&a).into_iter().zip(numbers(&b)).map(|(a, b)| f(a, b)).collect();
            let want = numbers(&vector(dtype, &want));
            let got = numbers(&apply(op, &a, &b, dtype, &[4]));
            assert_close(&format!("{op:?} of {dtype}"), &got, &want, tolerance);
        }
    }
}

#[test]
fn gradients_agree_with_differences() {
    for (op, _, a, b) in SMOOTH {
        // Nx differentiates the remainder as if it floored, which holds for quotients above zero.
        if op == Binary::Remainder && a[0] < 0.0 {
            continue;
        }
        check_gradients(Op::Binary(op), &[vector(Type::F64, &a), vector(Type::F64, &b)], &[4]);
        let column = tensor(Type::F64, &[4, 1], &a);
        check_gradients(
            Op::Binary(op),
            &[column, vector(Type::F64, &b.map(|b| if b == 0.0 { 1.5 } else { b + 0.1 }))],
            &[4, 4],
        );
    }
    let (scalar, table) = (tensor(Type::F64, &[], &[1.5]), tensor(Type::F64, &[2, 2], &[1.0, 2.0, 3.0, 4.0]));
    check_gradients(Op::Binary(Binary::Divide), &[scalar.clone(), table.clone()], &[2, 2]);
    check_gradients(Op::Binary(Binary::Pow), &[table, scalar], &[2, 2]);
}

#[test]
fn gradients_at_kinks_and_zeros_are_those_of_nx() {
    // Operation, operands and the gradients of both.
    let cases = [
        (Binary::Max, 2.0, 2.0, 0.5, 0.5),
        (Binary::Min, 2.0, 2.0, 0.5, 0.5),
        (Binary::Max, 3.0, 2.0, 1.0, 0.0),
        (Binary::Pow, 0.0, 2.0, 0.0, 0.0),
        (Binary::Pow, 0.0, 1.0, 1.0, 0.0),
        (Binary::Pow, 0.0, 0.0, 0.0, 0.0),
        (Binary::Pow, 5.0, 0.0, 0.0, 5f64.ln()),
        (Binary::Pow, -2.0, 3.0, 12.0, NAN),
        (Binary::Pow, -2.0, -1.0, -0.25, NAN),
        (Binary::Remainder, -7.0, 3.0, 1.0, 3.0),
        (Binary::Multiply, 0.0, 5.0, 5.0, 0.0),
    ];
    for (op, a, b, left, right) in cases {
        let operands = [tracked(&vector(Type::F64, &[a])), tracked(&vector(Type::F64, &[b]))];
        let got = gradients(&Op::Binary(op), &operands, &ty(Type::F64, &[1]), &vector(Type::F64, &[1.0]));
        assert_close(&format!("{op:?} at {a}, {b}"), &got.concat(), &[left, right], 1e-12);
    }
}

#[test]
fn an_operand_used_twice_gets_both_gradients() {
    let x = tracked(&vector(Type::F64, &[3.0]));
    for (op, want) in [(Binary::Add, 2.0), (Binary::Multiply, 6.0), (Binary::Subtract, 0.0), (Binary::Divide, 0.0)] {
        let got = gradients(&Op::Binary(op), &[x.clone(), x.clone()], &ty(Type::F64, &[1]), &vector(Type::F64, &[1.0]));
        assert_eq!(got[0], [want], "{op:?}");
    }
}

#[test]
fn gradients_come_in_the_type_of_the_operand() {
    for dtype in FLOATS {
        let operands = [tracked(&vector(dtype, &[1.5, 2.0])), vector(Type::S32, &[2.0, 4.0])];
        let got =
            gradients(&Op::Binary(Binary::Multiply), &operands, &ty(Type::F64, &[2]), &vector(Type::F64, &[1.0, 1.0]));
        assert_eq!(got, [[2.0, 4.0]], "{dtype}");
    }
}

#[test]
fn nan_and_infinity_follow_ieee_and_extrema_propagate_nan() {
    let cases = [
        (Binary::Max, NAN, 1.0, NAN),
        (Binary::Max, 1.0, NAN, NAN),
        (Binary::Min, NAN, -INF, NAN),
        (Binary::Max, -INF, 1.0, 1.0),
        (Binary::Min, INF, 1.0, 1.0),
        (Binary::Divide, 1.0, 0.0, INF),
        (Binary::Divide, 0.0, 0.0, NAN),
        (Binary::Pow, 0.0, -1.0, INF),
        (Binary::Pow, -8.0, 0.5, NAN),
        (Binary::Pow, -2.0, 3.0, -8.0),
        (Binary::Remainder, -11.0, 10.0, -1.0),
        (Binary::Remainder, 1.0, 0.0, NAN),
        (Binary::Atan2, 0.0, -1.0, std::f64::consts::PI),
        (Binary::Add, INF, -INF, NAN),
    ];
    for (op, a, b, want) in cases {
        for dtype in FLOATS {
            let got = numbers(&apply(op, &vector(dtype, &[a]), &vector(dtype, &[b]), dtype, &[1]));
            assert_close(&format!("{op:?} of {a}, {b} as {dtype}"), &got, &[want], 1e-2);
        }
    }
}

#[test]
fn of_two_zeros_the_first_one_is_the_extremum() {
    for op in [Binary::Max, Binary::Min] {
        for dtype in FLOATS {
            let (a, b) = (vector(dtype, &[0.0, -0.0]), vector(dtype, &[-0.0, 0.0]));
            let got = numbers(&apply(op, &a, &b, dtype, &[2]));
            assert_eq!([got[0].is_sign_negative(), got[1].is_sign_negative()], [false, true], "{op:?} of {dtype}");
        }
    }
}

#[test]
fn comparisons_answer_u8() {
    let (a, b) = ([1.0, 2.0, 3.0, NAN, NAN, -0.0], [2.0, 2.0, 2.0, 1.0, NAN, 0.0]);
    let cases: [(Binary, Test); 6] = [
        (Binary::Equal, |a, b| a == b),
        (Binary::NotEqual, |a, b| a != b),
        (Binary::Greater, |a, b| a > b),
        (Binary::GreaterEqual, |a, b| a >= b),
        (Binary::Less, |a, b| a < b),
        (Binary::LessEqual, |a, b| a <= b),
    ];
    for (op, f) in cases {
        for dtype in TYPES {
            let (a, b) = (vector(dtype, &a), vector(dtype, &b));
            let want: Vec<f64> = numbers(&a).into_iter().zip(numbers(&b)).map(|(a, b)| f(a, b).into()).collect();
            assert_eq!(numbers(&apply(op, &a, &b, Type::U8, &[6])), want, "{op:?} of {dtype}");
        }
    }
}

#[test]
fn u64_and_s64_compare_and_divide_exactly() {
    let big = i128::from(u64::MAX);
    let cases = [
        (Binary::Equal, big, -1, Type::U8, 0),
        (Binary::Greater, big, -1, Type::U8, 1),
        (Binary::Less, 1 << 63, i128::from(i64::MIN), Type::U8, 0),
        (Binary::LessEqual, 5, 5, Type::U8, 1),
        (Binary::GreaterEqual, 0, 1, Type::U8, 0),
        (Binary::NotEqual, 1 << 63, i128::from(i64::MIN), Type::U8, 1),
        (Binary::Quotient, big, -2, Type::S64, -(big / 2)),
        (Binary::Remainder, big, 10, Type::S64, big % 10),
        (Binary::Min, big, -3, Type::S64, -3),
        (Binary::Max, 7, -3, Type::S64, 7),
    ];
    for (op, a, b, dtype, want) in cases {
        let (a, b) = (integers(Type::U64, &[a]), integers(Type::S64, &[b]));
        assert_eq!(exact(&apply(op, &a, &b, dtype, &[1])), [want], "{op:?}");
    }
    let reversed = apply(Binary::Less, &integers(Type::S8, &[-1]), &integers(Type::U64, &[0]), Type::U8, &[1]);
    assert_eq!(exact(&reversed), [1]);
}

#[test]
fn connectives_take_any_type_and_count_nan_as_true() {
    let a = vector(Type::F32, &[0.0, 0.0, NAN, -0.0]);
    let b = vector(Type::U8, &[0.0, 7.0, 0.0, 1.0]);
    assert_eq!(numbers(&apply(Binary::LogicalAnd, &a, &b, Type::U8, &[4])), [0.0, 0.0, 0.0, 0.0]);
    assert_eq!(numbers(&apply(Binary::LogicalOr, &a, &b, Type::U8, &[4])), [0.0, 1.0, 1.0, 1.0]);
    assert_eq!(numbers(&apply(Binary::LogicalXor, &a, &b, Type::U8, &[4])), [0.0, 1.0, 1.0, 1.0]);
    let tiny = apply(Binary::LogicalAnd, &vector(Type::BF16, &[1e-30]), &vector(Type::F16, &[1.0]), Type::U8, &[1]);
    assert_eq!(numbers(&tiny), [1.0]);
}

#[test]
fn integer_arithmetic_wraps() {
    let (min32, min64, max64) = (i128::from(i32::MIN), i128::from(i64::MIN), i128::from(u64::MAX));
    let cases = [
        (Binary::Add, Type::U8, 200, 100, 44),
        (Binary::Add, Type::U32, 0xffff_ffff, 2, 1),
        (Binary::Add, Type::S64, i128::from(i64::MAX), 1, min64),
        (Binary::Subtract, Type::U16, 1, 2, 65535),
        (Binary::Subtract, Type::S8, -128, 1, 127),
        (Binary::Multiply, Type::S32, 1 << 30, 4, 0),
        (Binary::Multiply, Type::U64, max64, max64, 1),
        (Binary::Pow, Type::U8, 3, 7, 2187 % 256),
        (Binary::Pow, Type::S32, -2, 31, min32),
        (Binary::Pow, Type::U64, 0, 0, 1),
        (Binary::Quotient, Type::S32, 7, -2, -3),
        (Binary::Quotient, Type::S32, min32, -1, min32),
        (Binary::Quotient, Type::U64, max64, 10, max64 / 10),
        (Binary::Remainder, Type::S8, -11, 10, -1),
        (Binary::Remainder, Type::S64, min64, -1, 0),
        (Binary::Remainder, Type::U32, 4_000_000_001, 1_000_000_000, 1),
        (Binary::Max, Type::U64, max64, 1, max64),
        (Binary::Min, Type::S16, -5, 3, -5),
        (Binary::BitwiseAnd, Type::S8, -1, 12, 12),
        (Binary::BitwiseOr, Type::U16, 0xf0, 0x0f, 0xff),
        (Binary::BitwiseXor, Type::U32, 0xffff_0000, 0xffff_ffff, 0xffff),
    ];
    for (op, dtype, a, b, want) in cases {
        let got = apply(op, &integers(dtype, &[a]), &integers(dtype, &[b]), dtype, &[1]);
        assert_eq!(exact(&got), [want], "{op:?} of {dtype} {a}, {b}");
    }
}

#[test]
fn shifts_past_the_width_leave_nothing_but_the_sign() {
    let cases = [
        (Binary::LeftShift, Type::U8, 1, 7, 128),
        (Binary::LeftShift, Type::U8, 1, 8, 0),
        (Binary::LeftShift, Type::S32, 3, 31, i128::from(i32::MIN)),
        (Binary::LeftShift, Type::U64, 1, 200, 0),
        (Binary::RightShift, Type::U32, 0x8000_0000, 31, 1),
        (Binary::RightShift, Type::U32, 0xffff_ffff, 32, 0),
        (Binary::RightShift, Type::S32, -8, 1, -4),
        (Binary::RightShift, Type::S32, -8, 40, -1),
        (Binary::RightShift, Type::S8, 100, 9, 0),
        (Binary::RightShift, Type::U64, i128::from(u64::MAX), 63, 1),
    ];
    for (op, dtype, a, n, want) in cases {
        for counts in [Type::U8, Type::S32, Type::U64] {
            let got = apply(op, &integers(dtype, &[a]), &integers(counts, &[n]), dtype, &[1]);
            assert_eq!(exact(&got), [want], "{op:?} of {dtype} {a} by {counts} {n}");
        }
    }
    let wide =
        apply(Binary::RightShift, &integers(Type::U64, &[1 << 63]), &integers(Type::S32, &[60]), Type::S64, &[1]);
    assert_eq!(exact(&wide), [8]);
}

#[test]
fn operands_of_several_types_meet_in_one_that_holds_both() {
    // Left type, right type, operation, result type, operands, result.
    let cases = [
        (Type::U8, Type::S32, Binary::Add, Type::U8, 250.0, 10.0, 4.0),
        (Type::U8, Type::S8, Binary::Subtract, Type::S16, 200.0, -100.0, 300.0),
        (Type::U32, Type::S32, Binary::Multiply, Type::S64, 4e9, -2.0, -8e9),
        (Type::S64, Type::F32, Binary::Add, Type::F32, 3.0, 0.5, 3.5),
        (Type::S32, Type::S32, Binary::Divide, Type::F32, 1.0, 4.0, 0.25),
        (Type::BF16, Type::F16, Binary::Multiply, Type::F16, 1.5, 2.0, 3.0),
        (Type::F32, Type::F64, Binary::Add, Type::F64, 1.0, 1e-12, 1.0 + 1e-12),
        (Type::S32, Type::F32, Binary::Pow, Type::F32, 2.0, -1.0, 0.5),
        (Type::U8, Type::S8, Binary::Less, Type::U8, 200.0, -1.0, 0.0),
    ];
    for (left, right, op, dtype, a, b, want) in cases {
        let got = numbers(&apply(op, &vector(left, &[a]), &vector(right, &[b]), dtype, &[1]));
        assert_eq!(got, [want], "{op:?} of {left} and {right}");
    }
}

#[test]
fn operands_broadcast() {
    let row = vector(Type::S32, &[1.0, 2.0, 3.0]);
    let column = tensor(Type::S32, &[2, 1], &[10.0, 20.0]);
    let sum = apply(Binary::Add, &row, &column, Type::S32, &[2, 3]);
    assert_eq!(numbers(&sum), [11.0, 12.0, 13.0, 21.0, 22.0, 23.0]);
    let scalar = tensor(Type::S32, &[], &[5.0]);
    assert_eq!(numbers(&apply(Binary::Subtract, &scalar, &row, Type::S32, &[3])), [4.0, 3.0, 2.0]);
    assert_eq!(numbers(&apply(Binary::Subtract, &row, &scalar, Type::S32, &[3])), [-4.0, -3.0, -2.0]);
    let empty = tensor(Type::F32, &[0, 3], &[]);
    assert_eq!(numbers(&apply(Binary::Max, &empty, &row, Type::F32, &[0, 3])), [0.0; 0]);
    let turned = tensor(Type::S32, &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).permute(&[1, 0]);
    let difference = apply(Binary::Subtract, &turned, &row.flip(&[0]), Type::S32, &[2, 3]);
    assert_eq!(numbers(&difference), [-2.0, 1.0, 4.0, -1.0, 2.0, 5.0]);
}

#[test]
fn large_operands_are_split_without_a_seam() {
    let (rows, columns) = (300, 257);
    let left = iota(Type::S64, &[rows, columns]);
    let right = iota(Type::S64, &[columns, rows]).permute(&[1, 0]);
    let want: Vec<f64> =
        (0..rows * columns).map(|i| (i % columns * rows + i / columns) as f64 - i as f64).map(|d| -d).collect();
    assert_eq!(numbers(&apply(Binary::Subtract, &left, &right, Type::S64, &[rows, columns])), want);
}

#[test]
fn negative_powers_of_integers_leave_the_whole_part() {
    let (base, exponent) =
        (vector(Type::S32, &[2.0, 1.0, -1.0, -1.0, 3.0]), vector(Type::S8, &[-1.0, -5.0, -3.0, -2.0, 2.0]));
    assert_eq!(exact(&apply(Binary::Pow, &base, &exponent, Type::S32, &[5])), [0, 1, -1, 1, 9]);
}

#[test]
fn senseless_operands_are_refused() {
    let (one, zero, less) = (vector(Type::S32, &[1.0]), vector(Type::S32, &[0.0]), vector(Type::S32, &[-1.0]));
    let cases = [
        (Binary::Quotient, &zero, "quotient: division by zero"),
        (Binary::Remainder, &zero, "remainder: division by zero"),
        (Binary::LeftShift, &less, "left_shift: cannot left shift by -1"),
        (Binary::RightShift, &less, "right_shift: cannot right shift by -1"),
    ];
    for (op, right, want) in cases {
        assert_eq!(error(Op::Binary(op), &[one.clone(), right.clone()], &ty(Type::S32, &[1])), want);
    }
    let message = error(Op::Binary(Binary::Pow), &[zero, less], &ty(Type::S32, &[1]));
    assert_eq!(message, "pow: 0 to a negative power");
    let (two, three) = (vector(Type::F32, &[1.0, 2.0]), vector(Type::F32, &[1.0, 2.0, 3.0]));
    let message = error(Op::Binary(Binary::Add), &[two, three], &ty(Type::F32, &[3]));
    assert_eq!(message, "add: shape [2] does not broadcast to [3]");
    let floats = [vector(Type::F32, &[1.0]), vector(Type::F32, &[1.0])];
    let message = error(Op::Binary(Binary::BitwiseAnd), &floats, &ty(Type::F32, &[1]));
    assert_eq!(message, "bitwise_and of f32 is not implemented on cpu");
}
