//! Sums at the extrema of windows against index loops.

mod tools;

use ex_burn_engine::Type;
use ex_burn_engine::program::{Extremum, Op, WindowScatter, Windows};
use tools::*;

fn scatter(extremum: Extremum, dimensions: &[usize], padding: &[[i64; 2]], strides: &[usize]) -> Op {
    let (padding, strides) = (padding.to_vec(), strides.to_vec());
    let dilations = vec![1; dimensions.len()];
    let windows = Windows { dimensions: dimensions.to_vec(), padding, strides, dilations };
    Op::WindowScatter(WindowScatter { extremum, windows })
}

/// By definition: the last of the largest of each window, over padding that holds `init`.
fn by_loops(op: &Op, shape: &[usize], x: &[f64], source: &[f64], init: f64) -> Vec<f64> {
    let Op::WindowScatter(WindowScatter { windows, extremum }) = op else { unreachable!() };
    let mut sums = vec![init; x.len()];
    let mut next = source.iter();
    each_index(&counts(shape, windows), |window| {
        let mut best: Option<(f64, Option<usize>)> = None;
        each_index(&windows.dimensions, |tap| {
            let place =
                |axis: usize| (window[axis] * windows.strides[axis] + tap[axis]) as i64 - windows.padding[axis][0];
            let index: Vec<i64> = (0..shape.len()).map(place).collect();
            let inside = index.iter().zip(shape).all(|(&i, &n)| (0..n as i64).contains(&i));
            let at = inside.then(|| position(&index.iter().map(|&i| i as usize).collect::<Vec<_>>(), shape));
            let element = at.map_or(init, |at| x[at]);
            let wins = |best: f64| if *extremum == Extremum::Max { element >= best } else { element <= best };
            if best.is_none_or(|(best, _)| wins(best)) {
                best = Some((element, at));
            }
        });
        let source = next.next().expect("a source for each window");
        if let Some((_, Some(at))) = best {
            sums[at] += source;
        }
    });
    sums
}

fn counts(shape: &[usize], windows: &Windows) -> Vec<usize> {
    let padded = |axis: usize| shape[axis] as i64 + windows.padding[axis][0] + windows.padding[axis][1];
    (0..shape.len())
        .map(|axis| (padded(axis) as usize - windows.dimensions[axis]) / windows.strides[axis] + 1)
        .collect()
}

#[test]
fn adds_at_the_last_extremum_of_each_window() {
    for extremum in [Extremum::Max, Extremum::Min] {
        let cases = [
            (vec![6], scatter(extremum, &[2], &[[0, 0]], &[2])),
            (vec![7], scatter(extremum, &[3], &[[1, 2]], &[1])),
            (vec![6], scatter(extremum, &[2], &[[-1, -2]], &[1])),
            (vec![4, 5], scatter(extremum, &[2, 3], &[[0, 1], [1, 1]], &[1, 2])),
            (vec![2, 5, 6, 3], scatter(extremum, &[1, 3, 2, 1], &[[0, 0], [1, 1], [-1, 0], [0, 0]], &[1, 2, 2, 1])),
            (vec![], scatter(extremum, &[], &[], &[])),
            (vec![3, 70], scatter(extremum, &[1, 3], &[[0, 0], [0, 0]], &[1, 3])),
            (vec![3, 5, 44], scatter(extremum, &[1, 2, 3], &[[0, 0], [0, 1], [1, 0]], &[1, 1, 1])),
            (vec![2, 6, 4, 20], scatter(extremum, &[1, 2, 2, 1], &[[0, 0]; 4], &[1, 2, 2, 1])),
            (vec![3, 2, 5, 1], scatter(extremum, &[1, 1, 5, 1], &[[0, 0]; 4], &[1, 1, 1, 1])),
            (vec![4, 26], scatter(extremum, &[1, 2], &[[0, 0]; 2], &[1, 2])),
            (vec![200, 300], scatter(extremum, &[2, 2], &[[0, 0], [0, 0]], &[2, 2])),
        ];
        for (shape, op) in cases {
            let Op::WindowScatter(WindowScatter { windows, .. }) = &op else { unreachable!() };
            let counts = counts(&shape, windows);
            let x = noise(3, shape.iter().product(), 2);
            let source = noise(4, counts.iter().product(), 9);
            for init in [0.0, 1.0] {
                let operands = [
                    tensor(Type::S8, &shape, &x),
                    tensor(Type::S16, &counts, &source),
                    tensor(Type::F32, &[], &[init]),
                ];
                let got = run(op.clone(), &operands, &ty(Type::F32, &shape));
                assert_close(&format!("{op:?}"), &numbers(&got), &by_loops(&op, &shape, &x, &source, init), 0.0);
            }
        }
    }
}

#[test]
fn adds_in_every_type() {
    let op = scatter(Extremum::Max, &[2], &[[0, 0]], &[1]);
    for dtype in TYPES {
        let operands = [vector(dtype, &[1.0, 3.0, 2.0]), vector(dtype, &[4.0, 5.0]), tensor(dtype, &[], &[1.0])];
        assert_eq!(numbers(&run(op.clone(), &operands, &ty(dtype, &[3]))), [1.0, 10.0, 1.0], "{dtype}");
    }
    let large = [i128::from(u64::MAX) - 1, i128::from(u64::MAX)];
    let operands = [integers(Type::U64, &large), integers(Type::U64, &large[1..]), integers(Type::U64, &[1])];
    let got = run(scatter(Extremum::Max, &[2], &[[0, 0]], &[1]), &operands, &ty(Type::U64, &[2]));
    assert_eq!(exact(&got), [1, 0]);
}

#[test]
fn nan_is_chosen_as_the_first_element_alone() {
    let op = scatter(Extremum::Max, &[2], &[[0, 0]], &[2]);
    let operands = [
        vector(Type::F32, &[f64::NAN, 1.0, 1.0, f64::NAN]),
        vector(Type::F32, &[2.0, 3.0]),
        tensor(Type::F32, &[], &[0.0]),
    ];
    assert_eq!(numbers(&run(op, &operands, &ty(Type::F32, &[4]))), [2.0, 0.0, 3.0, 0.0]);
}

#[test]
fn sources_and_the_initial_value_have_gradients() {
    let op = scatter(Extremum::Max, &[2, 2], &[[1, 0], [0, 1]], &[1, 2]);
    let x = as_type(&tensor(Type::F64, &[3, 4], &noise(8, 12, 20)), Type::S32);
    let source = tensor(Type::F64, &[3, 2], &noise(2, 6, 5));
    check_gradients(op, &[x, source, tensor(Type::F64, &[], &[0.5])], &[3, 4]);
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let op = scatter(Extremum::Max, &[2], &[[0, 0]], &[1]);
    let x = vector(Type::F32, &[1.0, 2.0, 3.0]);
    let message = error(op, &[x.clone(), x.clone(), x], &ty(Type::F32, &[3]));
    let want = "window_scatter_max: takes sources of shape [2] and a scalar, got f32[3] and f32[3]";
    assert_eq!(message, want);
}
