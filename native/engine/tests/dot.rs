//! Contractions against a sum over index loops.

mod tools;

use ex_burn_engine::program::{Dot, Op};
use ex_burn_engine::{Type, Value};
use tools::*;

fn dot(lhs_contract: &[usize], lhs_batch: &[usize], rhs_contract: &[usize], rhs_batch: &[usize]) -> Dot {
    Dot {
        lhs_contract: lhs_contract.to_vec(),
        lhs_batch: lhs_batch.to_vec(),
        rhs_contract: rhs_contract.to_vec(),
        rhs_batch: rhs_batch.to_vec(),
    }
}

fn free(rank: usize, batch: &[usize], contract: &[usize]) -> Vec<usize> {
    (0..rank).filter(|axis| !batch.contains(axis) && !contract.contains(axis)).collect()
}

/// The contraction by definition, and its shape.
fn by_loops(d: &Dot, a: &[f64], a_shape: &[usize], b: &[f64], b_shape: &[usize]) -> (Vec<usize>, Vec<f64>) {
    let a_free = free(a_shape.len(), &d.lhs_batch, &d.lhs_contract);
    let b_free = free(b_shape.len(), &d.rhs_batch, &d.rhs_contract);
    let lengths = |axes: &[usize], shape: &[usize]| axes.iter().map(|&axis| shape[axis]).collect::<Vec<_>>();
    let shape = [lengths(&d.lhs_batch, a_shape), lengths(&a_free, a_shape), lengths(&b_free, b_shape)].concat();
    let summed = lengths(&d.lhs_contract, a_shape);
    let mut result = vec![];
    each_index(&shape, |out| {
        let (batch, rest) = out.split_at(d.lhs_batch.len());
        let (left, right) = rest.split_at(a_free.len());
        let mut sum = 0.0;
        each_index(&summed, |k| {
            let place = |axes: [&[usize]; 3], indices: [&[usize]; 3], shape: &[usize]| {
                let mut index = vec![0; shape.len()];
                for (axes, values) in axes.iter().zip(indices) {
                    axes.iter().zip(values).for_each(|(&axis, &value)| index[axis] = value);
                }
                position(&index, shape)
            };
            sum += a[place([&d.lhs_batch, &a_free, &d.lhs_contract], [batch, left, k], a_shape)]
                * b[place([&d.rhs_batch, &b_free, &d.rhs_contract], [batch, right, k], b_shape)];
        });
        result.push(sum);
    });
    (shape, result)
}

type Case = (Dot, &'static [usize], &'static [usize]);

fn cases() -> Vec<Case> {
    vec![
        (dot(&[1], &[], &[0], &[]), &[2, 3], &[3, 4]),
        (dot(&[0], &[], &[0], &[]), &[3, 2], &[3, 4]),
        (dot(&[1], &[], &[1], &[]), &[2, 3], &[4, 3]),
        (dot(&[0], &[], &[0], &[]), &[3], &[3]),
        (dot(&[], &[], &[], &[]), &[], &[]),
        (dot(&[], &[], &[], &[]), &[2, 2], &[3]),
        (dot(&[2], &[], &[0], &[]), &[2, 2, 3], &[3, 2]),
        (dot(&[0, 1], &[], &[1, 0], &[]), &[2, 3, 2], &[3, 2, 2]),
        (dot(&[2, 0], &[], &[0, 1], &[]), &[2, 3, 4], &[4, 2]),
        (dot(&[2], &[0], &[1], &[0]), &[2, 3, 4], &[2, 4, 2]),
        (dot(&[1], &[0], &[2], &[0]), &[2, 3, 4], &[2, 2, 3]),
        (dot(&[3], &[0, 1], &[2], &[0, 1]), &[2, 2, 3, 2], &[2, 2, 2, 3]),
        (dot(&[1], &[0, 2], &[0], &[1, 2]), &[2, 3, 2], &[3, 2, 2]),
        (dot(&[], &[0], &[], &[0]), &[3], &[3]),
        (dot(&[1], &[], &[0], &[]), &[2, 0], &[0, 3]),
        (dot(&[1], &[], &[0], &[]), &[0, 2], &[2, 3]),
    ]
}

#[test]
fn contracts_any_axes_in_every_type() {
    for (attrs, a_shape, b_shape) in cases() {
        let (a, b) = (noise(1, a_shape.iter().product(), 5), noise(2, b_shape.iter().product(), 5));
        let (shape, expected) = by_loops(&attrs, &a, a_shape, &b, b_shape);
        for dtype in TYPES {
            let (lhs, rhs) = (tensor(dtype, a_shape, &a), tensor(dtype, b_shape, &b));
            let wrapped = numbers(&tensor(dtype, &shape, &expected));
            let result = run(Op::Dot(attrs.clone()), &[lhs, rhs], &ty(dtype, &shape));
            assert_eq!(numbers(&result), wrapped, "{attrs:?} of {dtype}");
        }
    }
}

#[test]
fn mixes_types() {
    let matrix = Op::Dot(dot(&[1], &[], &[0], &[]));
    let operands = [tensor(Type::U8, &[1, 2], &[200., 3.]), tensor(Type::F32, &[2, 1], &[0.5, -1.])];
    assert_eq!(numbers(&run(matrix.clone(), &operands, &ty(Type::F32, &[1, 1]))), [97.]);
    let operands = [tensor(Type::U8, &[1, 2], &[200., 3.]), tensor(Type::S64, &[2, 1], &[-2., 1.])];
    assert_eq!(numbers(&run(matrix, &operands, &ty(Type::S64, &[1, 1]))), [-397.]);
}

#[test]
fn integers_wrap() {
    let vector = Op::Dot(dot(&[0], &[], &[0], &[]));
    let big = Value::from_bytes(&ty(Type::U64, &[1]), (u64::MAX - 1).to_le_bytes().to_vec(), &Default::default());
    let operands = [big.expect("eight bytes"), tensor(Type::U64, &[1], &[3.])];
    let bytes = run(vector.clone(), &operands, &ty(Type::U64, &[])).into_bytes().expect("readable");
    assert_eq!(bytes, (u64::MAX - 1).wrapping_mul(3).to_le_bytes());
    let operands = [tensor(Type::S8, &[2], &[100., 100.]), tensor(Type::S8, &[2], &[100., 1.])];
    assert_eq!(numbers(&run(vector, &operands, &ty(Type::S8, &[]))), [f64::from((10_000i32 + 100) as i8)]);
}

#[test]
fn low_precision_is_summed_in_f32() {
    let ones = vec![1.0; 1000];
    for dtype in [Type::F16, Type::BF16] {
        let operands = [tensor(dtype, &[1000], &ones), tensor(dtype, &[1000], &ones)];
        let sum = run(Op::Dot(dot(&[0], &[], &[0], &[])), &operands, &ty(dtype, &[]));
        assert_eq!(numbers(&sum), [1000.], "{dtype}");
    }
}

#[test]
fn refuses_what_does_not_fit() {
    let (a, b) = (iota(Type::F32, &[2, 3]), iota(Type::F32, &[3, 4]));
    let cases = [
        (dot(&[0], &[], &[0], &[]), vec![2usize, 4]),
        (dot(&[2], &[], &[0], &[]), vec![2, 4]),
        (dot(&[1, 1], &[], &[0, 0], &[]), vec![2, 4]),
        (dot(&[1], &[1], &[0], &[0]), vec![2, 4]),
        (dot(&[1], &[0], &[0], &[]), vec![2, 4]),
        (dot(&[1], &[], &[0], &[]), vec![4, 2]),
    ];
    for (attrs, out) in cases {
        let message = error(Op::Dot(attrs), &[a.clone(), b.clone()], &ty(Type::F32, &out));
        assert!(message.starts_with("dot: "), "{message}");
    }
}

#[test]
fn gradients_flow_through() {
    for (attrs, a_shape, b_shape) in cases() {
        let (a, b) = (noise(3, a_shape.iter().product(), 5), noise(4, b_shape.iter().product(), 5));
        let (shape, _) = by_loops(&attrs, &a, a_shape, &b, b_shape);
        if !shape.contains(&0) && !a_shape.contains(&0) {
            let operands = [tensor(Type::F64, a_shape, &a), tensor(Type::F64, b_shape, &b)];
            check_gradients(Op::Dot(attrs), &operands, &shape);
        }
    }
}

#[test]
fn a_product_does_not_depend_on_the_number_of_cores() {
    let shapes = [
        [300, 500, 200],
        [1, 3000, 1000],
        [40, 700, 900],
        [129, 400, 513],
        [129, 3000, 60],
        [2, 9000, 260],
        [64, 600, 130],
        [32, 784, 256],
        [20, 1000, 300],
    ];
    let batches = [[2, 8, 1024, 300], [3, 1, 1024, 1024], [5, 16, 784, 400]];
    for [count, rows, inner, columns] in
        shapes.map(|[rows, inner, columns]| [1, rows, inner, columns]).into_iter().chain(batches)
    {
        let noise = |i: usize| f64::from((i as f32 * 0.618).sin());
        let matrix = |rows: usize, columns: usize| {
            let numbers: Vec<f64> = (0..count * rows * columns).map(noise).collect();
            tensor(Type::F32, &[count, rows, columns], &numbers)
        };
        let (a, b) = (matrix(rows, inner), matrix(inner, columns));
        let product = |cores: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(cores).build().unwrap();
            let op = Op::Dot(dot(&[2], &[0], &[1], &[0]));
            pool.install(|| numbers(&run(op, &[a.clone(), b.clone()], &ty(Type::F32, &[count, rows, columns]))))
        };
        let one = product(1);
        let alike = [2, 3, 8].into_iter().all(|cores| product(cores) == one);
        assert!(alike, "{count} of {rows} x {inner} x {columns}");
    }
}

/// Every number of rows up to where larger products begin, beside columns that do and do not fill the processor's vectors.
#[test]
fn products_of_few_rows_follow_the_definition() {
    let layouts = [(1, 0), (1, 1), (0, 0), (0, 1)];
    for rows in (1..=20).chain([31, 63, 64, 65]) {
        for columns in [1, 3, 8, 16, 24, 33, 64, 75, 129] {
            for inner in [1, 2, 17, 70] {
                let (left, right) = layouts[(rows + columns + inner) % 4];
                let op = dot(&[left], &[], &[right], &[]);
                let a_shape = if left == 1 { [rows, inner] } else { [inner, rows] };
                let b_shape = if right == 0 { [inner, columns] } else { [columns, inner] };
                let (a, b) = (noise(1, rows * inner, 5), noise(2, inner * columns, 5));
                let (shape, want) = by_loops(&op, &a, &a_shape, &b, &b_shape);
                for dtype in [Type::F32, Type::F64] {
                    let operands = [tensor(dtype, &a_shape, &a), tensor(dtype, &b_shape, &b)];
                    let got = run(Op::Dot(op.clone()), &operands, &ty(dtype, &shape));
                    assert_eq!(numbers(&got), want, "{rows} rows, {inner} inner, {columns} columns, {op:?}, {dtype}");
                }
            }
        }
    }
}

/// Rows of a power of two of bytes, whose elements of a column meet in a cache.
#[test]
fn products_of_few_rows_and_wide_matrices_follow_the_definition() {
    for (rows, columns) in [(7, 1024), (9, 1024), (20, 512), (33, 1040), (12, 2048)] {
        let op = dot(&[1], &[], &[0], &[]);
        let (a_shape, b_shape) = ([rows, 19], [19, columns]);
        let (a, b) = (noise(1, rows * 19, 5), noise(2, 19 * columns, 5));
        let (shape, want) = by_loops(&op, &a, &a_shape, &b, &b_shape);
        for dtype in [Type::F32, Type::F64] {
            let operands = [tensor(dtype, &a_shape, &a), tensor(dtype, &b_shape, &b)];
            let got = run(Op::Dot(op.clone()), &operands, &ty(dtype, &shape));
            assert_eq!(numbers(&got), want, "{rows} rows, {columns} columns, {dtype}");
        }
    }
}

/// Sizes at which a matrix is shared out by its lines, or an operand is brought in order or turned first.
#[test]
fn large_products_of_all_layouts_follow_the_definition() {
    for [rows, inner, columns] in [[32, 784, 100], [9, 1100, 300], [20, 401, 600], [16, 128, 260], [520, 130, 260]] {
        let (a, b) = (noise(1, rows * inner, 5), noise(2, inner * columns, 5));
        let element = |i: usize, j: usize| (0..inner).map(|k| a[i * inner + k] * b[k * columns + j]).sum::<f64>();
        let want: Vec<f64> = (0..rows * columns).map(|place| element(place / columns, place % columns)).collect();
        let turned = |numbers: &[f64], rows: usize, columns: usize| -> Vec<f64> {
            (0..rows * columns).map(|place| numbers[place % rows * columns + place / rows]).collect()
        };
        let lefts = [(1, [rows, inner], a.clone()), (0, [inner, rows], turned(&a, rows, inner))];
        let rights = [(0, [inner, columns], b.clone()), (1, [columns, inner], turned(&b, inner, columns))];
        for (left, a_shape, a) in &lefts {
            for (right, b_shape, b) in &rights {
                for dtype in [Type::F32, Type::F64] {
                    let op = Op::Dot(dot(&[*left], &[], &[*right], &[]));
                    let operands = [tensor(dtype, a_shape, a), tensor(dtype, b_shape, b)];
                    let got = numbers(&run(op, &operands, &ty(dtype, &[rows, columns])));
                    assert_eq!(got, want, "{rows} rows, {inner} inner, {columns} columns, {left}, {right}, {dtype}");
                }
            }
        }
    }
}

/// A sum starts from 0, so only a product of no terms but negative zeros tells whether one was left out.
#[test]
fn sums_of_negative_zeros_are_zero() {
    for rows in [1, 2, 3, 8, 31, 64, 65, 130] {
        for columns in [1, 3, 16, 33, 64, 129, 600] {
            for inner in [1, 2, 3, 17, 1100] {
                for (left, right) in [(1, 0), (1, 1), (0, 0), (0, 1)] {
                    let op = dot(&[left], &[], &[right], &[]);
                    let a_shape = if left == 1 { [rows, inner] } else { [inner, rows] };
                    let b_shape = if right == 0 { [inner, columns] } else { [columns, inner] };
                    for dtype in [Type::F32, Type::F64] {
                        let zeros = tensor(dtype, &a_shape, &vec![-0.0; rows * inner]);
                        let ones = tensor(dtype, &b_shape, &vec![1.0; inner * columns]);
                        let got = run(Op::Dot(op.clone()), &[zeros, ones], &ty(dtype, &[rows, columns]));
                        let is_zero = |x: &f64| *x == 0.0 && x.is_sign_positive();
                        let case = format!("{rows} rows, {inner} inner, {columns} columns, {left}, {right}, {dtype}");
                        assert!(numbers(&got).iter().all(is_zero), "{case}");
                    }
                }
            }
        }
    }
}
