//! Updates at indices, and at the extrema of windows.

use ex_burn_engine::program::*;
use ex_burn_engine::{TensorType, Type};

use super::{floats, gpu, integers, random, singles, words};

#[test]
fn updates_of_rows_come_in_their_order() {
    let Some(gpu) = gpu() else { return };
    let mut next = random(1);
    let (rows, columns, count) = (11, 6, 500);
    let table: Vec<f32> = (0..rows * columns).map(|_| next() as f32).collect();
    let indices: Vec<i64> = (0..count).map(|_| (next() * next() * rows as f64) as i64).collect();
    let updates: Vec<f32> = (0..count * columns).map(|_| 1e4 * (next() as f32 - 0.5)).collect();
    let inputs = [
        singles(&[rows, columns], &table),
        words(Type::S32, &[count, 1], &indices),
        singles(&[count, columns], &updates),
    ];
    let mut sums: Vec<f64> = table.iter().map(|&x| f64::from(x)).collect();
    let mut last = sums.clone();
    for (i, &row) in indices.iter().enumerate() {
        for column in 0..columns {
            let update = f64::from(updates[i * columns + column]);
            sums[row as usize * columns + column] += update;
            last[row as usize * columns + column] = update;
        }
    }
    let axes = Axes { axes: vec![0] };
    let out = || TensorType::new(Type::F32, [rows, columns]);
    let put = floats(&gpu.one(&Op::IndexedPut(axes.clone()), &inputs, out()));
    assert_eq!(put, last);
    for (sum, expected) in floats(&gpu.one(&Op::IndexedAdd(axes), &inputs, out())).into_iter().zip(sums) {
        assert!((sum - expected).abs() <= f64::from(f32::EPSILON) * expected.abs() + 1e-6, "{sum} for {expected}");
    }
}

#[test]
fn updates_of_axes_that_are_not_the_first() {
    let Some(gpu) = gpu() else { return };
    let shape = [3, 4, 5];
    let base: Vec<i64> = (0..60).collect();
    // Along axes 2 and 0, two of them the same place.
    let indices = [4, 2, 0, 0, 4, 2];
    let updates: Vec<i64> = (1..=12).map(|i| i * 100).collect();
    let inputs =
        [words(Type::S32, &shape, &base), words(Type::U32, &[3, 2], &indices), words(Type::S32, &[3, 4], &updates)];
    let (mut sums, mut last) = (base.clone(), base);
    for (i, pair) in indices.chunks(2).enumerate() {
        for middle in 0..4 {
            let at = (pair[1] as usize * 4 + middle) * 5 + pair[0] as usize;
            sums[at] += updates[i * 4 + middle];
            last[at] = updates[i * 4 + middle];
        }
    }
    let axes = Axes { axes: vec![2, 0] };
    let out = || TensorType::new(Type::S32, shape);
    assert_eq!(integers(&gpu.one(&Op::IndexedAdd(axes.clone()), &inputs, out())), sums);
    assert_eq!(integers(&gpu.one(&Op::IndexedPut(axes), &inputs, out())), last);
}

#[test]
fn places_outside_are_held_within() {
    let Some(gpu) = gpu() else { return };
    let inputs =
        [words(Type::S32, &[3], &[0, 0, 0]), words(Type::S32, &[2, 1], &[-5, 9]), words(Type::S32, &[2], &[1, 2])];
    let sums = gpu.one(&Op::IndexedAdd(Axes { axes: vec![0] }), &inputs, TensorType::new(Type::S32, [3]));
    assert_eq!(integers(&sums), [1, 0, 2]);
}

/// The sums that a loop over windows makes, of a matrix.
fn scattered(x: &[f32], shape: [usize; 2], source: &[f32], init: f32, attrs: &WindowScatter) -> Vec<f64> {
    let windows = &attrs.windows;
    let count = |axis: usize| {
        let padded = shape[axis] as i64 + windows.padding[axis][0] + windows.padding[axis][1];
        (padded as usize - windows.dimensions[axis]) / windows.strides[axis] + 1
    };
    let mut sums = vec![f64::from(init); x.len()];
    for (number, &update) in source.iter().enumerate() {
        let window = [number / count(1), number % count(1)];
        let mut best: Option<(f32, Option<usize>)> = None;
        for i in 0..windows.dimensions[0] * windows.dimensions[1] {
            let step = [i / windows.dimensions[1], i % windows.dimensions[1]];
            let place: Vec<i64> = (0..2)
                .map(|axis| (window[axis] * windows.strides[axis] + step[axis]) as i64 - windows.padding[axis][0])
                .collect();
            let inside = (0..2).all(|axis| (0..shape[axis] as i64).contains(&place[axis]));
            let at = inside.then(|| place[0] as usize * shape[1] + place[1] as usize);
            let element = at.map_or(init, |at| x[at]);
            let wins = |best: f32| if attrs.extremum == Extremum::Max { element >= best } else { element <= best };
            if best.is_none_or(|(best, _)| wins(best)) {
                best = Some((element, at));
            }
        }
        if let Some((_, Some(at))) = best {
            sums[at] += f64::from(update);
        }
    }
    sums
}

#[test]
fn sums_at_extrema_of_windows() {
    let Some(gpu) = gpu() else { return };
    let shape = [7, 9];
    let mut next = random(2);
    let mut x: Vec<f32> = (0..63).map(|_| (next() * 5.0).floor() as f32 - 2.0).collect();
    x[20] = f32::NAN;
    x[40] = f32::NAN;
    let cases =
        [([2, 2], [2, 2], [[0, 0], [0, 0]]), ([3, 2], [1, 1], [[1, 1], [0, 1]]), ([3, 3], [2, 3], [[0, 2], [1, 2]])];
    for (dimensions, strides, padding) in cases {
        for extremum in [Extremum::Max, Extremum::Min] {
            let windows = Windows {
                dimensions: dimensions.to_vec(),
                padding: padding.to_vec(),
                strides: strides.to_vec(),
                dilations: vec![1, 1],
            };
            let attrs = WindowScatter { extremum, windows };
            let counts: Vec<usize> = (0..2)
                .map(|axis| {
                    let padded = shape[axis] as i64 + padding[axis][0] + padding[axis][1];
                    (padded as usize - dimensions[axis]) / strides[axis] + 1
                })
                .collect();
            let source: Vec<f32> = (0..counts[0] * counts[1]).map(|i| i as f32 + 1.0).collect();
            let inputs = [singles(&shape, &x), singles(&counts, &source), singles(&[], &[0.5])];
            let sums = gpu.one(&Op::WindowScatter(attrs.clone()), &inputs, TensorType::new(Type::F32, shape));
            assert_eq!(floats(&sums), scattered(&x, shape, &source, 0.5, &attrs), "{attrs:?}");
        }
    }
}
