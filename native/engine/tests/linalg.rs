//! Dense linear algebra: products of the factors, known answers, and matrices that have none.

mod tools;

use std::slice::from_ref;

use ex_burn_engine::program::{Eigh, Linalg, Op, Qr, QrMode, Svd, TransformA, TriangularSolve};
use ex_burn_engine::{Device, Error, Type, Value, exec};
use tools::*;

/// Rows and columns on both sides of each change of method.
const SIZES: [(usize, usize); 11] =
    [(1, 1), (2, 2), (3, 2), (2, 4), (5, 5), (6, 4), (4, 6), (32, 32), (33, 33), (50, 40), (40, 50)];

const QR: Qr = Qr { mode: QrMode::Reduced, eps: 1e-10 };
const EIGH: Eigh = Eigh { max_iter: 1000, eps: 1e-4 };
const SVD: Svd = Svd { full_matrices: true, max_iter: 100 };

fn try_linalg(op: Linalg, inputs: &[Value], outputs: &[(Type, Vec<usize>)]) -> Result<Vec<Value>, Error> {
    let outputs: Vec<_> = outputs.iter().map(|(dtype, shape)| ty(*dtype, shape)).collect();
    exec::instruction(&Op::Linalg(op), inputs.to_vec(), &outputs, &Device::Cpu)
}

fn linalg(op: Linalg, a: &Value, shapes: &[&[usize]]) -> Vec<Vec<f64>> {
    let outputs: Vec<_> = shapes.iter().map(|shape| (a.dtype(), shape.to_vec())).collect();
    let results = try_linalg(op.clone(), from_ref(a), &outputs).unwrap_or_else(|e| panic!("{op:?}: {e}"));
    results.iter().map(numbers).collect()
}

/// Numbers between -1 and 1.
fn random(m: usize, n: usize) -> Vec<f64> {
    noise((m * 100 + n) as u64, m * n, 1000).iter().map(|x| x / 1000.0).collect()
}

/// The product of an `m` x `k` and a `k` x `n` matrix.
fn product(a: &[f64], b: &[f64], k: usize) -> Vec<f64> {
    let (m, n) = (a.len() / k, b.len() / k);
    let at = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
    (0..m * n).map(|at_flat| at(at_flat / n, at_flat % n)).collect()
}

fn transposed(a: &[f64], columns: usize) -> Vec<f64> {
    let rows = a.len() / columns;
    (0..a.len()).map(|at| a[at % rows * columns + at / rows]).collect()
}

fn identity(n: usize) -> Vec<f64> {
    (0..n * n).map(|at| f64::from(u8::from(at / n == at % n))).collect()
}

/// Fails unless the columns of an `m` x `k` matrix are orthogonal and of length 1.
fn assert_orthonormal(q: &[f64], k: usize, tolerance: f64) {
    let m = q.len() / k;
    assert_close("lengths and angles of columns", &product(&transposed(q, k), q, m), &identity(k), tolerance);
}

fn symmetric(n: usize) -> Vec<f64> {
    let a = random(n, n);
    a.iter().zip(transposed(&a, n)).map(|(x, y)| x + y).collect()
}

fn tolerance(dtype: Type) -> f64 {
    if dtype == Type::F64 { 1e-12 } else { 2e-4 }
}

#[test]
fn qr_factors() {
    for dtype in [Type::F32, Type::F64] {
        for (m, n) in SIZES {
            let a = random(m, n);
            for mode in [QrMode::Reduced, QrMode::Complete] {
                let k = if mode == QrMode::Complete { m } else { m.min(n) };
                let op = Linalg::Qr(Qr { mode, ..QR });
                let factors = linalg(op, &tensor(dtype, &[m, n], &a), &[&[m, k], &[k, n]]);
                assert_close("q r", &product(&factors[0], &factors[1], k), &a, tolerance(dtype));
                assert_orthonormal(&factors[0], k, tolerance(dtype));
                let r = |i: usize, j: usize| factors[1][i * n + j];
                assert!((0..k).all(|i| (0..i.min(n)).all(|j| r(i, j) == 0.0)), "zeros below the diagonal");
                // The last row of a matrix without rows below may have either sign.
                assert!((0..m.min(n)).all(|i| i + 1 == m || r(i, i) >= 0.0), "the diagonal of {m}x{n}");
            }
        }
    }
}

#[test]
fn qr_turns_space_inside_out_once_for_each_row_but_the_last() {
    for n in [2, 5, 6, 32, 33, 40] {
        let q = linalg(Linalg::Qr(QR), &tensor(Type::F64, &[n, n], &random(n, n)), &[&[n, n], &[n, n]]).remove(0);
        let sign = linalg(Linalg::Determinant, &tensor(Type::F64, &[n, n], &q), &[&[]]);
        assert_close("determinant of q", &sign[0], &[if n % 2 == 1 { 1.0 } else { -1.0 }], 1e-12);
    }
}

#[test]
fn qr_of_columns_that_are_almost_on_their_axis() {
    for below in [1e-2, 1e-3, 3e-4, 1e-4, 3e-5] {
        let a = [1.0, 0.5, below, 0.7];
        let got = linalg(Linalg::Qr(QR), &tensor(Type::F32, &[2, 2], &a), &[&[2, 2], &[2, 2]]);
        assert_close("q r", &product(&got[0], &got[1], 2), &a, 1e-6);
    }
}

#[test]
fn qr_leaves_triangular_matrices_alone() {
    for n in [3, 6, 40] {
        let mut a = random(n, n);
        (0..n * n).filter(|at| at % n < at / n).for_each(|at| a[at] = 0.0);
        let factors = linalg(Linalg::Qr(QR), &tensor(Type::F64, &[n, n], &a), &[&[n, n], &[n, n]]);
        assert_eq!((&factors[0], &factors[1]), (&identity(n), &a));
    }
}

#[test]
fn lu_factors() {
    for dtype in [Type::F32, Type::F64] {
        for n in [1, 2, 5, 6, 32, 33, 60] {
            let a = random(n, n);
            let factors = linalg(Linalg::Lu, &tensor(dtype, &[n, n], &a), &[&[n, n] as &[usize]; 3]);
            let lu = product(&factors[1], &factors[2], n);
            assert_close("p l u", &product(&factors[0], &lu, n), &a, tolerance(dtype));
            assert!(factors[1].iter().all(|x| x.abs() <= 1.0), "pivots are the largest of their columns");
        }
    }
    let outputs = [(Type::S32, vec![2, 2]), (Type::F32, vec![2, 2]), (Type::F32, vec![2, 2])];
    let a = tensor(Type::S32, &[2, 2], &[1.0, 2.0, 4.0, 4.0]);
    let got = try_linalg(Linalg::Lu, &[a], &outputs).expect("integers");
    assert_eq!(numbers(&got[0]), [0.0, 1.0, 1.0, 0.0]);
    assert_eq!(numbers(&got[1]), [1.0, 0.0, 0.25, 1.0]);
    assert_eq!(numbers(&got[2]), [4.0, 4.0, 0.0, 1.0]);
}

#[test]
fn cholesky_factors() {
    for dtype in [Type::F32, Type::F64] {
        for n in [1, 2, 5, 6, 33, 60] {
            let b = random(n, n);
            let square = product(&b, &transposed(&b, n), n);
            let a: Vec<f64> = square.iter().zip(identity(n)).map(|(x, one)| x + one).collect();
            let l = linalg(Linalg::Cholesky, &tensor(dtype, &[n, n], &a), &[&[n, n]]).remove(0);
            assert_close("l l*", &product(&l, &transposed(&l, n), n), &a, tolerance(dtype));
            assert!((0..n).all(|i| (i + 1..n).all(|j| l[i * n + j] == 0.0)), "zeros above the diagonal");
        }
    }
}

/// A positive definite matrix whose largest elements are about `size`.
fn sized(n: usize, size: f64) -> Vec<f64> {
    let b = random(n, n);
    let square = product(&b, &transposed(&b, n), n);
    square.iter().zip(identity(n)).map(|(x, one)| (x + one) * size).collect()
}

/// Sizes whose squares are no numbers of the type.
fn sizes(dtype: Type) -> &'static [f64] {
    if dtype == Type::F32 { &[1e-30, 1e-18, 1e19, 1e30] } else { &[1e-250, 1e-160, 1e160, 1e250] }
}

#[test]
fn factors_of_what_is_very_small_or_very_large() {
    for (dtype, n) in [(Type::F32, 2), (Type::F32, 5), (Type::F64, 3), (Type::F64, 40)] {
        for &size in sizes(dtype) {
            let a = tensor(dtype, &[n, n], &sized(n, size));
            let assert_restored = |what: &str, product: &[f64]| {
                let scaled: Vec<f64> = product.iter().map(|x| x / size).collect();
                assert_close(&format!("{what} {dtype} {n} {size:e}"), &scaled, &sized(n, 1.0), 1e-4);
            };
            let square: &[usize] = &[n, n];
            let exact = Linalg::Qr(Qr { eps: 0.0, ..QR });
            let qr = linalg(exact, &a, &[square; 2]);
            assert_restored("q r", &product(&qr[0], &qr[1], n));
            let l = linalg(Linalg::Cholesky, &a, &[square]).remove(0);
            assert_restored("l l*", &product(&l, &transposed(&l, n), n));
            let svd = linalg(Linalg::Svd(SVD), &a, &[square, &[n], square]);
            let us: Vec<f64> = svd[0].iter().enumerate().map(|(at, u)| u * svd[1][at % n]).collect();
            assert_restored("u s vt", &product(&us, &svd[2], n));
        }
    }
}

#[test]
fn complex_systems_of_what_is_very_small_or_very_large() {
    for size in [1e-250, 1e-160, 1e160, 1e250] {
        let a = complex(Type::C128, &[[size, size], [0.0, 0.0], [size, 0.0], [0.0, size]]);
        let a = run(Op::Reshape, &[a], &ty(Type::C128, &[2, 2]));
        // (1 + i) x = 1 + i and x + i y = 1.
        let b = complex(Type::C128, &[[size, size], [size, 0.0]]);
        let x = try_linalg(Linalg::Solve, &[a, b], &[(Type::C128, vec![2])]).expect("a system");
        assert_close(&format!("{size:e}"), &parts(&x[0]), &[1.0, 0.0, 0.0, 0.0], 1e-12);
    }
}

#[test]
fn a_matrix_that_is_not_positive_definite_has_no_cholesky_factor_and_does_not_spoil_its_batch() {
    for n in [2, 40] {
        let mut bad = identity(n);
        bad[n * n - 1] = -1.0;
        let batch = [bad, identity(n)].concat();
        for dtype in [Type::F32, Type::F64] {
            let got = linalg(Linalg::Cholesky, &tensor(dtype, &[2, n, n], &batch), &[&[2, n, n]]).remove(0);
            assert!((0..n * n).all(|at| if at % n <= at / n { got[at].is_nan() } else { got[at] == 0.0 }));
            assert_eq!(got[n * n..], identity(n));
        }
    }
}

#[test]
fn eigenvalues_and_vectors() {
    for dtype in [Type::F32, Type::F64] {
        for n in [1, 2, 3, 4, 5, 6, 33, 60] {
            let a = symmetric(n);
            let got = linalg(Linalg::Eigh(EIGH), &tensor(dtype, &[n, n], &a), &[&[n], &[n, n]]);
            let (values, vectors) = (&got[0], &got[1]);
            let scaled: Vec<f64> = (0..n * n).map(|at| vectors[at] * values[at % n]).collect();
            let tolerance = 10.0 * tolerance(dtype);
            assert_close("v w v*", &product(&scaled, &transposed(vectors, n), n), &a, tolerance);
            assert_orthonormal(vectors, n, tolerance);
            assert!(values.windows(2).all(|pair| pair[0].abs() >= pair[1].abs()), "{values:?}");
            // Small matrices of f32 have the signs of Nx's rotations.
            for column in transposed(vectors, n).chunks(n).filter(|_| dtype == Type::F64 || n > 5) {
                let largest =
                    column.iter().copied().fold(0.0, |a: f64, b| if b.abs() > a.abs() + 1e-6 { b } else { a });
                assert!(largest > 0.0, "{column:?}");
            }
        }
    }
}

#[test]
fn small_eigenvalues_are_no_zeros() {
    for dtype in [Type::F32, Type::F64] {
        let a = tensor(dtype, &[2, 2], &[1e-6, 0.0, 0.0, 2e-6]);
        let got = linalg(Linalg::Eigh(EIGH), &a, &[&[2], &[2, 2]]);
        assert_close("values", &got[0].iter().map(|x| x * 1e6).collect::<Vec<_>>(), &[2.0, 1.0], 1e-6);
        assert_eq!(got[1], [0.0, 1.0, 1.0, 0.0]);
        let thin = Linalg::Svd(Svd { full_matrices: false, ..SVD });
        let got = linalg(thin, &a, &[&[2, 2], &[2], &[2, 2]]);
        assert_close("values", &got[1].iter().map(|x| x * 1e6).collect::<Vec<_>>(), &[2.0, 1.0], 1e-6);
    }
}

#[test]
fn singular_values_and_vectors() {
    for dtype in [Type::F32, Type::F64] {
        for (m, n) in SIZES {
            let a = random(m, n);
            let k = m.min(n);
            for full_matrices in [true, false] {
                let (wide, high) = if full_matrices { (m, n) } else { (k, k) };
                let op = Linalg::Svd(Svd { full_matrices, ..SVD });
                let got = linalg(op, &tensor(dtype, &[m, n], &a), &[&[m, wide], &[k], &[high, n]]);
                let (u, s, vt) = (&got[0], &got[1], &got[2]);
                let scaled: Vec<f64> = (0..m * k).map(|at| u[at / k * wide + at % k] * s[at % k]).collect();
                assert_close("u s vt", &product(&scaled, &vt[..k * n], k), &a, tolerance(dtype));
                assert_orthonormal(u, wide, tolerance(dtype));
                assert_orthonormal(&transposed(vt, n), high, tolerance(dtype));
                assert!(s.windows(2).all(|pair| pair[0] >= pair[1]), "{s:?}");
            }
        }
    }
    let zeros = linalg(Linalg::Svd(SVD), &tensor(Type::F32, &[3, 2], &[0.0; 6]), &[&[3, 3], &[2], &[2, 2]]);
    assert_eq!(zeros, [identity(3), vec![0.0, 0.0], identity(2)]);
}

#[test]
fn values_that_rounding_makes_of_zero_are_zero() {
    for dtype in [Type::F32, Type::F64] {
        for (m, n) in [(8, 6), (6, 8), (40, 33)] {
            let a = product(&random(m, 3), &random(3, n), 3);
            let full = Linalg::Svd(SVD);
            let s = &linalg(full, &tensor(dtype, &[m, n], &a), &[&[m, m], &[m.min(n)], &[n, n]])[1];
            assert!(s[..3].iter().all(|x| *x > 1e-3) && s[3..].iter().all(|x| *x == 0.0), "{s:?}");
        }
    }
}

#[test]
fn determinants() {
    let det = |dtype, n: usize, a: &[f64]| linalg(Linalg::Determinant, &tensor(dtype, &[n, n], a), &[&[]])[0][0];
    for dtype in [Type::F32, Type::F64] {
        assert_eq!(det(dtype, 1, &[-3.0]), -3.0);
        assert_eq!(det(dtype, 2, &[1.0, 2.0, 3.0, 4.0]), -2.0);
        assert_eq!(det(dtype, 3, &[1.0, 2.0, 3.0, 1.0, -2.0, 3.0, 7.0, 8.0, 9.0]), 48.0);
        for n in [4, 5, 6, 32, 33, 40] {
            // A cycle of all rows is odd when their number is even.
            let cycle: Vec<f64> = (0..n * n).map(|at| f64::from(u8::from((at / n + 1) % n == at % n))).collect();
            assert_eq!(det(dtype, n, &cycle), if n % 2 == 0 { -1.0 } else { 1.0 });
            assert_eq!(det(dtype, n, &vec![1.0; n * n]), 0.0);
        }
    }
}

#[test]
fn systems_are_solved() {
    for dtype in [Type::F32, Type::F64] {
        for n in [1, 2, 5, 6, 33, 60] {
            let a: Vec<f64> = random(n, n).iter().zip(identity(n)).map(|(x, one)| x + 4.0 * n as f64 * one).collect();
            for columns in [None, Some(1), Some(3)] {
                let count = columns.unwrap_or(1);
                let x = random(n, count);
                let shape: Vec<usize> = [n].into_iter().chain(columns).collect();
                let b = tensor(dtype, &shape, &product(&a, &x, n));
                let inputs = [tensor(dtype, &[n, n], &a), b];
                let got = try_linalg(Linalg::Solve, &inputs, &[(dtype, shape)]).expect("regular");
                assert_close("x", &numbers(&got[0]), &x, tolerance(dtype));
            }
        }
    }
}

#[test]
fn triangular_systems_are_solved_from_both_sides() {
    let options = [true, false]
        .into_iter()
        .flat_map(|lower| [true, false].map(|left_side| (lower, left_side)))
        .flat_map(|(lower, left)| {
            [TransformA::None, TransformA::Transpose, TransformA::Conjugate].map(|transform| (lower, left, transform))
        });
    for (lower, left_side, transform_a) in options {
        for n in [1, 3, 32, 33, 50] {
            // Elements of the other triangle are not to be read.
            let full: Vec<f64> =
                random(n, n).iter().zip(identity(n)).map(|(x, one)| x + 2.0 * n as f64 * one).collect();
            let of_triangle = |at: usize| if lower { at % n <= at / n } else { at % n >= at / n };
            let a: Vec<f64> = (0..n * n).map(|at| if of_triangle(at) { full[at] } else { 0.0 }).collect();
            let a = if transform_a == TransformA::Transpose { transposed(&a, n) } else { a };
            let x = random(n, 2);
            let (b, shape) = match left_side {
                true => (product(&a, &x, n), [n, 2]),
                false => (product(&transposed(&x, 2), &a, n), [2, n]),
            };
            let want = if left_side { x } else { transposed(&x, 2) };
            let op = Op::TriangularSolve(TriangularSolve { lower, left_side, transform_a });
            let inputs = [tensor(Type::F64, &[n, n], &full), tensor(Type::F64, &shape, &b)];
            let got = run(op.clone(), &inputs, &ty(Type::F64, &shape));
            assert_close("x", &numbers(&got), &want, 1e-12);
        }
    }
}

#[test]
fn singular_systems_are_errors() {
    for n in [2, 40] {
        let (zeros, b) = (tensor(Type::F32, &[n, n], &vec![0.0; n * n]), tensor(Type::F32, &[n], &vec![1.0; n]));
        let inputs = [zeros, b];
        let triangular = TriangularSolve { lower: true, left_side: true, transform_a: TransformA::None };
        let message = error(Op::TriangularSolve(triangular), &inputs, &ty(Type::F32, &[n]));
        assert_eq!(message, "triangular_solve: can't solve for singular matrix");
        let message = error(Op::Linalg(Linalg::Solve), &inputs, &ty(Type::F32, &[n]));
        assert_eq!(message, "solve: can't solve for singular matrix");
    }
}

#[test]
fn batches_of_any_rank_and_without_matrices() {
    let a: Vec<f64> = (0..2000).flat_map(|i| [f64::from(i), 1.0, 1.0, 2.0]).collect();
    let got = linalg(Linalg::Determinant, &tensor(Type::F64, &[2, 1000, 2, 2], &a), &[&[2, 1000]]);
    assert_eq!(got[0], (0..2000).map(|i| f64::from(2 * i - 1)).collect::<Vec<_>>());
    let none = tensor(Type::F32, &[0, 3, 3], &[]);
    assert_eq!(linalg(Linalg::Determinant, &none, &[&[0]]), [[0.0; 0]]);
    assert_eq!(linalg(Linalg::Svd(SVD), &none, &[&[0, 3, 3], &[0, 3], &[0, 3, 3]]), [[0.0; 0]; 3]);
    let empty = tensor(Type::F64, &[2, 0, 0], &[]);
    assert_eq!(linalg(Linalg::Determinant, &empty, &[&[2]]), [[1.0, 1.0]]);
    let complete = Linalg::Qr(Qr { mode: QrMode::Complete, ..QR });
    let tall = linalg(complete, &tensor(Type::F64, &[2, 0], &[]), &[&[2, 2], &[2, 0]]);
    assert_eq!(tall, [identity(2), vec![]]);
}

#[test]
fn what_is_no_number_ends_and_makes_no_number() {
    for n in [2, 5, 6, 40] {
        for bad in [f64::NAN, f64::INFINITY] {
            for dtype in [Type::F32, Type::F64] {
                let mut a = identity(n);
                a[n] = bad;
                a[1] = bad;
                let a = tensor(dtype, &[n, n], &a);
                let square: &[usize] = &[n, n];
                let all_nan = |results: Vec<Vec<f64>>| results.iter().flatten().all(|x| x.is_nan());
                assert!(all_nan(linalg(Linalg::Qr(QR), &a, &[square, square])));
                assert!(all_nan(linalg(Linalg::Eigh(EIGH), &a, &[&[n], square])));
                assert!(all_nan(linalg(Linalg::Svd(SVD), &a, &[square, &[n], square])));
                assert!(linalg(Linalg::Cholesky, &a, &[square])[0][0].is_nan());
                assert!(!linalg(Linalg::Determinant, &a, &[&[]])[0][0].is_finite());
                let [p, ..] = &linalg(Linalg::Lu, &a, &[square; 3])[..] else { panic!("three factors") };
                assert_eq!(product(p, &transposed(p, n), n), identity(n));
            }
        }
    }
}

#[test]
fn sixteen_bits_are_computed_in_more() {
    for dtype in [Type::BF16, Type::F16] {
        let a = tensor(dtype, &[2, 2], &[4.0, 2.0, 2.0, 5.0]);
        assert_eq!(linalg(Linalg::Cholesky, &a, &[&[2, 2]]), [[2.0, 0.0, 1.0, 2.0]]);
        assert_eq!(linalg(Linalg::Determinant, &a, &[&[]]), [[16.0]]);
    }
}

#[test]
fn calls_without_sense_are_errors() {
    let a = tensor(Type::F32, &[2, 3], &[1.0; 6]);
    let square = tensor(Type::F32, &[2, 2], &[1.0, 0.0, 0.0, 1.0]);
    let refused = |op: Linalg, inputs: &[&Value], shape: &[usize]| {
        let inputs: Vec<Value> = inputs.iter().copied().cloned().collect();
        error(Op::Linalg(op), &inputs, &ty(Type::F32, shape))
    };
    let message = refused(Linalg::Cholesky, &[&a], &[2, 3]);
    assert_eq!(message, "cholesky: needs square matrices, got f32[2,3]");
    let message = refused(Linalg::Determinant, &[&vector(Type::F32, &[1.0])], &[]);
    assert_eq!(message, "determinant: needs a batch of matrices, got f32[1]");
    let message = refused(Linalg::Solve, &[&square, &a], &[3, 3]);
    assert_eq!(message, "solve: the operands make a result of shape [2, 3], not [3, 3]");
    let message = refused(Linalg::Solve, &[&square, &vector(Type::F32, &[1.0; 3])], &[3]);
    assert_eq!(message, "solve: f32[2,2] and f32[3] make no systems");
    let message = refused(Linalg::Lu, &[&square], &[2, 2]);
    assert_eq!(message, "lu: makes results of shapes [[2, 2], [2, 2], [2, 2]], not [[2, 2]]");
    let message = refused(Linalg::Cholesky, &[&tracked(&square)], &[2, 2]);
    assert_eq!(
        message,
        "cholesky: has no gradient on the tape of a training step; give gradients: :symbolic, or compute it outside of the model"
    );
}

#[test]
fn results_larger_than_memory_are_errors() {
    const ROWS: usize = 400_000;
    let tall = tensor(Type::F32, &[ROWS, 1], &vec![1.0; ROWS]);
    let full = [(Type::F32, vec![ROWS, ROWS]), (Type::F32, vec![1]), (Type::F32, vec![1, 1])];
    let message = try_linalg(Linalg::Svd(SVD), from_ref(&tall), &full).expect_err("too large").to_string();
    assert!(message.starts_with("svd: ") && message.contains("memory"), "{message}");
    let thin = Linalg::Svd(Svd { full_matrices: false, ..SVD });
    let got = linalg(thin, &tall, &[&[ROWS, 1], &[1], &[1, 1]]);
    assert_close("s", &got[1], &[(ROWS as f64).sqrt()], 1e-6);
}
