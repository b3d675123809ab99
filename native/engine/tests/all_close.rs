//! Closeness of tensors.

mod tools;

use ex_burn_engine::program::{AllClose, Op};
use ex_burn_engine::{Type, Value};
use tools::*;

fn close(a: &Value, b: &Value, equal_nan: bool, rtol: f64, atol: f64) -> bool {
    let op = Op::AllClose(AllClose { equal_nan, rtol, atol });
    numbers(&run(op, &[a.clone(), b.clone()], &ty(Type::U8, &[]))) == [1.0]
}

#[test]
fn floats_are_close_within_both_tolerances() {
    for dtype in FLOATS {
        let a = vector(dtype, &[1.0, 100.0]);
        assert!(close(&a, &vector(dtype, &[1.0, 101.0]), false, 0.01, 0.0), "{dtype}");
        assert!(!close(&a, &vector(dtype, &[1.0, 102.0]), false, 0.01, 0.0), "{dtype}");
        assert!(close(&a, &vector(dtype, &[1.5, 100.5]), false, 0.0, 0.5), "{dtype}");
        assert!(!close(&a, &vector(dtype, &[1.5, 101.0]), false, 0.0, 0.5), "{dtype}");
    }
}

#[test]
fn tolerance_is_relative_to_the_second() {
    let (small, large) = (vector(Type::F64, &[100.0]), vector(Type::F64, &[111.0]));
    assert!(close(&small, &large, false, 0.1, 0.0));
    assert!(!close(&large, &small, false, 0.1, 0.0));
}

#[test]
fn infinities_and_nan() {
    let inf = vector(Type::F32, &[f64::INFINITY]);
    let nan = vector(Type::F32, &[f64::NAN]);
    assert!(close(&inf, &inf, false, 0.0, 0.0));
    assert!(!close(&inf, &vector(Type::F32, &[f64::NEG_INFINITY]), false, 1.0, 1.0));
    assert!(!close(&vector(Type::F32, &[1.0]), &inf, false, 1.0, 1.0));
    assert!(!close(&nan, &nan, false, 1.0, 1.0));
    assert!(close(&nan, &nan, true, 0.0, 0.0));
    assert!(!close(&nan, &vector(Type::F32, &[1.0]), true, 1.0, 1.0));
}

#[test]
fn integers_of_any_type_and_mixed_operands() {
    for dtype in TYPES {
        let a = tensor(dtype, &[2, 2], &[5.0, 6.0, 7.0, 8.0]);
        assert!(close(&a, &vector(Type::S8, &[5.0, 6.0]), false, 0.0, 2.0), "{dtype}");
        assert!(!close(&a, &vector(Type::S8, &[5.0, 6.0]), false, 0.0, 1.0), "{dtype}");
        assert!(close(&vector(dtype, &[]), &vector(dtype, &[]), false, 0.0, 0.0), "{dtype}");
    }
    let large = integers(Type::U64, &[i128::from(u64::MAX)]);
    assert!(!close(&large, &integers(Type::U64, &[i128::from(u64::MAX) - 1]), false, 0.0, 0.5));
}
