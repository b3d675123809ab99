//! Folds over windows against index loops.

mod tools;

use ex_burn_engine::program::{Fold, Op, WindowReduce, Windows};
use ex_burn_engine::{Type, Value};
use tools::*;

const FOLDS: [Fold; 4] = [Fold::Sum, Fold::Product, Fold::Max, Fold::Min];

fn windows(dimensions: &[usize], padding: &[[i64; 2]], strides: &[usize], dilations: &[usize]) -> Windows {
    Windows {
        dimensions: dimensions.to_vec(),
        padding: padding.to_vec(),
        strides: strides.to_vec(),
        dilations: dilations.to_vec(),
    }
}

fn fold(fold: Fold, windows: &Windows) -> Op {
    Op::WindowReduce(WindowReduce { fold, windows: windows.clone() })
}

fn counts(shape: &[usize], w: &Windows) -> Vec<usize> {
    let count = |axis: usize| {
        let span = (w.dimensions[axis] - 1) * w.dilations[axis] + 1;
        let padded = shape[axis] as i64 + w.padding[axis][0] + w.padding[axis][1];
        (padded as usize - span) / w.strides[axis] + 1
    };
    (0..shape.len()).map(count).collect()
}

/// The fold by definition, over padding that holds the identity.
fn by_loops(op: Fold, w: &Windows, x: &[f64], shape: &[usize]) -> Vec<f64> {
    let mut results = vec![];
    each_index(&counts(shape, w), |out| {
        let mut result = match op {
            Fold::Product => 1.0,
            Fold::Max => f64::NEG_INFINITY,
            Fold::Min => f64::INFINITY,
            _ => 0.0,
        };
        each_index(&w.dimensions, |tap| {
            let place =
                |axis: usize| (out[axis] * w.strides[axis] + tap[axis] * w.dilations[axis]) as i64 - w.padding[axis][0];
            let index: Vec<i64> = (0..shape.len()).map(place).collect();
            if index.iter().zip(shape).all(|(&i, &n)| (0..n as i64).contains(&i)) {
                let element = x[position(&index.iter().map(|&i| i as usize).collect::<Vec<_>>(), shape)];
                result = match op {
                    Fold::Product => result * element,
                    Fold::Max => result.max(element),
                    Fold::Min => result.min(element),
                    _ => result + element,
                };
            }
        });
        results.push(result);
    });
    results
}

fn cases() -> Vec<(&'static [usize], Windows)> {
    vec![
        (&[5], windows(&[2], &[[0, 0]], &[1], &[1])),
        (&[5], windows(&[2], &[[1, 1]], &[2], &[1])),
        (&[7], windows(&[3], &[[2, 1]], &[2], &[2])),
        (&[6], windows(&[2], &[[-1, -2]], &[1], &[1])),
        (&[4, 5], windows(&[2, 3], &[[0, 0], [1, 1]], &[2, 1], &[1, 1])),
        (&[2, 6, 6, 3], windows(&[1, 2, 2, 1], &[[0, 0]; 4], &[1, 2, 2, 1], &[1; 4])),
        (&[2, 5, 6, 3], windows(&[1, 3, 3, 1], &[[0, 0], [1, 1], [1, 1], [0, 0]], &[1, 2, 1, 1], &[1; 4])),
        (&[2, 3, 5, 4], windows(&[1, 1, 2, 3], &[[0, 0], [0, 0], [0, 1], [2, 0]], &[1, 1, 3, 2], &[1, 1, 2, 1])),
        (&[4, 3], windows(&[1, 1], &[[0, 0]; 2], &[2, 1], &[1, 1])),
        (&[], windows(&[], &[], &[], &[])),
        (&[0], windows(&[2], &[[1, 1]], &[1], &[1])),
        (&[0, 0], windows(&[2, 1], &[[3, 1], [2, 0]], &[1, 1], &[2, 2])),
    ]
}

/// Rows of so many windows that neighbours are folded side by side.
fn long_rows() -> Vec<(&'static [usize], Windows)> {
    vec![
        (&[3, 70], windows(&[1, 3], &[[0, 0], [2, 1]], &[1, 1], &[1, 1])),
        (&[2, 77], windows(&[1, 2], &[[0, 0]; 2], &[1, 2], &[1, 1])),
        (&[150], windows(&[3], &[[1, 4]], &[3], &[2])),
        (&[2, 77], windows(&[1, 2], &[[0, 0], [-3, -2]], &[1, 2], &[1, 3])),
        (&[3, 9, 37], windows(&[1, 2, 1], &[[0, 0], [1, 0], [0, 0]], &[1, 2, 1], &[1, 1, 1])),
        (&[2, 2, 26, 41], windows(&[1, 1, 2, 2], &[[0, 0]; 4], &[1, 1, 2, 2], &[1; 4])),
    ]
}

#[test]
fn folds_every_type() {
    for (shape, w) in [cases(), long_rows()].concat() {
        let x: Vec<f64> = noise(5, shape.iter().product(), 3).iter().map(|n| n + 3.0).collect();
        let out = counts(shape, &w);
        for op in FOLDS {
            let expected = by_loops(op, &w, &x, shape);
            for dtype in TYPES {
                if expected.iter().any(|n| n.is_infinite()) && dtype.is_int() {
                    continue;
                }
                let result = run(fold(op, &w), &[tensor(dtype, shape, &x)], &ty(dtype, &out));
                assert_eq!(numbers(&result), numbers(&tensor(dtype, &out, &expected)), "{op:?} {w:?} of {dtype}");
            }
        }
    }
}

#[test]
fn padding_holds_the_identity() {
    let w = windows(&[1], &[[1, 0]], &[1], &[1]);
    let of = |op, dtype| numbers(&run(fold(op, &w), &[tensor(dtype, &[1], &[5.])], &ty(dtype, &[2])))[0];
    for (dtype, lowest, highest) in [
        (Type::U8, 0.0, 255.0),
        (Type::S8, -128.0, 127.0),
        (Type::S32, f64::from(i32::MIN), f64::from(i32::MAX)),
        (Type::F32, f64::NEG_INFINITY, f64::INFINITY),
        (Type::BF16, f64::NEG_INFINITY, f64::INFINITY),
    ] {
        assert_eq!(of(Fold::Max, dtype), lowest, "{dtype}");
        assert_eq!(of(Fold::Min, dtype), highest, "{dtype}");
        assert_eq!(of(Fold::Sum, dtype), 0.0, "{dtype}");
        assert_eq!(of(Fold::Product, dtype), 1.0, "{dtype}");
    }
}

#[test]
fn integers_wrap_and_nan_stays() {
    let w = windows(&[2], &[[0, 0]], &[1], &[1]);
    let sum = run(fold(Fold::Sum, &w), &[tensor(Type::U8, &[2], &[200., 100.])], &ty(Type::U8, &[1]));
    assert_eq!(numbers(&sum), [44.]);
    for op in FOLDS {
        for x in [[f64::NAN, 1.0], [1.0, f64::NAN]] {
            let result = run(fold(op, &w), &[tensor(Type::F32, &[2], &x)], &ty(Type::F32, &[1]));
            assert!(numbers(&result)[0].is_nan(), "{op:?}");
        }
    }
}

#[test]
fn of_equal_extrema_the_last_gets_the_gradient() {
    let w = windows(&[2, 2], &[[0, 0]; 2], &[2, 2], &[1, 1]);
    let x = tracked(&tensor(Type::F64, &[2, 4], &[1., 1., 5., 2., 1., 1., 3., 5.]));
    let weights = tensor(Type::F64, &[1, 2], &[10., 20.]);
    let expected = [0., 0., 0., 0., 0., 10., 0., 20.];
    let got = gradients(&fold(Fold::Max, &w), &[x], &ty(Type::F64, &[1, 2]), &weights);
    assert_eq!(got[0], expected);
    let x = tracked(&tensor(Type::F64, &[2, 4], &[1., 7., 5., 2., 7., 1., 3., 4.]));
    let got = gradients(&fold(Fold::Max, &w), &[x], &ty(Type::F64, &[1, 2]), &weights);
    assert_eq!(got[0], [0., 0., 20., 0., 10., 0., 0., 0.], "the last row counts before the last column");
    let overlapping = windows(&[2], &[[0, 0]], &[1], &[1]);
    let x = tracked(&tensor(Type::F64, &[3], &[1., 7., 1.]));
    let got =
        gradients(&fold(Fold::Max, &overlapping), &[x], &ty(Type::F64, &[2]), &tensor(Type::F64, &[2], &[3., 4.]));
    assert_eq!(got[0], [0., 7., 0.]);
}

#[test]
fn gradients_flow_through() {
    for (shape, w) in cases() {
        let count = shape.iter().product();
        // Distinct elements: at ties the fold has no slope.
        let x: Vec<f64> = (0..count).map(|i: usize| ((i * 37 + 11) % 101) as f64 / 10.0).collect();
        for op in FOLDS {
            check_gradients(fold(op, &w), &[tensor(Type::F64, shape, &x)], &counts(shape, &w));
        }
    }
}

#[test]
fn refuses_what_does_not_fit() {
    let x = iota(Type::F32, &[4, 4]);
    let plain = windows(&[2, 2], &[[0, 0]; 2], &[1, 1], &[1, 1]);
    let cases: Vec<(Windows, Vec<Value>)> = vec![
        (windows(&[2], &[[0, 0]; 2], &[1, 1], &[1, 1]), vec![x.clone()]),
        (windows(&[5, 1], &[[0, 0]; 2], &[1, 1], &[1, 1]), vec![x.clone()]),
        (windows(&[0, 1], &[[0, 0]; 2], &[1, 1], &[1, 1]), vec![x.clone()]),
        (windows(&[2, 2], &[[0, 0]; 1], &[1, 1], &[1, 1]), vec![x.clone()]),
        (windows(&[2, 2], &[[-9, 0], [0, 0]], &[1, 1], &[1, 1]), vec![x.clone()]),
        (windows(&[2, 2], &[[i64::MAX, i64::MAX], [0, 0]], &[1, 1], &[1, 1]), vec![x.clone()]),
        (windows(&[2, usize::MAX], &[[0, 0]; 2], &[1, 1], &[1, 9]), vec![x.clone()]),
        (windows(&[2, 2], &[[0, 0]; 2], &[0, 1], &[1, 1]), vec![x.clone()]),
        (windows(&[2, 2], &[[0, 0]; 2], &[1, 1], &[1, 0]), vec![x.clone()]),
        (windows(&[2, 2], &[[0, 0]; 2], &[2, 1], &[1, 1]), vec![x]),
        (plain, vec![]),
    ];
    for (w, inputs) in cases {
        let message = error(fold(Fold::Max, &w), &inputs, &ty(Type::F32, &[3, 3]));
        assert!(message.starts_with("window_max: "), "{message}");
    }
}

#[test]
fn windows_of_a_single_element_start_from_what_changes_nothing() {
    for dimensions in [[1, 1], [1, 2]] {
        let w = windows(&dimensions, &[[0, 0]; 2], &[1, 1], &[1, 1]);
        let x = tensor(Type::F32, &[2, 3], &[-0.0; 6]);
        let got = numbers(&run(fold(Fold::Sum, &w), &[x], &ty(Type::F32, &counts(&[2, 3], &w))));
        assert!(got.iter().all(|x| *x == 0.0 && x.is_sign_positive()), "{dimensions:?}: {got:?}");
    }
    // And products from 1, whose product with a complex number has zeros of other signs.
    let x = complex(Type::C64, &[[-0.0, -0.0], [5.0, -0.0]]);
    let one = windows(&[1], &[[0, 0]], &[1], &[1]);
    let got = parts(&run(fold(Fold::Product, &one), &[x], &ty(Type::C64, &[2])));
    assert_eq!(got.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), [0.0, -0.0, 5.0, 0.0].map(f64::to_bits));
}
