//! Triangular systems.

use ex_burn_engine::program::*;
use ex_burn_engine::{Device, TensorType, Type, Value, exec};

use super::{Gpu, floats, gpu, random, singles, typed};

/// All there is to say about a system but its size.
fn ways() -> impl Iterator<Item = TriangularSolve> {
    let transforms = [TransformA::None, TransformA::Transpose, TransformA::Conjugate];
    let pairs = [(false, false), (false, true), (true, false), (true, true)];
    transforms
        .into_iter()
        .flat_map(move |transform_a| pairs.map(|(lower, left_side)| TriangularSolve { lower, left_side, transform_a }))
}

/// Matrices with elements in both triangles, of which one must not be read: it is no number.
fn matrices(count: usize, n: usize, lower: bool, seed: u64) -> Value {
    let mut next = random(seed);
    let mut element = |i: usize, j: usize| match i.cmp(&j) {
        std::cmp::Ordering::Equal => 1.0 + next() as f32,
        order if order.is_gt() == lower => (next() as f32 * 2.0 - 1.0) / (n as f32).sqrt(),
        _ => f32::NAN,
    };
    let numbers: Vec<f32> = (0..count * n * n).map(|at| element(at / n % n, at % n)).collect();
    singles(&[count, n, n], &numbers)
}

/// The element of the triangle of op(a) x = b, or of x op(a) = b as a system of its columns.
fn element(attrs: &TriangularSolve, a: &[f64], n: usize, [i, j]: [usize; 2]) -> f64 {
    let turned = (attrs.transform_a == TransformA::Transpose) == attrs.left_side;
    let (i, j) = if turned { (j, i) } else { (i, j) };
    let held = if attrs.lower { i >= j } else { i <= j };
    if held { a[i * n + j] } else { 0.0 }
}

/// However it is summed up, a solution by substitution solves a system whose elements differ by n + 1 roundings: Higham, Accuracy
/// and Stability of Numerical Algorithms, theorem 8.5. Here for what lies `[rows, columns]` as it is seen from the left.
fn solves(attrs: &TriangularSolve, a: &[f64], x: &[f64], b: &[f64], [n, sides]: [usize; 2]) {
    // A quotient of a shading language may be off by two units and a half.
    let rounding = (n as f64 + 6.0) * f64::from(f32::EPSILON) / 2.0;
    let at = |unknown: usize, side: usize| if attrs.left_side { unknown * sides + side } else { side * n + unknown };
    for side in 0..sides {
        for i in 0..n {
            let terms = (0..n).map(|j| element(attrs, a, n, [i, j]) * x[at(j, side)]);
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + f64::abs(term)));
            let (off, most) = ((b[at(i, side)] - sum).abs(), rounding * size);
            assert!(off <= most, "{attrs:?} {n}x{sides}: equation {i} of {side} is off by {off}, not {most}");
        }
    }
}

fn solution(gpu: &Gpu, attrs: &TriangularSolve, a: &Value, b: &Value) -> Vec<f64> {
    floats(&gpu.one(&Op::TriangularSolve(attrs.clone()), &[a.clone(), b.clone()], b.ty()))
}

/// Systems of every kind, with as many sides each.
fn systems(gpu: &Gpu, count: usize, [n, sides]: [usize; 2]) {
    for (seed, attrs) in ways().enumerate() {
        let a = matrices(count, n, attrs.lower, seed as u64);
        let mut next = random(99 + seed as u64);
        let shape = if attrs.left_side { [count, n, sides] } else { [count, sides, n] };
        let numbers: Vec<f32> = (0..count * n * sides).map(|_| next() as f32 - 0.5).collect();
        let b = singles(&shape, &numbers);
        let x = solution(gpu, &attrs, &a, &b);
        let (a, b) = (floats(&a), floats(&b));
        for k in 0..count {
            let [a, x, b] = [(&a, n * n), (&x, n * sides), (&b, n * sides)].map(|(all, size)| &all[k * size..][..size]);
            solves(&attrs, a, x, b, [n, sides]);
        }
    }
}

#[test]
fn triangular_systems_of_any_size() {
    let Some(gpu) = gpu() else { return };
    for (count, size) in [(1, [1, 1]), (2, [5, 3]), (3, [31, 8]), (1, [32, 1]), (2, [33, 9]), (70, [4, 2])] {
        systems(&gpu, count, size);
    }
}

#[test]
fn triangular_systems_that_are_halved() {
    let Some(gpu) = gpu() else { return };
    for (count, size) in [(1, [257, 2]), (2, [300, 5]), (1, [700, 17])] {
        systems(&gpu, count, size);
    }
}

#[test]
fn vectors_and_types_of_triangular_systems() {
    let Some(gpu) = gpu() else { return };
    for attrs in ways() {
        // Whole numbers, whose quotients are whole, have the same solutions however they are rounded.
        let a =
            typed(Type::S8, &[2, 3, 3], &[1., 2., 3., 4., -1., 2., 5., 6., 1., -1., 2., 3., 4., 1., 2., 5., 6., 1.]);
        let b = typed(Type::BF16, &[2, 3], &[1., -7., 4., 3., 2., 1.]);
        let op = Op::TriangularSolve(attrs.clone());
        for dtype in [Type::F32, Type::BF16, Type::F16] {
            let out = TensorType::new(dtype, [2, 3]);
            let inputs = [a.clone(), b.clone()];
            let here = exec::instruction(&op, inputs.to_vec(), std::slice::from_ref(&out), &Device::Cpu).unwrap();
            assert_eq!(floats(&gpu.one(&op, &inputs, out)), floats(&here[0]), "{attrs:?} {dtype}");
        }
    }
}

#[test]
fn a_zero_on_the_diagonal_is_an_error() {
    let Some(gpu) = gpu() else { return };
    for zero in [0.0, -0.0] {
        for at in [0, 4] {
            let mut numbers: Vec<f32> = (1..=8).map(|number| number as f32).collect();
            numbers[at + if at == 0 { 0 } else { 3 }] = zero;
            let (a, b) = (singles(&[2, 2, 2], &numbers), singles(&[2, 2, 1], &[1.0; 4]));
            let attrs = TriangularSolve { lower: true, left_side: true, transform_a: TransformA::None };
            let [a, b] = [a, b].map(|value| value.to_device(&gpu.device).unwrap());
            let out = TensorType::new(Type::F32, [2, 2, 1]);
            let error = exec::instruction(&Op::TriangularSolve(attrs), vec![a, b], &[out], &gpu.device).unwrap_err();
            assert!(error.to_string().contains("singular"), "{error}");
        }
    }
    ex_burn_engine::gpu::fallback::take();
}
