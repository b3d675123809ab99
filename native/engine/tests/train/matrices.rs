//! Optimizers that see a whole tensor.

use ex_burn_engine::train::{Adam, Adamw, Clip, Lamb, Muon, Optimizer, Prepare, Rule, Sgd};
use ex_burn_engine::{Type, Value};

use crate::linear::{assert_close, elements, tensor};

const RATE: f64 = 0.02;

fn gradient(step: usize, len: usize) -> Vec<f64> {
    (0..len).map(|i| ((step * 5 + i * 3) as f64 * 0.41).sin() * (1.0 + (i % 3) as f64)).collect()
}

fn start(len: usize) -> Vec<f64> {
    (0..len).map(|i| (i as f64 * 0.13).cos()).collect()
}

fn ours(rule: Rule, dtype: Type, shape: &[usize], steps: usize) -> Vec<f64> {
    let len = shape.iter().product();
    let mut params = vec![tensor(dtype, shape, &start(len))];
    let mut optimizer = Optimizer::new(rule, &params, None).expect("good options");
    for step in 1..=steps {
        let mut next = params.clone();
        let gradients = vec![tensor(dtype, shape, &gradient(step, len))];
        optimizer.step(&params, &mut next, gradients, &Prepare::default(), RATE).expect("a step");
        params = next;
    }
    elements(&params[0])
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The published rule.
fn lamb(rule: Lamb, len: usize, steps: usize) -> Vec<f64> {
    let Lamb { b1, b2, eps, eps_root, decay, min_norm } = rule;
    let (mut p, mut m, mut v) = (start(len), vec![0.0; len], vec![0.0; len]);
    for t in 1..=steps {
        let g = gradient(t, len);
        let correct = |x: f64, decay: f64| x / (1.0 - decay.powi(t as i32));
        let change: Vec<f64> = (0..len)
            .map(|i| {
                m[i] = b1 * m[i] + (1.0 - b1) * g[i];
                v[i] = b2 * v[i] + (1.0 - b2) * g[i] * g[i];
                correct(m[i], b1) / ((correct(v[i], b2) + eps_root).sqrt() + eps) + decay * p[i]
            })
            .collect();
        let trust = norm(&p).max(min_norm) / norm(&change).max(min_norm);
        p.iter_mut().zip(&change).for_each(|(p, change)| *p -= RATE * trust * change);
    }
    p
}

#[test]
fn lamb_follows_its_published_rule() {
    for rule in [Lamb::default(), Lamb { decay: 0.1, min_norm: 3.0, ..Lamb::default() }] {
        for (dtype, tolerance) in [(Type::F64, 1e-11), (Type::F32, 2e-5)] {
            assert_close(&ours(Rule::Lamb(rule), dtype, &[3, 5], 100), &lamb(rule, 15, 100), tolerance);
        }
    }
}

#[test]
fn lamb_steps_like_adam_from_zeros() {
    let from = vec![tensor(Type::F64, &[2], &[0.0, 0.0])];
    let mut next = from.clone();
    let mut optimizer = Optimizer::new(Rule::Lamb(Lamb::default()), &from, None).expect("good options");
    let gradients = vec![tensor(Type::F64, &[2], &[3.0, -0.5])];
    optimizer.step(&from, &mut next, gradients, &Prepare::default(), RATE).expect("a step");
    assert_close(&elements(&next[0]), &[-RATE, RATE], 1e-6);
}

/// A matrix as rows.
type Matrix = Vec<Vec<f64>>;

fn times(a: &Matrix, b: &Matrix) -> Matrix {
    let cell = |row: &[f64], j: usize| row.iter().zip(b).map(|(x, row)| x * row[j]).sum();
    a.iter().map(|row| (0..b[0].len()).map(|j| cell(row, j)).collect()).collect()
}

fn turned(a: &Matrix) -> Matrix {
    (0..a[0].len()).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

fn mixed(a: &Matrix, k: f64, b: &Matrix, l: f64) -> Matrix {
    let row = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| k * a + l * b).collect();
    a.iter().zip(b).map(row).collect()
}

/// Five Newton-Schulz iterations, always with the rows of the matrix as it is: X X' X = X (X' X).
fn orthogonal(x: Matrix, eps: f64, steps: usize) -> Matrix {
    let length = norm(&x.concat()) + eps;
    let mut x: Matrix = x.iter().map(|row| row.iter().map(|x| x / length).collect()).collect();
    for _ in 0..steps {
        let cube = times(&times(&x, &turned(&x)), &x);
        let fifth = times(&times(&x, &turned(&x)), &cube);
        x = mixed(&mixed(&x, 3.4445, &cube, -4.775), 1.0, &fifth, 2.0315);
    }
    x
}

fn muon(rule: Muon, rows: usize, columns: usize, steps: usize) -> Vec<f64> {
    let split = |x: Vec<f64>| -> Matrix { x.chunks(columns).map(<[f64]>::to_vec).collect() };
    let mut p = split(start(rows * columns));
    let mut trace = split(vec![0.0; rows * columns]);
    for t in 1..=steps {
        let g = split(gradient(t, rows * columns));
        trace = mixed(&trace, rule.momentum, &g, 1.0 - rule.momentum);
        let d = if rule.nesterov { mixed(&trace, rule.momentum, &g, 1.0 - rule.momentum) } else { trace.clone() };
        let o = orthogonal(d, rule.eps, rule.steps);
        let length = 0.2 * (rows.max(columns) as f64).sqrt();
        p = mixed(&p, 1.0 - RATE * rule.decay, &o, -RATE * length);
    }
    p.concat()
}

#[test]
fn muon_follows_its_published_rule() {
    for rule in [Muon::default(), Muon { nesterov: false, momentum: 0.8, decay: 0.1, steps: 3, ..Muon::default() }] {
        for (rows, columns) in [(4, 6), (6, 4), (5, 5), (1, 3)] {
            let want = muon(rule, rows, columns, 100);
            assert_close(&ours(Rule::Muon(rule), Type::F64, &[rows, columns], 100), &want, 1e-9);
            assert_close(&ours(Rule::Muon(rule), Type::F32, &[rows, columns], 100), &want, 1e-3);
        }
        // A kernel of a convolution is a matrix too.
        assert_close(&ours(Rule::Muon(rule), Type::F64, &[3, 2, 4], 10), &muon(rule, 6, 4, 10), 1e-9);
    }
}

#[test]
fn muon_steps_are_nearly_orthogonal() {
    let gradient = tensor(Type::F64, &[4, 3], &[2.0, 0.1, 0.0, 0.0, -1.0, 0.3, 0.2, 0.0, 1.5, 0.5, -0.4, 0.1]);
    let from = vec![tensor(Type::F64, &[4, 3], &[0.0; 12])];
    let mut next = from.clone();
    let mut optimizer = Optimizer::new(Rule::Muon(Muon::default()), &from, None).expect("good options");
    optimizer.step(&from, &mut next, vec![gradient], &Prepare::default(), 1.0).expect("a step");
    let step: Matrix = elements(&next[0]).chunks(3).map(<[f64]>::to_vec).collect();
    // Columns as long as each other and at right angles; the polynomial leaves singular values in 0.7..1.2.
    let unit = 0.2f64.powi(2) * 4.0;
    for (i, row) in times(&turned(&step), &step).iter().enumerate() {
        for (j, cell) in row.iter().enumerate() {
            let range = if i == j { 0.49..1.44 } else { -0.3..0.3 };
            assert!(range.contains(&(cell / unit)), "{i}, {j}: {cell}");
        }
    }
}

#[test]
fn vectors_take_the_step_of_adam_under_muon() {
    let adamw = Rule::Adamw(Adamw { decay: 0.1, ..Adamw::default() });
    let muon = Rule::Muon(Muon { decay: 0.1, ..Muon::default() });
    assert_eq!(ours(muon, Type::F32, &[7], 20), ours(adamw, Type::F32, &[7], 20));
}

#[test]
fn half_precision_goes_the_same_way() {
    for (dtype, tolerance) in [(Type::F16, 1e-2), (Type::BF16, 6e-2)] {
        assert_close(&ours(Rule::Lamb(Lamb::default()), dtype, &[2, 3], 10), &lamb(Lamb::default(), 6, 10), tolerance);
        assert_close(
            &ours(Rule::Muon(Muon::default()), dtype, &[2, 3], 10),
            &muon(Muon::default(), 2, 3, 10),
            tolerance,
        );
    }
}

#[test]
fn gradients_and_steps_of_half_precision_are_rounded_once() {
    // What f16 holds as 0.
    let (given, scale) = ([3.0, 4.0], 2f64.powi(-30));
    let g = given.map(|g| g * scale);
    let adam = g.map(|g| g / ((g * g + 1e-15).sqrt() + 1e-8));
    let (moved, length) = (norm(&adam), 2f64.sqrt());
    let d = mixed(&vec![g.to_vec()], 0.95 * 0.05 + 0.05, &vec![vec![0.0; 2]], 0.0);
    let orthogonal = orthogonal(d, 1e-7, 5).concat();
    let cases = [
        (Rule::Sgd(Sgd::default()), 2f64.powi(30), g.to_vec()),
        (Rule::Adam(Adam::default()), 0.5, adam.to_vec()),
        (Rule::Lamb(Lamb::default()), 0.5, adam.iter().map(|u| u * length / moved).collect()),
        (Rule::Muon(Muon::default()), 8.0, orthogonal.iter().map(|o| o * 0.2 * length).collect()),
    ];
    for (rule, rate, change) in cases {
        for dtype in [Type::F16, Type::F32] {
            let from = vec![tensor(dtype, &[1, 2], &[1.0, 1.0])];
            let gradients = vec![tensor(dtype, &[1, 2], &given)];
            let prepare = Prepare::new(Clip::default(), scale, &gradients).expect("floats");
            let (mut next, mut optimizer) = (from.clone(), Optimizer::new(rule, &from, None).expect("good options"));
            optimizer.step(&from, &mut next, gradients, &prepare, rate).expect("a step");
            let want: Vec<f64> = change.iter().map(|change| 1.0 - rate * change).collect();
            assert_close(&elements(&next[0]), &want, if dtype == Type::F16 { 1e-3 } else { 1e-5 });
        }
    }
}

/// What plain gradient descent sees of the gradients.
fn prepared(clip: Clip, scale: f64, dtype: Type, params: &[Vec<f64>], g: &[Vec<f64>]) -> Vec<f64> {
    let values = |x: &[Vec<f64>]| x.iter().map(|x| tensor(dtype, &[x.len()], x)).collect::<Vec<Value>>();
    let (from, gradients) = (values(params), values(g));
    let mut next = from.clone();
    let prepare = Prepare::new(clip, scale, &gradients).expect("floats");
    let mut optimizer = Optimizer::new(Rule::Sgd(Sgd::default()), &from, None).expect("good options");
    optimizer.step(&from, &mut next, gradients, &prepare, 1.0).expect("a step");
    let change = |(from, next): (&Value, &Value)| {
        elements(from).into_iter().zip(elements(next)).map(|(a, b)| a - b).collect::<Vec<f64>>()
    };
    from.iter().zip(&next).flat_map(change).collect()
}

#[test]
fn gradients_are_clipped_and_weights_decay() {
    let (params, gradients) = ([vec![1.0, -2.0], vec![4.0]], [vec![3.0, -4.0], vec![12.0]]);
    let see = |clip, scale| prepared(clip, scale, Type::F64, &params, &gradients);
    let norm = |norm| Clip { norm: Some(norm), ..Clip::default() };
    // The norm of (3, -4, 12) is 13.
    assert_close(&see(norm(6.5), 1.0), &[1.5, -2.0, 6.0], 1e-12);
    assert_close(&see(norm(13.0), 1.0), &[3.0, -4.0, 12.0], 1e-12);
    assert_close(&see(norm(6.5), 0.5), &[1.5, -2.0, 6.0], 1e-12);
    let huge = [vec![3e200, -4e200], vec![12e200]];
    assert_close(&prepared(norm(6.5), 1.0, Type::F64, &params, &huge), &[1.5, -2.0, 6.0], 1e-12);
    // Where the norm is more than the largest number, and the bound over the norm less than the smallest.
    let largest = [vec![1e308; 25], vec![-1e308; 75]];
    let clipped = prepared(norm(10.0), 1.0, Type::F64, &[vec![0.0; 25], vec![0.0; 75]], &largest);
    assert_close(&clipped, &[vec![1.0; 25], vec![-1.0; 75]].concat(), 1e-12);
    let far = |x: f64, bound| prepared(norm(bound), 1.0, Type::F32, &[vec![0.0]], &[vec![x]])[0] / bound;
    assert_close(&[far(3e38, 0.1), far(1e10, 1e-36), far(-1e-20, 1e-37)], &[1.0, 1.0, -1.0], 1e-6);
    assert_close(&see(Clip { value: Some(3.5), ..Clip::default() }, 1.0), &[3.0, -3.5, 3.5], 1e-12);
    assert_close(&see(Clip { decay: 0.5, ..Clip::default() }, 1.0), &[3.5, -5.0, 14.0], 1e-12);
    // Elements first: (3, -4, 4), whose norm is the root of 41, and what decays is not clipped.
    let all = Clip { value: Some(4.0), norm: Some(41f64.sqrt() / 2.0), decay: 1.0 };
    assert_close(&see(all, 1.0), &[2.5, -4.0, 6.0], 1e-12);
}

#[test]
fn long_gradients_are_prepared_in_parts() {
    let long: Vec<f64> = (0..300_001).map(|i| ((i % 7) as f64) - 3.0).collect();
    let clip = Clip { norm: Some(1.0), ..Clip::default() };
    let got = prepared(clip, 1.0, Type::F64, &[vec![0.0; long.len()]], std::slice::from_ref(&long));
    let length = norm(&long);
    assert_close(&got, &long.iter().map(|x| x / length).collect::<Vec<_>>(), 1e-12);
}
