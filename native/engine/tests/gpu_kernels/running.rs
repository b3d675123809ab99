//! Running folds.

use ex_burn_engine::program::*;
use ex_burn_engine::{TensorType, Type, Value};

use super::{Gpu, floats, gpu, integers, lines, random, singles, words};

const SHAPES: [(&[usize], usize); 6] =
    [(&[1], 0), (&[32], 0), (&[5, 33], 1), (&[1030, 3], 0), (&[2, 40, 3], 1), (&[2, 3001], 1)];

fn run(gpu: &Gpu, x: &Value, fold: Fold, axis: usize, reverse: bool) -> Value {
    gpu.one(&Op::Cumulative(Cumulative { fold, axis, reverse }), std::slice::from_ref(x), x.ty())
}

/// What `step` makes of each line one after the other, from its end where it is reversed.
fn folded<T: Copy>(given: &[T], shape: &[usize], axis: usize, reverse: bool, step: impl Fn(T, T) -> T) -> Vec<T> {
    let mut result = given.to_vec();
    let (starts, apart) = lines(shape, axis);
    for start in starts {
        let mut places: Vec<usize> = (0..shape[axis]).map(|i| start + i * apart).collect();
        if reverse {
            places.reverse();
        }
        for pair in places.windows(2) {
            result[pair[1]] = step(result[pair[0]], given[pair[1]]);
        }
    }
    result
}

/// A fold and what it does with one more number.
type Step = (Fold, fn(i64, i64) -> i64);

#[test]
fn running_folds_of_integers_wrap() {
    let Some(gpu) = gpu() else { return };
    let steps: [Step; 4] = [
        (Fold::Sum, |a, b| i64::from((a as i32).wrapping_add(b as i32))),
        (Fold::Product, |a, b| i64::from((a as i32).wrapping_mul(b as i32))),
        (Fold::Max, i64::max),
        (Fold::Min, i64::min),
    ];
    for (shape, axis) in SHAPES {
        let mut next = random(3);
        let given: Vec<i64> = (0..shape.iter().product()).map(|_| (next() * 2e9) as i64 - 1_000_000_000).collect();
        let x = words(Type::S32, shape, &given);
        for (fold, step) in steps {
            for reverse in [false, true] {
                let expected = folded(&given, shape, axis, reverse, step);
                assert_eq!(integers(&run(&gpu, &x, fold, axis, reverse)), expected, "{fold:?} {shape:?} {reverse}");
            }
        }
    }
}

#[test]
fn running_sums_lose_nothing() {
    let Some(gpu) = gpu() else { return };
    for (shape, axis) in SHAPES {
        // Large numbers that cancel, and small ones that are left.
        let mut next = random(7);
        let given: Vec<f32> = (0..shape.iter().product())
            .map(|i| if i % 3 == 0 { 1e6 * (next() as f32 - 0.5) } else { next() as f32 })
            .collect();
        let wide: Vec<f64> = given.iter().map(|&x| f64::from(x)).collect();
        for reverse in [false, true] {
            let expected = folded(&wide, shape, axis, reverse, |a, b| a + b);
            let sums = floats(&run(&gpu, &singles(shape, &given), Fold::Sum, axis, reverse));
            for (at, (sum, expected)) in sums.into_iter().zip(expected).enumerate() {
                let unit = f64::from(f32::EPSILON) * expected.abs() + 1e-5;
                assert!((sum - expected).abs() <= unit, "{shape:?} at {at}: {sum} for {expected}");
            }
        }
    }
}

#[test]
fn infinite_sums_stay_infinite() {
    let Some(gpu) = gpu() else { return };
    let mut given = vec![1.0f32; 100];
    given[40] = f32::INFINITY;
    given[70] = f32::NEG_INFINITY;
    let sums = floats(&run(&gpu, &singles(&[100], &given), Fold::Sum, 0, false));
    assert_eq!(sums[39], 40.0);
    assert!(sums[40..70].iter().all(|&sum| sum == f64::INFINITY));
    assert!(sums[70..].iter().all(|sum| sum.is_nan()));
}

#[test]
fn running_extrema_keep_nan() {
    let Some(gpu) = gpu() else { return };
    let mut next = random(9);
    let mut given: Vec<f32> = (0..200).map(|_| next() as f32 - 0.5).collect();
    given[150] = f32::NAN;
    for (fold, step) in [(Fold::Max, f64::max as fn(f64, f64) -> f64), (Fold::Min, f64::min)] {
        let found = floats(&run(&gpu, &singles(&[200], &given), fold, 0, false));
        let wide: Vec<f64> = given.iter().map(|&x| f64::from(x)).collect();
        assert_eq!(found[..150], folded(&wide[..150], &[150], 0, false, step));
        assert!(found[150..].iter().all(|x| x.is_nan()));
    }
}

#[test]
fn running_products_are_those_of_powers_of_two() {
    let Some(gpu) = gpu() else { return };
    let given: Vec<f32> = (0..90).map(|i| if i % 2 == 0 { 2.0 } else { -0.5 }).collect();
    let wide: Vec<f64> = given.iter().map(|&x| f64::from(x)).collect();
    let found = floats(&run(&gpu, &singles(&[3, 30], &given), Fold::Product, 1, true));
    assert_eq!(found, folded(&wide, &[3, 30], 1, true, |a, b| a * b));
}

#[test]
fn narrow_types_wrap_in_their_own_bits() {
    let Some(gpu) = gpu() else { return };
    let numbers: Vec<f32> = (0..100).map(|i| i as f32).collect();
    let x = super::typed(Type::U8, &[100], &numbers);
    let op = Op::Cumulative(Cumulative { fold: Fold::Sum, axis: 0, reverse: false });
    let sums = integers(&gpu.one(&op, std::slice::from_ref(&x), TensorType::new(Type::U8, [100])));
    assert_eq!(sums, (0..100).map(|i: i64| (i * (i + 1) / 2) % 256).collect::<Vec<_>>());
    let sums = integers(&gpu.one(&op, &[x], TensorType::new(Type::U32, [100])));
    assert_eq!(sums, (0..100).map(|i: i64| i * (i + 1) / 2).collect::<Vec<_>>());
}
