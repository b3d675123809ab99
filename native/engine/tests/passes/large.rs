//! Programs of many operations, for which whatever looks at pairs of them takes too long.

use ex_burn_engine::Type;
use ex_burn_engine::program::{Binary, Dot, Fold, Op, Unary};

use crate::builder::{Builder, names, optimised, same};
use crate::tools::{noise, tensor, ty};

const F32: Type = Type::F32;

#[test]
fn what_has_thousands_of_operations_is_several_regions() {
    let mut b = Builder::new(&[ty(F32, &[5])]);
    let (mut out, mut sum) = (0, 0);
    for _ in 0..700 {
        out = b.unary(Unary::Sin, out);
        let cos = b.unary(Unary::Cos, out);
        sum = b.binary(Binary::Add, sum, cos);
    }
    let program = b.finish(&[out, sum]);
    assert_eq!(names(&optimised(&program, &[])), ["fused"; 5]);
    same(&program, &[tensor(F32, &[5], &noise(3, 5, 1))]);
}

#[test]
fn a_hundred_thousand_operations_compile() {
    let mut b = Builder::new(&[ty(F32, &[2, 4]), ty(F32, &[4, 4])]);
    let mut x = 0;
    for _ in 0..10_000 {
        let dot = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
        let product = b.emit(Op::Dot(dot), &[x, 1], ty(F32, &[2, 4]));
        let biased = b.binary(Binary::Add, product, 0);
        let max = b.reduce(Fold::Max, biased, &[1], true);
        let less = b.binary(Binary::Subtract, biased, max);
        let exp = b.unary(Unary::Exp, less);
        let sum = b.reduce(Fold::Sum, exp, &[1], true);
        let softmax = b.binary(Binary::Divide, exp, sum);
        let turned = b.reduce(Fold::Sum, softmax, &[0], true);
        let centred = b.binary(Binary::Subtract, softmax, turned);
        x = b.binary(Binary::Add, centred, x);
    }
    let program = b.finish(&[x]);
    let fused = names(&optimised(&program, &[])).into_iter().filter(|name| name == "fused").count();
    assert_eq!(fused, 20_000);
}
