//! Tables that regions read, and regions of which elements are taken: what runs as one, and what it answers.

use ex_burn_engine::exec::Plan;
use ex_burn_engine::program::{Axes, Axis, Binary, Fold, Iota, Op, Program, Unary};
use ex_burn_engine::{Device, Type, Value};

use crate::builder::{Builder, names, optimised, run, same};
use crate::functions::log_softmax;
use crate::tools::{assert_close, noise, numbers, tensor, ty};

const F64: Type = Type::F64;

fn random(dtype: Type, seed: u64, shape: &[usize]) -> Value {
    let noise = noise(seed, shape.iter().product(), 1000);
    tensor(dtype, shape, &noise.into_iter().map(|n| n / 400.0).collect::<Vec<_>>())
}

fn error(program: &Program, inputs: &[Value]) -> String {
    let plan = Plan::new(program).expect("a valid program");
    plan.run(inputs.to_vec(), &Device::Cpu).expect_err("a wrong index").to_string()
}

/// The negative logarithms of the probabilities of targets.
fn loss(shape: [usize; 2], picks: usize) -> Program {
    let mut b = Builder::new(&[ty(F64, &shape), ty(Type::S64, &[shape[0], picks])]);
    let logs = log_softmax(&mut b);
    let taken = b.emit(Op::TakeAlongAxis(Axis { axis: 1 }), &[logs, 1], ty(F64, &[shape[0], picks]));
    let loss = b.unary(Unary::Negate, taken);
    b.finish(&[loss])
}

#[test]
fn a_loss_of_integer_targets_is_one_operation() {
    for ([rows, length], picks) in [([6, 10], 1), ([6, 10], 3), ([4000, 17], 1), ([3, 16_000], 2)] {
        let program = loss([rows, length], picks);
        assert_eq!(names(&optimised(&program, &[])), ["blocked", "negate"]);
        for (switch, region) in [("pattern:cross_entropy", "subtract"), ("patterns", "fused")] {
            let apart = [region, "take_along_axis", "negate"].map(String::from);
            assert_eq!(names(&optimised(&program, &[switch])).last_chunk(), Some(&apart));
        }
        let x = random(F64, 1, &[rows, length]);
        let targets: Vec<f64> = (0..rows * picks).map(|i| (i * 7 % length) as f64).collect();
        let got = same(&program, &[x.clone(), tensor(Type::S64, &[rows, picks], &targets)]);
        let rows: Vec<Vec<f64>> = numbers(&x).chunks(length).map(<[f64]>::to_vec).collect();
        let total = |row: &[f64]| row.iter().map(|x| x.exp()).sum::<f64>().ln();
        let totals: Vec<f64> = rows.iter().map(|row| total(row)).collect();
        let of = |(i, &target): (usize, &f64)| totals[i / picks] - rows[i / picks][target as usize];
        assert_close("loss", &numbers(&got[0]), &targets.iter().enumerate().map(of).collect::<Vec<_>>(), 1e-9);
    }
}

#[test]
fn a_target_that_is_none_is_refused_by_the_operation_that_takes_it() {
    let program = loss([6, 10], 1);
    for target in [-1.0, 10.0] {
        let targets = tensor(Type::S64, &[6, 1], &[0.0, 1.0, 2.0, target, 4.0, 5.0]);
        let inputs = [random(F64, 2, &[6, 10]), targets];
        let message = error(&optimised(&program, &[]), &inputs);
        assert_eq!(message, error(&program, &inputs));
        assert!(message.contains("take_along_axis") && message.contains(&format!("{target}")), "{message}");
    }
}

#[test]
fn logarithms_that_others_read_are_made_whole() {
    let mut program = loss([6, 10], 1);
    let logs = program.instructions.iter().rev().find_map(|i| match i.op {
        Op::TakeAlongAxis(_) => Some(i.inputs[0]),
        _ => None,
    });
    program.outputs.extend(logs);
    assert_eq!(names(&optimised(&program, &[]))[..2], ["fused", "take_along_axis"]);
    let got = same(&program, &[random(F64, 3, &[6, 10]), tensor(Type::S64, &[6, 1], &[0.0; 6])]);
    let first: Vec<f64> = numbers(&got[1]).chunks(10).map(|row| -row[0]).collect();
    assert_eq!(numbers(&got[0]), first);
}

#[test]
fn targets_that_are_compared_with_numbers_are_a_part_of_the_region() {
    let mut b = Builder::new(&[ty(F64, &[6, 10]), ty(Type::S64, &[6, 1])]);
    let logs = log_softmax(&mut b);
    let places = b.emit(Op::Iota(Iota { axis: Some(1) }), &[], ty(Type::S64, &[6, 10]));
    let is_target = b.emit(Op::Binary(Binary::Equal), &[places, 1], ty(Type::U8, &[6, 10]));
    let product = b.binary(Binary::Multiply, logs, is_target);
    let sum = b.reduce(Fold::Sum, product, &[1], false);
    let loss = b.unary(Unary::Negate, sum);
    let program = b.finish(&[loss]);
    let works: Vec<_> = names(&optimised(&program, &[])).into_iter().filter(|name| name != "broadcast").collect();
    assert_eq!(works, ["iota", "fused"]);
    let (x, targets) = (random(F64, 4, &[6, 10]), [9.0, 0.0, 3.0, 3.0, 7.0, 1.0]);
    let got = same(&program, &[x.clone(), tensor(Type::S64, &[6, 1], &targets)]);
    let rows = numbers(&x);
    let of = |(row, target): (&[f64], &f64)| row.iter().map(|x| x.exp()).sum::<f64>().ln() - row[*target as usize];
    let want: Vec<f64> = rows.chunks(10).zip(&targets).map(of).collect();
    assert_close("loss", &numbers(&got[0]), &want, 1e-9);
}

/// Rows of a table with a weight for each, less their means.
fn embedding(dtype: Type, [length, size]: [usize; 2], count: usize) -> Program {
    let mut b = Builder::new(&[ty(dtype, &[length, size]), ty(Type::S32, &[2, count]), ty(dtype, &[count, size])]);
    let rows = b.emit(Op::Take(Axis { axis: 0 }), &[0, 1], ty(dtype, &[2, count, size]));
    let sum = b.binary(Binary::Add, rows, 2);
    let total = b.reduce(Fold::Sum, sum, &[2], true);
    let length = b.constant(dtype, size as f64);
    let mean = b.binary(Binary::Divide, total, length);
    let centred = b.binary(Binary::Subtract, sum, mean);
    b.finish(&[centred])
}

#[test]
fn rows_of_a_table_go_into_a_region_as_they_are_read() {
    for (dtype, tolerance) in [(F64, 1e-10), (Type::F32, 1e-4), (Type::BF16, 0.1)] {
        for ([length, size], count) in [([20, 8], 5), ([300, 64], 700)] {
            let program = embedding(dtype, [length, size], count);
            assert_eq!(names(&optimised(&program, &[])).last().map(String::as_str), Some("blocked"));
            assert!(!names(&optimised(&program, &["pattern:embedding"])).contains(&"blocked".to_string()));
            let places: Vec<f64> = (0..2 * count).map(|i| (i * 13 % length) as f64).collect();
            let inputs = [
                random(dtype, 5, &[length, size]),
                tensor(Type::S32, &[2, count], &places),
                random(dtype, 6, &[count, size]),
            ];
            let got = same(&program, &inputs);
            let (table, weights) = (numbers(&inputs[0]), numbers(&inputs[2]));
            let row = |(i, &place): (usize, &f64)| {
                let row = &table[place as usize * size..][..size];
                let sums: Vec<f64> = row.iter().zip(&weights[i % count * size..]).map(|(x, w)| x + w).collect();
                let mean = sums.iter().sum::<f64>() / size as f64;
                sums.into_iter().map(move |x| x - mean).collect::<Vec<_>>()
            };
            let want: Vec<f64> = places.iter().enumerate().flat_map(row).collect();
            assert_close("embedding", &numbers(&got[0]), &want, tolerance);
        }
    }
}

#[test]
fn a_place_outside_of_a_table_is_refused_by_the_operation_that_takes_it() {
    let program = embedding(F64, [20, 8], 2);
    let places = tensor(Type::S32, &[2, 2], &[0.0, 19.0, 20.0, 3.0]);
    let inputs = [random(F64, 7, &[20, 8]), places, random(F64, 8, &[2, 8])];
    let message = error(&optimised(&program, &[]), &inputs);
    assert_eq!(message, error(&program, &inputs));
    assert!(message.contains("take") && message.contains("20"), "{message}");
}

#[test]
fn slices_along_other_axes_are_taken_whole() {
    let mut b = Builder::new(&[ty(F64, &[4, 9, 8]), ty(Type::S64, &[5])]);
    let taken = b.emit(Op::Take(Axis { axis: 1 }), &[0, 1], ty(F64, &[4, 5, 8]));
    let exp = b.unary(Unary::Exp, taken);
    let out = b.unary(Unary::Negate, exp);
    let program = b.finish(&[out]);
    assert_eq!(names(&optimised(&program, &[])), ["take", "fused"]);
    let places = [8.0, 0.0, 3.0, 3.0, 5.0];
    let inputs = [random(F64, 9, &[4, 9, 8]), tensor(Type::S64, &[5], &places)];
    let x = numbers(&inputs[0]);
    let at = |i: usize| -x[(i / 40 * 9 + places[i / 8 % 5] as usize) * 8 + i % 8].exp();
    assert_close("slices", &numbers(&same(&program, &inputs)[0]), &(0..160).map(at).collect::<Vec<_>>(), 1e-12);
    // A gather of rows is no table that a region reads.
    let mut b = Builder::new(&[ty(F64, &[9, 8]), ty(Type::S64, &[5, 1])]);
    let taken = b.emit(Op::Gather(Axes { axes: vec![0] }), &[0, 1], ty(F64, &[5, 8]));
    let exp = b.unary(Unary::Exp, taken);
    let out = b.unary(Unary::Negate, exp);
    let program = b.finish(&[out]);
    let inputs = [random(F64, 10, &[9, 8]), tensor(Type::S64, &[5, 1], &places)];
    assert_eq!(run(&optimised(&program, &[]), &inputs)[0].shape(), [5, 8]);
    same(&program, &inputs);
}
