//! Functions of floats, within two units of the last place of what `f64` says.

use ex_burn_engine::program::*;
use ex_burn_engine::{Device, TensorType, Type, exec};

use super::{floats, gpu, integers, random, singles, words};

/// How many units of the last place of `f32` two numbers are apart.
fn units(found: f64, exact: f64) -> f64 {
    let exact_single = exact as f32;
    if found.is_nan() && exact.is_nan() || found == f64::from(exact_single) {
        return 0.0;
    }
    // A GPU may take 0 for what is below the least normal number.
    if found == 0.0 && exact.abs() < f64::from(f32::MIN_POSITIVE) {
        return 0.0;
    }
    let size = exact.abs().max(f64::from(f32::MIN_POSITIVE));
    let unit = 2f64.powi(size.log2().floor() as i32 - 23);
    let apart = (found - exact).abs() / unit;
    if apart.is_nan() { f64::INFINITY } else { apart }
}

/// Numbers of all sizes and both signs up to a largest.
fn sizes(len: usize, largest: f64, seed: u64) -> Vec<f32> {
    let mut next = random(seed);
    (0..len)
        .map(|i| {
            let size = if i % 2 == 0 { largest * next() } else { largest * (-20.0 * next()).exp2() };
            (if next() < 0.5 { -size } else { size }) as f32
        })
        .collect()
}

const ENDS: [f32; 10] =
    [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.5, -0.5, f32::MIN_POSITIVE];

type Function = fn(f64) -> f64;

/// A function, the same of doubles, the largest operands and the units that it may be off.
type Known = (Binary, fn(f64, f64) -> f64, f64, f64, f64);

#[test]
fn functions_of_one_number() {
    let Some(gpu) = gpu() else { return };
    let cases: [(Unary, Function, f64); 13] = [
        (Unary::Acos, f64::acos, 1.0),
        (Unary::Asin, f64::asin, 1.0),
        (Unary::Atan, f64::atan, 1e4),
        (Unary::Cbrt, f64::cbrt, 1e30),
        (Unary::Cos, f64::cos, 1e5),
        (Unary::Cosh, f64::cosh, 88.0),
        (Unary::Erfc, libm::erfc, 9.0),
        (Unary::Sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 80.0),
        (Unary::Sin, f64::sin, 1e5),
        (Unary::Sinh, f64::sinh, 88.0),
        (Unary::Sinh, f64::sinh, 2.0),
        (Unary::Tan, f64::tan, 1e5),
        (Unary::Phase, |x| 0f64.atan2(x), 10.0),
    ];
    for (op, function, largest) in cases {
        let mut given = sizes(100_000, largest, 1);
        given.extend(ENDS);
        let out = TensorType::new(Type::F32, [given.len()]);
        let found = floats(&gpu.one(&Op::Unary(op), &[singles(&[given.len()], &given)], out));
        let worst = given
            .iter()
            .zip(found)
            .map(|(&x, y)| (units(y, function(x.into())), x, y))
            .fold((0.0, 0.0, 0.0), |worst, one| if one.0 > worst.0 { one } else { worst });
        println!("{op:?}: {worst:?}");
        assert!(worst.0 <= 2.0, "{op:?} of {} is {}, {} units off", worst.1, worst.2, worst.0);
    }
}

#[test]
fn the_inverse_of_the_error_function() {
    let Some(gpu) = gpu() else { return };
    let mut given: Vec<f32> = sizes(2000, 1.0, 4).into_iter().filter(|x| x.abs() < 1.0).collect();
    given.extend((1..200).map(|i| 1.0 - i as f32 * 2f32.powi(-24)));
    let out = TensorType::new(Type::F32, [given.len()]);
    let found = floats(&gpu.one(&Op::Unary(Unary::ErfInv), &[singles(&[given.len()], &given)], out.clone()));
    let shape = given.len();
    let input = vec![singles(&[shape], &given)];
    let here = exec::instruction(&Op::Unary(Unary::ErfInv), input, &[out], &Device::Cpu).unwrap();
    for ((&y, x), here) in given.iter().zip(found).zip(floats(&here[0])) {
        assert!(units(x, here) <= 1.0, "erf_inv({y}) = {x}, on the CPU {here}");
        // Newton's rule from the answer: the polynomials that Nx defines it by have 8 digits.
        let slope = 2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp();
        let far = y.abs() > 0.5;
        let miss = if far { libm::erfc(x.abs()) - (1.0 - f64::from(y.abs())) } else { libm::erf(x) - f64::from(y) };
        let exact = if far { (x.abs() + miss / slope).copysign(x) } else { x - miss / slope };
        assert!(units(x, exact) <= 2.5, "erf_inv({y}) = {x}, not {exact}");
    }
    let ends = floats(&gpu.one(
        &Op::Unary(Unary::ErfInv),
        &[singles(&[3], &[1.0, -1.0, 2.0])],
        TensorType::new(Type::F32, [3]),
    ));
    assert_eq!(ends[..2], [f64::INFINITY, f64::NEG_INFINITY]);
    assert!(ends[2].is_nan());
}

#[test]
fn quotients_by_the_largest_numbers() {
    let Some(gpu) = gpu() else { return };
    let (a, b) = ([3e38, 2e38, 1e38, 2.0, f32::INFINITY, 3e38], [2e38, -2e38, 3.4e38, 9e37, 2e38, f32::INFINITY]);
    let op = Op::Binary(Binary::Divide);
    let got = floats(&gpu.one(&op, &[singles(&[6], &a), singles(&[6], &b)], TensorType::new(Type::F32, [6])));
    for ((a, b), got) in a.into_iter().zip(b).zip(got) {
        let want = f64::from(a) / f64::from(b);
        let bound = 2.0 * f64::from(f32::EPSILON) * want.abs();
        assert!(got == want || (got - want).abs() <= bound, "{a} / {b} = {got}, not {want}");
    }
}

#[test]
fn functions_of_two_numbers() {
    let Some(gpu) = gpu() else { return };
    let cases: [Known; 4] = [
        (Binary::Pow, f64::powf, 30.0, 25.0, 2.0),
        (Binary::Pow, f64::powf, 1.5, 200.0, 2.0),
        (Binary::Atan2, f64::atan2, 1e3, 1e3, 2.0),
        (Binary::Remainder, |a, b| a % b, 1e20, 1e3, 0.0),
    ];
    for (op, function, first, second, bound) in cases {
        let (mut a, mut b) = (sizes(6000, first, 5), sizes(6000, second, 6));
        if op == Binary::Pow {
            a.iter_mut().for_each(|x| *x = x.abs());
            a.extend((1..40).map(|i| -(i as f32)));
            b.extend((1..40).map(|i| (i % 9) as f32 - 4.0));
        }
        for x in ENDS.into_iter().chain([3.0, -3.0, 2.5]) {
            for y in ENDS.into_iter().chain([3.0, -3.0, 2.5, 2.0]) {
                a.push(x);
                b.push(y);
            }
        }
        let shape = [a.len()];
        let found = floats(&gpu.one(
            &Op::Binary(op),
            &[singles(&shape, &a), singles(&shape, &b)],
            TensorType::new(Type::F32, shape),
        ));
        let mut worst = 0.0;
        for ((&a, &b), found) in a.iter().zip(&b).zip(found) {
            let exact = function(a.into(), b.into());
            let off = units(found, exact);
            worst = f64::max(worst, off);
            assert!(off <= bound, "{op:?} of {a} and {b} is {found}, {off} units off {exact}");
            assert!(
                exact != 0.0 || found.is_sign_negative() == exact.is_sign_negative(),
                "{op:?} of {a} and {b}: {found}"
            );
        }
        println!("{op:?}: {worst} units");
    }
}

#[test]
fn close_tensors() {
    let Some(gpu) = gpu() else { return };
    let ask = |a: &[f32], b: &[f32], equal_nan: bool| {
        let op = Op::AllClose(AllClose { equal_nan, rtol: 1e-2, atol: 1e-3 });
        integers(&gpu.one(&op, &[singles(&[a.len()], a), singles(&[b.len()], b)], TensorType::new(Type::U8, [])))[0]
            == 1
    };
    assert!(ask(&[1.0, 2.0, 0.0], &[1.009, 2.0, 0.0009], false));
    assert!(!ask(&[1.0, 2.0], &[1.02, 2.0], false));
    assert!(!ask(&[1.0, f32::NAN], &[1.0, f32::NAN], false));
    assert!(ask(&[1.0, f32::NAN], &[1.0, f32::NAN], true));
    assert!(ask(&[f32::INFINITY], &[f32::INFINITY], false));
    assert!(!ask(&[f32::INFINITY], &[f32::NEG_INFINITY], false));
}

#[test]
fn bits_of_another_type() {
    let Some(gpu) = gpu() else { return };
    let bits = gpu.one(&Op::Bitcast, &[singles(&[3], &[1.0, -2.0, 0.0])], TensorType::new(Type::U32, [3]));
    assert_eq!(integers(&bits), [0x3f80_0000, 0xc000_0000, 0]);
    let back = gpu.one(&Op::Bitcast, &[words(Type::S32, &[2], &[0x4049_0fdb, 0])], TensorType::new(Type::F32, [2]));
    assert_eq!(floats(&back), [f64::from(std::f32::consts::PI), 0.0]);
}
