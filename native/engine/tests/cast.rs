//! Changes of element type and choices between elements.

mod tools;

use std::slice::from_ref;

use ex_burn_engine::Type;
use ex_burn_engine::program::Op;
use tools::*;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

#[test]
fn floats_become_integers_by_truncation_and_wrapping() {
    let cases: [(Type, f64, i128); 22] = [
        (Type::S32, 2.9, 2),
        (Type::S32, -2.9, -2),
        (Type::U8, 300.0, 44),
        (Type::U8, -1.5, 255),
        (Type::S32, 3e9, -1_294_967_296),
        (Type::U32, -1.0, u32::MAX as i128),
        (Type::S64, 1e19, 1e19 as i128 - (1 << 64)),
        (Type::U64, 1e19, 1e19 as i128),
        (Type::U64, -1.0, u64::MAX as i128),
        (Type::S64, 1e40, 0),
        (Type::S8, NAN, 0),
        (Type::U64, NAN, 0),
        (Type::U8, INF, 255),
        (Type::U8, -INF, 0),
        (Type::S16, INF, 32767),
        (Type::S16, -INF, -32768),
        (Type::S32, INF, i32::MAX as i128),
        (Type::S64, INF, i64::MAX as i128),
        (Type::S64, -INF, i64::MIN as i128),
        (Type::U64, INF, u64::MAX as i128),
        (Type::U64, -INF, 0),
        (Type::S8, -0.5, 0),
    ];
    for (dtype, x, want) in cases {
        let got = run(Op::Cast, &[vector(Type::F64, &[x])], &ty(dtype, &[1]));
        assert_eq!(exact(&got), [want], "{x} as {dtype}");
    }
    let got = run(Op::Cast, &[vector(Type::F32, &[300.0, INF, NAN, -1.5])], &ty(Type::U8, &[4]));
    assert_eq!(exact(&got), [44, 255, 0, 255]);
}

#[test]
fn integers_wrap_into_integers() {
    let cases: [(Type, i128, Type, i128); 7] = [
        (Type::S32, 300, Type::U8, 44),
        (Type::S32, -1, Type::U64, u64::MAX as i128),
        (Type::U64, u64::MAX as i128, Type::S8, -1),
        (Type::U8, 200, Type::S8, -56),
        (Type::S8, -56, Type::U16, 65480),
        (Type::U32, u32::MAX as i128, Type::S64, u32::MAX as i128),
        (Type::S64, i64::MIN as i128, Type::S32, 0),
    ];
    for (from, x, to, want) in cases {
        let got = run(Op::Cast, &[integers(from, &[x])], &ty(to, &[1]));
        assert_eq!(exact(&got), [want], "{from} {x} as {to}");
    }
}

#[test]
fn every_type_becomes_every_other() {
    for from in TYPES {
        for to in TYPES {
            let got = run(Op::Cast, &[tensor(from, &[2, 2], &[0.0, 1.0, 5.0, 100.0])], &ty(to, &[2, 2]));
            assert_eq!((got.dtype(), numbers(&got)), (to, vec![0.0, 1.0, 5.0, 100.0]), "{from} as {to}");
        }
    }
}

#[test]
fn floats_round_to_nearest_and_keep_what_is_not_finite() {
    let got = numbers(&run(Op::Cast, &[vector(Type::F64, &[NAN, INF, -INF, 1e300, 0.1])], &ty(Type::F32, &[5])));
    assert_close("f64 as f32", &got, &[NAN, INF, -INF, INF, f64::from(0.1f32)], 0.0);
    // Halfway between two bf16, to the even one: 257 lies between 256 and 258.
    let got = numbers(&run(Op::Cast, &[vector(Type::F32, &[257.0, 259.0])], &ty(Type::BF16, &[2])));
    assert_eq!(got, [256.0, 260.0]);
    let got = numbers(&run(Op::Cast, &[integers(Type::U64, &[u64::MAX as i128])], &ty(Type::F32, &[1])));
    assert_eq!(got, [18_446_744_073_709_551_616.0]);
}

#[test]
fn gradients_pass_between_floats_and_stop_at_integers() {
    let x = tracked(&vector(Type::F32, &[1.5, 2.5]));
    let got = gradients(&Op::Cast, from_ref(&x), &ty(Type::F64, &[2]), &vector(Type::F64, &[3.0, 4.0]));
    assert_eq!(got, [[3.0, 4.0]]);
    assert!(run(Op::Cast, &[x], &ty(Type::S32, &[2])).flex().is_some());
}

#[test]
fn bitcasts_keep_the_bits() {
    let cases: [(Type, i128, Type, i128); 4] = [
        (Type::S8, -1, Type::U8, 255),
        (Type::U64, 1 << 63, Type::S64, i64::MIN as i128),
        (Type::S32, -2, Type::U32, u32::MAX as i128 - 1),
        (Type::U16, 65535, Type::S16, -1),
    ];
    for (from, x, to, want) in cases {
        assert_eq!(exact(&run(Op::Bitcast, &[integers(from, &[x])], &ty(to, &[1]))), [want], "{from} as {to}");
    }
    let bits = exact(&run(Op::Bitcast, &[vector(Type::F32, &[1.0, -2.0])], &ty(Type::U32, &[2])));
    assert_eq!(bits, [0x3f80_0000, 0xc000_0000]);
    let turned = integers(Type::S64, &[0x3ff0_0000_0000_0000, 0x4000_0000_0000_0000]).flip(&[0]);
    assert_eq!(numbers(&run(Op::Bitcast, &[turned], &ty(Type::F64, &[2]))), [2.0, 1.0]);
    let message = error(Op::Bitcast, &[vector(Type::F32, &[1.0])], &ty(Type::U8, &[4]));
    assert_eq!(message, "bitcast: u8 has not the width of f32");
}

#[test]
fn sub_byte_integers_wrap_and_hold_the_extremes() {
    let x = vector(Type::F32, &[1.9, -1.9, 5.0, 100.0, f64::INFINITY, f64::NEG_INFINITY, NAN]);
    let cases = [
        (Type::U2, [1, 3, 1, 0, 3, 0, 0]),
        (Type::S2, [1, -1, 1, 0, 1, -2, 0]),
        (Type::U4, [1, 15, 5, 4, 15, 0, 0]),
        (Type::S4, [1, -1, 5, 4, 7, -8, 0]),
    ];
    for (dtype, want) in cases {
        assert_eq!(exact(&as_type(&x, dtype)), want, "{dtype}");
    }
    assert_eq!(exact(&as_type(&integers(Type::S64, &[-9, 7, 24]), Type::S4)), [7, 7, -8]);
    let bits = run(Op::Bitcast, &[integers(Type::U4, &[0, 7, 8, 15])], &ty(Type::S4, &[4]));
    assert_eq!(exact(&bits), [0, 7, -8, -1]);
    assert_eq!(exact(&run(Op::Bitcast, &[bits], &ty(Type::U4, &[4]))), [0, 7, 8, 15]);
}

#[test]
fn small_floats_round_once() {
    // Halfway between 1.25 and 1.5 after rounding to 32 bits, but not before.
    let x = vector(Type::F64, &[1.375 - 1e-12, 1.375 + 1e-12, 1e6, -1e6, NAN]);
    assert_close("f8", &numbers(&as_type(&x, Type::F8)), &[1.25, 1.5, f64::INFINITY, f64::NEG_INFINITY, NAN], 0.0);
    assert_close("f8_e4m3fn", &numbers(&as_type(&x, Type::F8E4M3FN)), &[1.375, 1.375, 448.0, -448.0, NAN], 0.0);
    assert_eq!(exact(&as_type(&vector(Type::F8, &[3.5, -0.75]), Type::S8)), [3, 0]);
}

#[test]
fn complex_numbers_have_a_real_part() {
    let x = vector(Type::F32, &[1.5, -2.0]);
    let complex = as_type(&x, Type::C128);
    assert_eq!(complex.ty(), ty(Type::C128, &[2]));
    assert_eq!(parts(&complex), [1.5, 0.0, -2.0, 0.0]);
    assert_eq!(numbers(&as_type(&as_type(&complex, Type::C64), Type::S16)), [1.0, -2.0]);
}

#[test]
fn a_gradient_that_would_be_lost_is_refused() {
    for dtype in [Type::C64, Type::F8] {
        let message = error(Op::Cast, &[tracked(&vector(Type::F32, &[1.0]))], &ty(dtype, &[1]));
        assert!(message.starts_with("as_type: autodiff follows real numbers"), "{message}");
    }
}

#[test]
fn select_takes_any_predicate_and_mixed_branches() {
    let predicate = vector(Type::F32, &[0.0, -0.0, NAN, 2.0]);
    let (yes, no) = (vector(Type::S32, &[1.0, 2.0, 3.0, 4.0]), tensor(Type::F32, &[], &[-0.5]));
    let got = run(Op::Select, &[predicate, yes.clone(), no], &ty(Type::F32, &[4]));
    assert_eq!(numbers(&got), [-0.5, -0.5, 3.0, 4.0]);
    let scalar = tensor(Type::U8, &[], &[1.0]);
    let got = run(Op::Select, &[scalar, tensor(Type::U8, &[1], &[7.0]), yes], &ty(Type::S32, &[4]));
    assert_eq!(numbers(&got), [7.0; 4]);
    let empty = tensor(Type::U8, &[0], &[]);
    let got = run(Op::Select, &[empty.clone(), empty.clone(), empty], &ty(Type::U8, &[0]));
    assert_eq!(numbers(&got), [0.0; 0]);
}

#[test]
fn select_sends_gradients_to_the_branch_taken() {
    let predicate = tensor(Type::U8, &[2, 2], &[1.0, 0.0, 0.0, 1.0]);
    let (yes, no) = (vector(Type::F64, &[1.0, 2.0]), tensor(Type::F64, &[2, 1], &[3.0, 4.0]));
    check_gradients(Op::Select, &[predicate.clone(), yes, no], &[2, 2]);
    // What was not taken does not leak, not even NaN.
    let branches = [tracked(&tensor(Type::F64, &[2, 2], &[NAN; 4])), tracked(&tensor(Type::F64, &[2, 2], &[0.0; 4]))];
    let inputs = [predicate, branches[0].clone(), branches[1].clone()];
    let got = gradients(&Op::Select, &inputs, &ty(Type::F64, &[2, 2]), &tensor(Type::F64, &[2, 2], &[1.0; 4]));
    assert_eq!(got, [[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]]);
}

#[test]
fn clip_holds_between_two_scalars() {
    let bounds = |dtype, low, high| [tensor(dtype, &[], &[low]), tensor(dtype, &[], &[high])];
    let clip = |x, [low, high]: [ex_burn_engine::Value; 2], dtype, n| {
        numbers(&run(Op::Clip, &[x, low, high], &ty(dtype, &[n])))
    };
    let got = clip(vector(Type::S32, &[-5.0, 0.0, 3.0, 9.0]), bounds(Type::S32, 0.0, 4.0), Type::S32, 4);
    assert_eq!(got, [0.0, 0.0, 3.0, 4.0]);
    let got = clip(vector(Type::U8, &[0.0, 200.0]), bounds(Type::S32, -1.0, 300.0), Type::S32, 2);
    assert_eq!(got, [0.0, 200.0]);
    let got = clip(vector(Type::F32, &[-INF, 0.5, INF, NAN]), bounds(Type::S32, 0.0, 2.0), Type::F32, 4);
    assert_close("clip", &got, &[0.0, 0.5, 2.0, NAN], 0.0);
    let got = clip(vector(Type::F32, &[-0.0, -1.0]), bounds(Type::F32, 0.0, 2.0), Type::F32, 2);
    assert!(got.iter().all(|x| x.is_sign_positive()), "a zero takes the sign of the bound");
    let got = clip(vector(Type::F64, &[0.0, 5.0]), bounds(Type::F64, 3.0, 1.0), Type::F64, 2);
    assert_eq!(got, [1.0, 1.0]);
}

#[test]
fn clip_passes_gradients_at_and_between_its_bounds() {
    let operands = [
        vector(Type::F64, &[-1.0, 0.0, 1.5, 2.0, 5.0]),
        tensor(Type::F64, &[], &[0.0]),
        tensor(Type::F64, &[], &[2.0]),
    ];
    let operands = operands.map(|v| tracked(&v));
    let weights = vector(Type::F64, &[1.0, 10.0, 100.0, 1000.0, 10000.0]);
    let got = gradients(&Op::Clip, &operands, &ty(Type::F64, &[5]), &weights);
    assert_eq!(got, [vec![0.0, 10.0, 100.0, 1000.0, 0.0], vec![1.0], vec![10000.0]]);
}

/// Integers in the middle between two floats of 16 bits, and beside it: `f32` and `f64` do not have them all.
#[test]
fn integers_become_the_nearest_short_floats() {
    for (dtype, digits, last) in [(Type::BF16, 8, 64), (Type::F16, 11, 15)] {
        for (from, bits) in [(Type::S32, 31), (Type::U32, 32), (Type::S64, 63), (Type::U64, 64)] {
            let (mut given, mut want) = (vec![], vec![]);
            for shift in 1..=(bits - digits).min(last - digits) {
                for whole in [1i128 << (digits - 1), (1 << (digits - 1)) + 1, (1 << digits) - 2] {
                    for by in -1i128..=1 {
                        let unit = 1i128 << shift;
                        let up = by > 0 || by == 0 && whole % 2 == 1;
                        given.push(whole * unit + unit / 2 + by);
                        want.push((whole + i128::from(up)) * unit);
                    }
                }
            }
            let signs: &[i128] = if matches!(from, Type::S32 | Type::S64) { &[1, -1] } else { &[1] };
            for sign in signs {
                let operand = integers(from, &given.iter().map(|n| sign * n).collect::<Vec<_>>());
                let got = numbers(&run(Op::Cast, &[operand], &ty(dtype, &[given.len()])));
                let want: Vec<f64> = want.iter().map(|n| (sign * n) as f64).collect();
                assert_eq!(got, want, "{from} to {dtype}");
            }
        }
    }
}
