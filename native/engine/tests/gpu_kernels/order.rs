//! Sorting, top-k and where the extremum is.

use std::cmp::Ordering;

use ex_burn_engine::program::*;
use ex_burn_engine::{TensorType, Type};

use super::{floats, gpu, integers, lines, random, typed};

const TYPES: [Type; 7] = [Type::F32, Type::BF16, Type::S32, Type::U32, Type::S8, Type::U8, Type::F16];
const SHAPES: [(&[usize], usize); 8] = [
    (&[1], 0),
    (&[2], 0),
    (&[7, 33], 1),
    (&[33, 7], 0),
    (&[3, 65, 4], 1),
    (&[2, 3, 128], 2),
    (&[1000], 0),
    (&[2, 5003], 1),
];

/// Numbers of which many are equal, and some are none where the type has such.
fn numbers(len: usize, seed: u64) -> Vec<f32> {
    const ENDS: [f32; 7] = [f32::NAN, 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN, 1e-40];
    let mut next = random(seed);
    (0..len)
        .map(|i| match i % 13 {
            5 => ENDS[(next() * 7.0) as usize],
            _ => (next() * 41.0) as f32 - 20.0,
        })
        .collect()
}

/// NaN is above all numbers, zeros are equal.
fn compare(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.partial_cmp(&b).unwrap(),
        (a, b) => a.cmp(&b),
    }
}

/// The places of a line's elements in their order; equal ones keep theirs.
fn places(line: &[f64], descending: bool) -> Vec<usize> {
    let mut places: Vec<usize> = (0..line.len()).collect();
    places.sort_by(|&a, &b| if descending { compare(line[b], line[a]) } else { compare(line[a], line[b]) });
    places
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn sorted_elements_and_their_places() {
    let Some(gpu) = gpu() else { return };
    for (seed, ((shape, axis), dtype)) in SHAPES.iter().flat_map(|shape| TYPES.map(|dtype| (*shape, dtype))).enumerate()
    {
        let x = typed(dtype, shape, &numbers(shape.iter().product(), seed as u64));
        let given = floats(&x);
        for direction in [Direction::Asc, Direction::Desc] {
            let sort = Sort { axis, direction };
            let sorted = floats(&gpu.one(&Op::Sort(sort.clone()), std::slice::from_ref(&x), x.ty()));
            let found = gpu.one(&Op::Argsort(sort), std::slice::from_ref(&x), TensorType::new(Type::S32, shape));
            let found = integers(&found);
            let (starts, step) = lines(shape, axis);
            for start in starts {
                let line: Vec<f64> = (0..shape[axis]).map(|i| given[start + i * step]).collect();
                for (i, place) in places(&line, direction == Direction::Desc).into_iter().enumerate() {
                    let at = start + i * step;
                    assert_eq!(found[at], place as i64, "{dtype} {shape:?} {direction:?} at {at}");
                    assert!(same(sorted[at], line[place]), "{dtype} {shape:?} {direction:?} at {at}");
                }
            }
        }
    }
}

#[test]
fn the_largest_of_each_row() {
    let Some(gpu) = gpu() else { return };
    for (shape, k) in [(vec![9], 1), (vec![4, 70], 5), (vec![2, 3, 20], 20), (vec![300], 299)] {
        let x = typed(Type::F32, &shape, &numbers(shape.iter().product(), 5));
        let len = shape[shape.len() - 1];
        let mut cut = shape.clone();
        *cut.last_mut().unwrap() = k;
        let outputs = [TensorType::new(Type::F32, cut.clone()), TensorType::new(Type::S32, cut)];
        let results = gpu.run(&Op::TopK(TopK { k }), std::slice::from_ref(&x), &outputs);
        let (values, found) = (floats(&results[0]), integers(&results[1]));
        for (row, line) in floats(&x).chunks(len).enumerate() {
            for (i, place) in places(line, true).into_iter().take(k).enumerate() {
                assert_eq!(found[row * k + i], place as i64);
                assert!(same(values[row * k + i], line[place]));
            }
        }
    }
}

/// The place that is found one after the other: a better element, NaN, and the last of equal ones if it is asked for.
fn extremum(line: &[f64], extremum: Extremum, last: bool) -> usize {
    let mut best = 0;
    for (i, &x) in line.iter().enumerate().skip(1) {
        let wins = if extremum == Extremum::Max { x > line[best] } else { x < line[best] };
        if x.is_nan() || wins || (last && x == line[best]) {
            best = i;
        }
    }
    best
}

#[test]
fn where_the_extremum_is() {
    let Some(gpu) = gpu() else { return };
    let ways = [Extremum::Max, Extremum::Min]
        .into_iter()
        .flat_map(|which| [TieBreak::Low, TieBreak::High].map(|tie| (which, tie)));
    for (seed, ((shape, axis), dtype)) in SHAPES.iter().flat_map(|shape| TYPES.map(|dtype| (*shape, dtype))).enumerate()
    {
        let numbers = numbers(shape.iter().product(), seed as u64);
        // NaN hides ties: every other tensor has none.
        let plain: Vec<f32> = numbers.iter().map(|x| if x.is_nan() { 20.0 } else { *x }).collect();
        let x = typed(dtype, shape, if seed % 2 == 0 { &numbers } else { &plain });
        let given = floats(&x);
        for (which, tie_break) in ways.clone() {
            let last = tie_break == TieBreak::High;
            let kept: Vec<usize> = (0..shape.len()).filter(|&other| other != axis).map(|axis| shape[axis]).collect();
            let op = Op::ArgReduce(ArgReduce { extremum: which, axis: Some(axis), keep_axis: false, tie_break });
            let found = integers(&gpu.one(&op, std::slice::from_ref(&x), TensorType::new(Type::S32, kept)));
            let (starts, step) = lines(shape, axis);
            for (start, found) in starts.into_iter().zip(found) {
                let line: Vec<f64> = (0..shape[axis]).map(|i| given[start + i * step]).collect();
                assert_eq!(found, extremum(&line, which, last) as i64, "{dtype} {shape:?} {which:?} {tie_break:?}");
            }
            let op = Op::ArgReduce(ArgReduce { extremum: which, axis: None, keep_axis: false, tie_break });
            let found = integers(&gpu.one(&op, std::slice::from_ref(&x), TensorType::new(Type::U32, [])));
            assert_eq!(found, [extremum(&given, which, last) as i64]);
        }
    }
}
