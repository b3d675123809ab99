//! Sorts.

mod tools;

use std::slice::from_ref;

use ex_burn_engine::program::{Direction, Op, Sort, TopK};
use ex_burn_engine::{Device, Type, Value, exec};
use tools::*;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

fn sort(axis: usize, direction: Direction) -> Op {
    Op::Sort(Sort { axis, direction })
}

fn argsort(axis: usize, direction: Direction) -> Op {
    Op::Argsort(Sort { axis, direction })
}

fn top_k(k: usize, x: &Value, shape: &[usize]) -> [Value; 2] {
    let outputs = [ty(x.dtype(), shape), ty(Type::S32, shape)];
    let results = exec::instruction(&Op::TopK(TopK { k }), vec![x.clone()], &outputs, &Device::Cpu).expect("runs");
    results.try_into().expect("two results")
}

#[test]
fn nan_is_above_all_numbers() {
    let x = [2.0, NAN, -INF, INF, -1.0];
    for dtype in FLOATS {
        let x = vector(dtype, &x);
        let got = numbers(&run(sort(0, Direction::Asc), from_ref(&x), &ty(dtype, &[5])));
        assert_close("ascending", &got, &[-INF, -1.0, 2.0, INF, NAN], 0.0);
        let got = numbers(&run(sort(0, Direction::Desc), from_ref(&x), &ty(dtype, &[5])));
        assert_close("descending", &got, &[NAN, INF, 2.0, -1.0, -INF], 0.0);
        let got = numbers(&run(argsort(0, Direction::Asc), from_ref(&x), &ty(Type::S32, &[5])));
        assert_eq!(got, [2.0, 4.0, 0.0, 3.0, 1.0]);
        let got = numbers(&run(argsort(0, Direction::Desc), &[x], &ty(Type::S64, &[5])));
        assert_eq!(got, [1.0, 3.0, 0.0, 4.0, 2.0]);
    }
}

#[test]
fn equal_elements_keep_their_order_both_ways() {
    let x = vector(Type::S32, &[1.0, 0.0, 1.0, 0.0, 1.0]);
    let got = numbers(&run(argsort(0, Direction::Asc), from_ref(&x), &ty(Type::S32, &[5])));
    assert_eq!(got, [1.0, 3.0, 0.0, 2.0, 4.0]);
    let got = numbers(&run(argsort(0, Direction::Desc), &[x], &ty(Type::S32, &[5])));
    assert_eq!(got, [0.0, 2.0, 4.0, 1.0, 3.0]);
    let zeros = vector(Type::F32, &[0.0, -0.0, 0.0]);
    let got = numbers(&run(argsort(0, Direction::Asc), from_ref(&zeros), &ty(Type::S32, &[3])));
    assert_eq!(got, [0.0, 1.0, 2.0]);
    let signs: Vec<bool> = numbers(&run(sort(0, Direction::Desc), &[zeros], &ty(Type::F32, &[3])))
        .iter()
        .map(|x| x.is_sign_negative())
        .collect();
    assert_eq!(signs, [false, true, false]);
}

#[test]
fn any_axis_of_any_type_is_sorted() {
    for dtype in TYPES {
        let x = tensor(dtype, &[2, 3, 2], &[5.0, 1.0, 3.0, 2.0, 4.0, 0.0, 7.0, 9.0, 8.0, 6.0, 11.0, 10.0]);
        let sorted = |axis| numbers(&run(sort(axis, Direction::Asc), from_ref(&x), &ty(dtype, &[2, 3, 2])));
        assert_eq!(sorted(0), [5.0, 1.0, 3.0, 2.0, 4.0, 0.0, 7.0, 9.0, 8.0, 6.0, 11.0, 10.0]);
        assert_eq!(sorted(1), [3.0, 0.0, 4.0, 1.0, 5.0, 2.0, 7.0, 6.0, 8.0, 9.0, 11.0, 10.0]);
        assert_eq!(sorted(2), [1.0, 5.0, 2.0, 3.0, 0.0, 4.0, 7.0, 9.0, 6.0, 8.0, 10.0, 11.0]);
        let places = numbers(&run(argsort(1, Direction::Desc), &[x], &ty(Type::U8, &[2, 3, 2])));
        assert_eq!(places, [0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 2.0, 2.0, 1.0, 0.0, 0.0, 1.0]);
    }
    let extremes = integers(Type::U64, &[u64::MAX.into(), 0, 1 << 63]);
    assert_eq!(exact(&run(sort(0, Direction::Asc), &[extremes], &ty(Type::U64, &[3]))), [0, 1 << 63, u64::MAX.into()]);
}

#[test]
fn scalars_and_empty_tensors_are_sorted() {
    let scalar = tensor(Type::F32, &[], &[3.0]);
    assert_eq!(numbers(&run(sort(0, Direction::Asc), from_ref(&scalar), &ty(Type::F32, &[]))), [3.0]);
    assert_eq!(numbers(&run(argsort(0, Direction::Asc), &[scalar], &ty(Type::S32, &[]))), [0.0]);
    let empty = tensor(Type::F32, &[2, 0], &[]);
    assert_eq!(numbers(&run(sort(1, Direction::Asc), from_ref(&empty), &ty(Type::F32, &[2, 0]))), [0.0; 0]);
    assert_eq!(numbers(&run(sort(0, Direction::Desc), &[empty], &ty(Type::F32, &[2, 0]))), [0.0; 0]);
    let message = error(sort(1, Direction::Asc), &[vector(Type::F32, &[1.0])], &ty(Type::F32, &[1]));
    assert_eq!(message, "sort: axis 1 of a tensor of rank 1");
}

#[test]
fn long_lines_are_sorted() {
    let xs: Vec<f64> = noise(3, 100_000, 5000);
    let mut want: Vec<usize> = (0..xs.len()).collect();
    want.sort_by(|&a, &b| xs[a].total_cmp(&xs[b]).then(a.cmp(&b)));
    let got = run(argsort(0, Direction::Asc), &[vector(Type::F32, &xs)], &ty(Type::S32, &[xs.len()]));
    assert_eq!(numbers(&got), want.iter().map(|&i| i as f64).collect::<Vec<_>>());
}

#[test]
fn top_k_answers_the_largest_and_their_places() {
    let [values, places] = top_k(3, &vector(Type::F32, &[3.0, NAN, 1.0, INF, 3.0]), &[3]);
    assert_close("values", &numbers(&values), &[NAN, INF, 3.0], 0.0);
    assert_eq!(numbers(&places), [1.0, 3.0, 0.0]);
    let [values, places] = top_k(1, &tensor(Type::U8, &[2, 2], &[1.0, 2.0, 4.0, 3.0]), &[2, 1]);
    assert_eq!((numbers(&values), numbers(&places)), (vec![2.0, 4.0], vec![1.0, 0.0]));
    let [values, places] = top_k(0, &vector(Type::S32, &[1.0]), &[0]);
    assert_eq!((numbers(&values), numbers(&places)), (vec![], vec![]));
    let outputs = [ty(Type::F32, &[3]), ty(Type::S32, &[3])];
    let got = exec::instruction(&Op::TopK(TopK { k: 3 }), vec![vector(Type::F32, &[1.0])], &outputs, &Device::Cpu);
    assert_eq!(got.expect_err("too few").to_string(), "top_k: asks for 3 of 1 elements");
}

#[test]
fn gradients_go_back_to_their_elements() {
    let x = tensor(Type::F64, &[2, 3, 2], &[5.0, 1.0, 3.0, 2.0, 4.0, 0.0, 7.0, 9.0, 8.0, 6.0, 11.0, 10.0]);
    for axis in 0..3 {
        check_gradients(sort(axis, Direction::Asc), from_ref(&x), &[2, 3, 2]);
        check_gradients(sort(axis, Direction::Desc), from_ref(&x), &[2, 3, 2]);
    }
    let ties = tracked(&vector(Type::F32, &[2.0, 1.0, 2.0]));
    let got = gradients(&sort(0, Direction::Asc), &[ties], &ty(Type::F32, &[3]), &vector(Type::F32, &[1.0, 2.0, 3.0]));
    assert_eq!(got, [[2.0, 1.0, 3.0]]);
}

#[test]
fn top_k_sends_gradients_to_the_elements_it_took() {
    use burn_backend::AutodiffBackend;
    use burn_backend::ops::FloatTensorOps;
    use burn_dispatch::Dispatch;

    let x = tracked(&vector(Type::F32, &[1.0, 5.0, 3.0, 4.0]));
    let [values, _] = top_k(2, &x, &[2]);
    let weighted = Dispatch::float_mul(values.into_tensor(), vector(Type::F32, &[10.0, 1.0]).into_tensor());
    let gradients = Dispatch::backward(Dispatch::float_sum(weighted));
    let got = Value::new(Type::F32, Dispatch::grad(x.tensor(), &gradients).expect("tracked"));
    assert_eq!(numbers(&got), [0.0, 10.0, 0.0, 1.0]);
}
