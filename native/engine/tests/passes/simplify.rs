//! What the passes before fusion make of programs, in their text form.

use ex_burn_engine::program::{Axes, Binary, Dot, Fold, Iota, Op, Program, Unary, While};
use ex_burn_engine::{Type, passes};

use crate::builder::{Builder, same};
use crate::tools::{iota, numbers, tensor, ty};

const F32: Type = Type::F32;

/// The text of a program after one pass alone.
fn after(pass: &str, program: &Program) -> String {
    let others: Vec<String> = passes::names().filter(|name| *name != pass).map(String::from).collect();
    passes::optimise(program, &others).expect("a valid program").to_string()
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).collect()
}

#[test]
fn constants_are_folded() {
    let mut b = Builder::new(&[ty(F32, &[2])]);
    let (two, three) = (b.constant(F32, 2.0), b.constant(F32, 3.0));
    let six = b.binary(Binary::Multiply, two, three);
    let spread = b.broadcast(six, &[2], &[]);
    let out = b.binary(Binary::Add, spread, 0);
    let program = b.finish(&[out]);
    let text = after("constant_folding", &program);
    assert!(text.contains("%4: f32[2] = constant() {6.0}\n  %5: f32[2] = add(%4, %0)"), "{text}");
    assert_eq!(numbers(&same(&program, &[tensor(F32, &[2], &[1.0, -6.0])])[0]), [7.0, 0.0]);
}

#[test]
fn identities_hold_for_every_number() {
    let mut b = Builder::new(&[ty(F32, &[3])]);
    let (zero, one) = (b.constant(F32, 0.0), b.constant(F32, 1.0));
    let kept = b.emit(Op::Binary(Binary::Multiply), &[one, 0], ty(F32, &[3]));
    let plus = b.emit(Op::Binary(Binary::Add), &[kept, zero], ty(F32, &[3]));
    let minus = b.binary(Binary::Subtract, kept, zero);
    let negative = b.unary(Unary::Negate, minus);
    let twice = b.unary(Unary::Negate, negative);
    let program = b.finish(&[plus, twice]);
    // -0 + 0 is 0, so the sum stays.
    let text = after("algebraic", &program);
    let text = lines(&text);
    assert!(text.contains(&"%3: f32[3] = add(%0, %1)") && text.contains(&"return %3, %0"), "{text:?}");
    let got = same(&program, &[tensor(F32, &[3], &[-0.0, f64::NAN, 1.5])]);
    assert!(numbers(&got[0])[0].is_sign_positive() && numbers(&got[1])[0].is_sign_negative());
}

#[test]
fn small_powers_are_products() {
    let mut b = Builder::new(&[ty(F32, &[4]), ty(Type::S32, &[4])]);
    let (two, three) = (b.constant(Type::S32, 2.0), b.constant(F32, 3.0));
    let square = b.binary(Binary::Pow, 0, two);
    let cube = b.binary(Binary::Pow, 0, three);
    let whole = b.binary(Binary::Pow, 1, two);
    let program = b.finish(&[square, cube, whole]);
    let text = after("algebraic", &program);
    assert!(!text.contains("pow"), "{text}");
    let inputs = [tensor(F32, &[4], &[-2.0, 0.5, 0.0, 3.0]), tensor(Type::S32, &[4], &[-3.0, 0.0, 1.0, 65536.0])];
    let got = crate::builder::run(&crate::builder::optimised(&program, &[]), &inputs);
    assert_eq!(numbers(&got[0]), [4.0, 0.25, 0.0, 9.0]);
    assert_eq!(numbers(&got[1]), [-8.0, 0.125, 0.0, 27.0]);
    assert_eq!(numbers(&got[2]), [9.0, 0.0, 1.0, 0.0]);
}

#[test]
fn error_functions_of_quotients_are_those_of_products() {
    let mut b = Builder::new(&[ty(F32, &[6])]);
    let root = b.constant(F32, std::f64::consts::SQRT_2);
    let scaled = b.binary(Binary::Divide, 0, root);
    let erf = b.unary(Unary::Erf, scaled);
    let program = b.finish(&[erf]);
    let text = after("algebraic", &program);
    assert!(
        text.contains("constant() {0.707106") && text.contains("multiply(%0, %3)") && text.contains("erf(%4)"),
        "{text}"
    );
    let xs = [0.0, 1.0, -1.0, 2.0, f64::INFINITY, f64::NAN];
    let got = crate::builder::run(&crate::builder::optimised(&program, &[]), &[tensor(F32, &[6], &xs)]);
    // How much of a normal distribution is within one and two of its standard deviations.
    let expected = [0.0, 0.682_689_492_137_086, -0.682_689_492_137_086, 0.954_499_736_103_642, 1.0];
    assert!(numbers(&got[0]).iter().zip(expected).all(|(r, e)| (r - e).abs() <= 1.2e-7 * e.abs()), "{got:?}");
    assert!(numbers(&got[0])[5].is_nan());
}

#[test]
fn what_is_computed_twice_is_computed_once() {
    let mut b = Builder::new(&[ty(F32, &[2])]);
    let (first, second) = (b.unary(Unary::Exp, 0), b.unary(Unary::Exp, 0));
    let out = b.binary(Binary::Add, first, second);
    let program = b.finish(&[out]);
    assert_eq!(
        lines(&after("cse", &program)),
        ["program(%0: f32[2])", "%1: f32[2] = exp(%0)", "%2: f32[2] = add(%1, %1)", "return %2"]
    );
    same(&program, &[tensor(F32, &[2], &[1.0, 2.0])]);
}

#[test]
fn what_nobody_reads_is_not_computed() {
    let mut b = Builder::new(&[ty(F32, &[2])]);
    let unread = b.unary(Unary::Exp, 0);
    b.unary(Unary::Sin, unread);
    let out = b.unary(Unary::Cos, 0);
    let program = b.finish(&[out]);
    assert_eq!(lines(&after("dead_code", &program)), ["program(%0: f32[2])", "%1: f32[2] = cos(%0)", "return %1"]);
}

#[test]
fn transposes_go_into_contractions_and_reductions() {
    let mut b = Builder::new(&[ty(F32, &[2, 3]), ty(F32, &[4, 3])]);
    let turn =
        |b: &mut Builder, x, shape: &[usize]| b.emit(Op::Transpose(Axes { axes: vec![1, 0] }), &[x], ty(F32, shape));
    let right = turn(&mut b, 1, &[3, 4]);
    let attrs = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
    let product = b.emit(Op::Dot(attrs), &[0, right], ty(F32, &[2, 4]));
    let turned = turn(&mut b, product, &[4, 2]);
    // Read twice, so that the product stays as it is.
    let rows = b.reduce(Fold::Sum, product, &[0], false);
    let sum = b.reduce(Fold::Sum, turned, &[0], false);
    let program = b.finish(&[sum, rows]);
    let text = after("layout", &program);
    assert!(
        text.contains("dot(%0, %1) {lhs_batch: [], lhs_contract: [1], rhs_batch: [], rhs_contract: [1]}"),
        "{text}"
    );
    assert!(text.contains("= sum(%3) {axes: [1], keep_axes: false}"), "{text}");
    // Rows of 0..6 by columns of 0..12, summed: 0..3 meets 3i..3i+3.
    let got = same(&program, &[iota(F32, &[2, 3]), iota(F32, &[4, 3])]);
    assert_eq!(numbers(&got[0]), [74.0, 272.0]);
}

#[test]
fn a_transposed_product_is_that_of_the_exchanged_operands() {
    let mut b = Builder::new(&[ty(F32, &[2, 3]), ty(F32, &[3, 4])]);
    let attrs = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
    let product = b.emit(Op::Dot(attrs), &[0, 1], ty(F32, &[2, 4]));
    let turned = b.emit(Op::Transpose(Axes { axes: vec![1, 0] }), &[product], ty(F32, &[4, 2]));
    let program = b.finish(&[turned]);
    let text = after("layout", &program);
    assert!(
        text.contains("dot(%1, %0) {lhs_batch: [], lhs_contract: [0], rhs_batch: [], rhs_contract: [1]}\n  return %3"),
        "{text}"
    );
    let got = same(&program, &[iota(F32, &[2, 3]), iota(F32, &[3, 4])]);
    assert_eq!(numbers(&got[0]), [20.0, 56.0, 23.0, 68.0, 26.0, 80.0, 29.0, 92.0]);
}

#[test]
fn numbers_along_an_axis_take_no_memory() {
    let b = {
        let mut b = Builder::new(&[]);
        b.emit(Op::Iota(Iota { axis: Some(1) }), &[], ty(Type::S64, &[2, 3]));
        b.finish(&[0])
    };
    assert!(after("layout", &b).contains("broadcast(%0) {axes: [1]}"));
    assert_eq!(numbers(&same(&b, &[])[0]), [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
}

/// Adds exp(capture) to the first state until the counter is 3; the third state stays as it is.
fn looping(count: f64) -> Program {
    let types = [ty(F32, &[2]), ty(Type::S32, &[]), ty(F32, &[2]), ty(F32, &[2])];
    let mut condition = Builder::new(&types);
    let limit = condition.constant(Type::S32, count);
    let less = condition.emit(Op::Binary(Binary::Less), &[1, limit], ty(Type::U8, &[]));
    let mut body = Builder::new(&types);
    let exp = body.unary(Unary::Exp, 3);
    let scaled = body.binary(Binary::Multiply, exp, 2);
    let sum = body.binary(Binary::Add, 0, scaled);
    let one = body.constant(Type::S32, 1.0);
    let next = body.binary(Binary::Add, 1, one);
    let (condition, body) = (condition.finish(&[less]), body.finish(&[sum, next, 2]));
    let mut program = Program { inputs: types.to_vec(), ..Program::default() };
    program.instructions.push(ex_burn_engine::program::Instruction {
        op: Op::While(While { condition, body }),
        inputs: vec![0, 1, 2, 3],
        outputs: types[..3].to_vec(),
    });
    Program { outputs: vec![4, 5, 6], ..program }
}

#[test]
fn what_stays_from_iteration_to_iteration_is_computed_before() {
    let text = after("hoisting", &looping(3.0));
    let text = lines(&text);
    assert_eq!(text[1..3], ["%4: f32[2] = exp(%3)", "%5: f32[2] = multiply(%4, %2)"], "{text:?}");
    let inputs = [
        tensor(F32, &[2], &[1.0, 2.0]),
        tensor(Type::S32, &[], &[0.0]),
        tensor(F32, &[2], &[1.0, 10.0]),
        tensor(F32, &[2], &[0.0, 0.0]),
    ];
    for (count, want) in [(3.0, [4.0, 32.0]), (0.0, [1.0, 2.0])] {
        let got = same(&looping(count), &inputs);
        assert_eq!(numbers(&got[0]), want);
        assert_eq!(numbers(&got[2]), [1.0, 10.0]);
    }
}

#[test]
fn unknown_names_are_refused_with_those_that_are_known() {
    let program = Builder::new(&[ty(F32, &[2])]).finish(&[0]);
    let error = passes::optimise(&program, &["magic".to_string()]).expect_err("no such pass").to_string();
    assert!(error.contains("magic") && error.contains("fusion"), "{error}");
}
