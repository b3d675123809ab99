//! Products and convolutions of small whole numbers, of which every sum is exact, against loops over indices.

use super::*;
use ex_burn_engine::program::{Conv, Dot};

/// Whole numbers from -4 to 4.
fn whole(seed: u64, len: usize) -> Vec<f32> {
    let mut next = random(seed);
    (0..len).map(|_| (next() * 9.0).floor() as f32 - 4.0).collect()
}

/// Places along axes of some lengths, the last of which goes round first.
fn places(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> {
    let shape = shape.to_vec();
    (0..shape.iter().product::<usize>()).map(move |number| {
        let mut rest = number;
        let mut place: Vec<usize> = shape.iter().rev().map(|&length| (rest % length, rest /= length).0).collect();
        place.reverse();
        place
    })
}

fn at(shape: &[usize], place: &[usize]) -> usize {
    shape.iter().zip(place).fold(0, |at, (&length, &place)| at * length + place)
}

/// The batch, the rows, the contracted elements and the columns.
const SIZES: [[usize; 4]; 14] = [
    [1, 1, 1, 1],
    [3, 7, 4, 12],
    [2, 1, 100, 1],
    [1, 64, 16, 64],
    [2, 65, 17, 63],
    [1, 130, 9, 200],
    [1, 1, 1000, 1],
    [1, 3, 3000, 70],
    [1, 200, 700, 1],
    [40, 129, 8, 129],
    [70, 65, 24, 3],
    [70, 5, 24, 130],
    [130, 2, 3, 4],
    [1, 700, 33, 650],
];

#[test]
fn products_of_all_sizes() {
    let Some(gpu) = gpu() else { return };
    for (seed, [batch, rows, inner, columns]) in SIZES.into_iter().enumerate() {
        let lhs = whole(2 * seed as u64 + 1, batch * rows * inner);
        let rhs = whole(2 * seed as u64 + 2, batch * inner * columns);
        let expected: Vec<f64> = places(&[batch, rows, columns])
            .map(|place| {
                let [b, m, n] = place[..] else { unreachable!() };
                let term = |k| lhs[(b * rows + m) * inner + k] * rhs[(b * inner + k) * columns + n];
                (0..inner).map(|k| f64::from(term(k))).sum()
            })
            .collect();
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 1, 0]] {
            let (lhs, batch_axis, _, contract) = turned(&lhs, [batch, rows, inner], order);
            let (rhs, rhs_batch, rhs_contract, _) = turned(&rhs, [batch, inner, columns], order);
            let dot = Op::Dot(Dot {
                lhs_contract: vec![contract],
                lhs_batch: vec![batch_axis],
                rhs_contract: vec![rhs_contract],
                rhs_batch: vec![rhs_batch],
            });
            let out = TensorType::new(Type::F32, [batch, rows, columns]);
            let product = gpu.one(&dot, &[lhs, rhs], out);
            assert!(floats(&product) == expected, "{batch} of {rows} x {inner} x {columns} with axes {order:?}");
        }
    }
}

/// The tensor with its axes in another order, and where each of them is then.
fn turned(numbers: &[f32], shape: [usize; 3], order: [usize; 3]) -> (Value, usize, usize, usize) {
    let lengths = order.map(|axis| shape[axis]);
    let moved: Vec<f32> = places(&lengths)
        .map(|place| {
            let mut from = [0; 3];
            order.iter().zip(&place).for_each(|(&axis, &place)| from[axis] = place);
            numbers[at(&shape, &from)]
        })
        .collect();
    let to = |axis| order.iter().position(|&from| from == axis).unwrap();
    (singles(&lengths, &moved), to(0), to(1), to(2))
}

/// The elements of a product of matrices of `f32` that lie in rows, and the sums of the sizes of what is added up for each.
fn matrices(lhs: &[f32], rhs: &[f32], [rows, inner, columns]: [usize; 3]) -> Vec<(f64, f64)> {
    let term = |m: usize, n: usize, k: usize| f64::from(lhs[m * inner + k]) * f64::from(rhs[k * columns + n]);
    let sum = |place: Vec<usize>, f: fn(f64) -> f64| (0..inner).map(|k| f(term(place[0], place[1], k))).sum();
    places(&[rows, columns]).map(|place| (sum(place.clone(), |x| x), sum(place, f64::abs))).collect()
}

#[test]
fn small_products_have_twice_the_digits_until_they_are_rounded() {
    let Some(gpu) = gpu() else { return };
    let dot = Op::Dot(Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] });
    for (seed, sizes) in [[3, 3, 3], [16, 16, 16], [2, 128, 2], [9, 5, 20]].into_iter().enumerate() {
        let [rows, inner, columns] = sizes;
        let numbers = |seed: u64, len: usize| -> Vec<f32> {
            let mut next = random(seed);
            (0..len).map(|_| (next() - 0.5) as f32 * 10f32.powi((next() * 8.0) as i32 - 4)).collect()
        };
        let (lhs, mut rhs) = (numbers(seed as u64, rows * inner), numbers(seed as u64 + 9, inner * columns));
        // The last term takes away most of what the others come to in the first column.
        let others: f64 = (0..inner - 1).map(|k| f64::from(lhs[k]) * f64::from(rhs[k * columns])).sum();
        rhs[(inner - 1) * columns] = (-others / f64::from(lhs[inner - 1])) as f32;
        let product = gpu.one(
            &dot,
            &[singles(&[rows, inner], &lhs), singles(&[inner, columns], &rhs)],
            TensorType::new(Type::F32, [rows, columns]),
        );
        for (got, (sum, size)) in floats(&product).into_iter().zip(matrices(&lhs, &rhs, sizes)) {
            let near = f64::from(f32::EPSILON) * sum.abs() / 2.0 + 2f64.powi(-42) * size;
            assert!((got - sum).abs() <= near, "{sizes:?}: {got} for {sum}");
        }
    }
}

#[test]
fn small_products_of_narrow_floats_are_rounded_once() {
    let Some(gpu) = gpu() else { return };
    let dot = Op::Dot(Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] });
    // Above the middle of 1 and the next number by less than an `f32` there shows.
    let (lhs, rhs) = ([1.0, 1.0, 1e-3, 1.0, 1.0, -1e-3], [1.0, 4.8828125e-4, 2e-6]);
    let (lhs, rhs) = (typed(Type::F16, &[2, 3], &lhs), typed(Type::F16, &[3, 1], &rhs));
    let product = gpu.one(&dot, &[lhs, rhs], TensorType::new(Type::F16, [2, 1]));
    assert_eq!(floats(&product), [1.0009765625, 1.0]);
    // What the first product is rounded by is a quarter of what is left of it.
    let (lhs, rhs) = (typed(Type::F8, &[1, 2], &[1.25, -1.25]), singles(&[2, 1], &[1.0 + f32::EPSILON, 1.0]));
    let product = gpu.one(&dot, &[lhs, rhs], TensorType::new(Type::F32, [1, 1]));
    assert_eq!(floats(&product), [1.25 * f64::from(f32::EPSILON)]);
}

#[test]
fn products_of_integers_and_floats_are_of_floats() {
    let Some(gpu) = gpu() else { return };
    let dot = Op::Dot(Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] });
    for [rows, inner, columns] in [[3, 4, 5], [20, 30, 40]] {
        let (lhs, rhs) = (whole(1, rows * inner), whole(2, inner * columns));
        let expected: Vec<f64> = matrices(&lhs, &rhs, [rows, inner, columns]).into_iter().map(|(sum, _)| sum).collect();
        for dtype in [Type::S8, Type::S32] {
            let inputs = [typed(dtype, &[rows, inner], &lhs), singles(&[inner, columns], &rhs)];
            let product = gpu.one(&dot, &inputs, TensorType::new(Type::F32, [rows, columns]));
            assert_eq!(floats(&product), expected, "{dtype}");
        }
    }
}

#[test]
fn small_products_of_tiny_numbers_are_the_nearest() {
    let Some(gpu) = gpu() else { return };
    let dot = Op::Dot(Dot { lhs_contract: vec![0], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] });
    for x in [1.2345678e-19f32, 3.3333e-17, 7.1e-16] {
        let product = gpu.one(&dot, &[singles(&[1], &[x]), singles(&[1], &[x])], TensorType::new(Type::F32, []));
        assert_eq!(floats(&product), [f64::from((f64::from(x) * f64::from(x)) as f32)]);
    }
}

#[test]
fn small_products_of_what_is_no_number() {
    let Some(gpu) = gpu() else { return };
    let dot = Op::Dot(Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] });
    let lhs = singles(&[3, 2], &[f32::INFINITY, 1.0, f32::NAN, 1.0, 3e38, 3e38]);
    let rhs = singles(&[2, 2], &[1.0, -1.0, 2.0, f32::INFINITY]);
    let product = floats(&gpu.one(&dot, &[lhs, rhs], TensorType::new(Type::F32, [3, 2])));
    assert_eq!([product[0], product[4], product[5]], [f64::INFINITY; 3]);
    assert!([product[1], product[2], product[3]].iter().all(|x| x.is_nan()), "{product:?}");
}

#[test]
fn products_of_narrow_floats_are_rounded_once() {
    let Some(gpu) = gpu() else { return };
    for dtype in [Type::BF16, Type::F16] {
        let (lhs, rhs) = (typed(dtype, &[33, 300], &whole(1, 33 * 300)), typed(dtype, &[300, 20], &whole(2, 300 * 20)));
        let wide = [&lhs, &rhs].map(floats);
        let sums: Vec<f32> = places(&[33, 20])
            .map(|place| (0..300).map(|k| wide[0][place[0] * 300 + k] * wide[1][k * 20 + place[1]]).sum::<f64>() as f32)
            .collect();
        let dot = Op::Dot(Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] });
        let product = gpu.one(&dot, &[lhs, rhs], TensorType::new(dtype, [33, 20]));
        assert_eq!(floats(&product), floats(&typed(dtype, &[33, 20], &sums)), "{dtype}");
    }
}

/// A convolution by its attributes, with lengths of the input and the kernel in the order of their roles.
struct Case {
    input: Vec<usize>,
    kernel: Vec<usize>,
    attrs: Conv,
}

fn case(input: &[usize], kernel: &[usize]) -> Case {
    let attrs = Conv::plain(input.len() - 2);
    Case { input: input.to_vec(), kernel: kernel.to_vec(), attrs }
}

fn cases() -> Vec<Case> {
    let mut plain = case(&[3, 4, 9, 8], &[16, 4, 3, 3]);
    plain.attrs.padding = vec![[1, 1], [1, 1]];
    let mut spread = case(&[2, 8, 9, 8], &[24, 4, 3, 2]);
    spread.attrs = Conv {
        strides: vec![2, 1],
        padding: vec![[2, -1], [-1, 3]],
        input_dilation: vec![2, 3],
        kernel_dilation: vec![2, 1],
        feature_group_size: 2,
        ..spread.attrs
    };
    let mut last = case(&[2, 4, 9, 8], &[70, 4, 3, 3]);
    last.attrs.input_permutation = vec![0, 3, 1, 2];
    last.attrs.kernel_permutation = vec![3, 2, 0, 1];
    last.attrs.output_permutation = vec![0, 3, 1, 2];
    let mut mixed = case(&[2, 4, 9, 8], &[9, 4, 3, 3]);
    mixed.attrs.input_permutation = vec![3, 0, 2, 1];
    mixed.attrs.kernel_permutation = vec![1, 3, 2, 0];
    mixed.attrs.output_permutation = vec![2, 1, 3, 0];
    let line = case(&[5, 3, 70], &[8, 3, 5]);
    let mut solid = case(&[2, 3, 5, 6, 4], &[9, 3, 2, 3, 1]);
    solid.attrs.strides = vec![1, 2, 3];
    let gradient = case(&[4, 20, 16, 16], &[33, 20, 14, 14]);
    vec![plain, spread, last, mixed, line, solid, gradient]
}

#[test]
fn convolutions_as_products() {
    let Some(gpu) = gpu() else { return };
    for (seed, Case { input, kernel, attrs }) in cases().into_iter().enumerate() {
        let x = whole(2 * seed as u64 + 1, input.iter().product());
        let weights = whole(2 * seed as u64 + 2, kernel.iter().product());
        let out = lengths(&input, &kernel, &attrs);
        let expected: Vec<f32> =
            places(&out).map(|place| element(&x, &weights, &input, &kernel, &attrs, &place)).collect();
        let by_role = |permutation: &[usize], shape: &[usize], numbers: &[f32]| {
            let mut lengths = vec![0; shape.len()];
            permutation.iter().zip(shape).for_each(|(&axis, &length)| lengths[axis] = length);
            let number = |place: Vec<usize>| {
                let roles: Vec<usize> = permutation.iter().map(|&axis| place[axis]).collect();
                numbers[at(shape, &roles)]
            };
            singles(&lengths, &places(&lengths).map(number).collect::<Vec<_>>())
        };
        let inputs =
            [by_role(&attrs.input_permutation, &input, &x), by_role(&attrs.kernel_permutation, &kernel, &weights)];
        let expected = by_role(&attrs.output_permutation, &out, &expected);
        let result = gpu.one(&Op::Conv(attrs.clone()), &inputs, expected.ty());
        assert!(floats(&result) == floats(&expected), "{attrs:?} of {input:?} by {kernel:?}");
    }
}

/// The lengths of the result, in the order of its roles.
fn lengths(input: &[usize], kernel: &[usize], attrs: &Conv) -> Vec<usize> {
    let windows = (0..input.len() - 2).map(|axis| {
        let length = (input[2 + axis] - 1) * attrs.input_dilation[axis] + 1;
        let seen = (kernel[2 + axis] - 1) * attrs.kernel_dilation[axis] + 1;
        let [low, high] = attrs.padding[axis];
        (length as i64 + low + high - seen as i64) as usize / attrs.strides[axis] + 1
    });
    [input[0], kernel[0]].into_iter().chain(windows).collect()
}

/// One element of the result.
fn element(x: &[f32], weights: &[f32], input: &[usize], kernel: &[usize], attrs: &Conv, place: &[usize]) -> f32 {
    let group = place[1] / (kernel[0] / attrs.feature_group_size);
    let term = |step: Vec<usize>| {
        let mut from = vec![place[0], group * kernel[1] + step[0]];
        for axis in 0..input.len() - 2 {
            let seen = place[2 + axis] * attrs.strides[axis] + step[1 + axis] * attrs.kernel_dilation[axis];
            let seen = seen as i64 - attrs.padding[axis][0];
            let gap = attrs.input_dilation[axis] as i64;
            if seen < 0 || seen % gap != 0 || seen / gap >= input[2 + axis] as i64 {
                return 0.0;
            }
            from.push((seen / gap) as usize);
        }
        x[at(input, &from)] * weights[at(kernel, &[&[place[1]], &step[..]].concat())]
    };
    places(&kernel[1..]).map(term).sum()
}
