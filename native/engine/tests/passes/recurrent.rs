//! Products of unrolled layers, of their gradients and of loops through sequences.

use ex_burn_engine::program::{
    Binary, Constant, Dot, DynamicSlice, Fold, Instruction, Op, Program, Slice, Unary, While,
};
use ex_burn_engine::{Type, Value, passes, scalar};

use crate::builder::{Builder, optimised, run, same};
use crate::tools::{noise, numbers, tensor, ty};

const F64: Type = Type::F64;

/// Contracts these axes.
fn dot(left: usize, right: usize) -> Op {
    Op::Dot(Dot { lhs_contract: vec![left], lhs_batch: vec![], rhs_contract: vec![right], rhs_batch: vec![] })
}

fn slice(starts: [usize; 2], lengths: [usize; 2]) -> Op {
    Op::Slice(Slice { starts: starts.to_vec(), lengths: lengths.to_vec(), strides: vec![1, 1] })
}

/// The text of a program after one pass alone.
fn after(pass: &str, program: &Program) -> String {
    let others: Vec<String> = passes::names().filter(|name| *name != pass).map(String::from).collect();
    passes::optimise(program, &others).expect("a valid program").to_string()
}

fn count(text: &str, op: &str) -> usize {
    text.matches(&format!("= {op}(")).count()
}

fn values(shapes: &[&[usize]]) -> Vec<Value> {
    let value =
        |(seed, shape): (usize, &&[usize])| tensor(F64, shape, &noise(seed as u64 + 1, shape.iter().product(), 8));
    shapes.iter().enumerate().map(value).collect()
}

/// Four steps of 16 rows, each multiplied by two matrices, and the sum of the elements of all products.
fn steps() -> Program {
    let mut b = Builder::new(&[ty(F64, &[64, 8]), ty(F64, &[8, 16]), ty(F64, &[8, 32])]);
    let mut outputs = vec![];
    for step in 0..4 {
        let x = b.emit(slice([16 * step, 0], [16, 8]), &[0], ty(F64, &[16, 8]));
        outputs.push(b.emit(dot(1, 0), &[x, 1], ty(F64, &[16, 16])));
        outputs.push(b.emit(dot(1, 0), &[x, 2], ty(F64, &[16, 32])));
    }
    b.finish(&outputs)
}

#[test]
fn products_of_all_steps_with_all_matrices_are_one() {
    let text = after("products", &steps());
    assert_eq!(count(&text, "dot"), 1, "{text}");
    assert!(text.contains("f64[64,48] = dot("), "{text}");
    same(&steps(), &values(&[&[64, 8], &[8, 16], &[8, 32]]));
}

#[test]
fn steps_that_wait_for_each_other_stay() {
    let mut b = Builder::new(&[ty(F64, &[16, 8]), ty(F64, &[8, 8])]);
    let mut x = 0;
    for _ in 0..6 {
        x = b.emit(dot(1, 0), &[x, 1], ty(F64, &[16, 8]));
    }
    let program = b.finish(&[x]);
    assert_eq!(count(&after("products", &program), "dot"), 6);
}

#[test]
fn matrices_are_not_brought_together_for_one_product() {
    let mut b = Builder::new(&[ty(F64, &[16, 8]), ty(F64, &[8, 16]), ty(F64, &[8, 32])]);
    let outputs = [b.emit(dot(1, 0), &[0, 1], ty(F64, &[16, 16])), b.emit(dot(1, 0), &[0, 2], ty(F64, &[16, 32]))];
    assert_eq!(count(&after("products", &b.finish(&outputs)), "concatenate"), 0);
}

#[test]
fn a_sum_of_products_is_one_of_longer_rows() {
    let mut b =
        Builder::new(&[ty(F64, &[4, 32]), ty(F64, &[4, 16]), ty(F64, &[8, 32]), ty(F64, &[8, 16]), ty(F64, &[32, 16])]);
    let first = b.emit(dot(0, 0), &[0, 1], ty(F64, &[32, 16]));
    let second = b.emit(dot(0, 0), &[2, 3], ty(F64, &[32, 16]));
    let rest = b.binary(Binary::Add, second, 4);
    let sum = b.binary(Binary::Add, first, rest);
    let program = b.finish(&[sum]);
    let text = after("products", &program);
    assert_eq!((count(&text, "dot"), count(&text, "add"), count(&text, "concatenate")), (1, 1, 2), "{text}");
    assert!(text.contains("f64[12,32] = concatenate(%0, %2) {axis: 0}"), "{text}");
    same(&program, &values(&[&[4, 32], &[4, 16], &[8, 32], &[8, 16], &[32, 16]]));
}

#[test]
fn a_product_that_others_read_stays() {
    let mut b = Builder::new(&[ty(F64, &[4, 32]), ty(F64, &[4, 32])]);
    let products = [0, 1].map(|x| b.emit(dot(0, 0), &[x, x], ty(F64, &[32, 32])));
    let sum = b.binary(Binary::Add, products[0], products[1]);
    let program = b.finish(&[sum, products[0]]);
    assert_eq!(count(&after("products", &program), "dot"), 2);
}

#[test]
fn sums_of_columns_are_one_of_longer_columns() {
    let mut b = Builder::new(&[ty(F64, &[4, 8]), ty(F64, &[4, 8]), ty(F64, &[4, 8]), ty(F64, &[4, 8])]);
    let sums: Vec<usize> = (0..4).map(|x| b.reduce(Fold::Sum, x, &[0], false)).collect();
    let sum = sums.into_iter().reduce(|a, c| b.binary(Binary::Add, a, c)).expect("four of them");
    let program = b.finish(&[sum]);
    let text = after("products", &program);
    assert_eq!((count(&text, "sum"), count(&text, "add")), (1, 0), "{text}");
    same(&program, &values(&[&[4, 8], &[4, 8], &[4, 8], &[4, 8]]));
}

/// The gradients of the matrices and the biases of two gates over four steps on the way back, where the inputs of the steps are
/// parts of a sequence.
fn gradients() -> Program {
    let mut b = Builder::new(&[vec![ty(F64, &[4, 4, 16])], vec![ty(F64, &[4, 16]); 8]].concat());
    let mut sums: [Option<usize>; 4] = [None; 4];
    for step in (0..4).rev() {
        let cut = Op::Slice(Slice { starts: vec![0, step, 0], lengths: vec![4, 1, 16], strides: vec![1; 3] });
        let x = b.emit(cut, &[0], ty(F64, &[4, 1, 16]));
        let x = b.reshape(x, &[4, 16]);
        for gate in 0..2 {
            // Inputs that come later are of earlier steps.
            let change = 1 + 2 * (3 - step) + gate;
            let product = b.emit(dot(0, 0), &[x, change], ty(F64, &[16, 16]));
            let sum = b.reduce(Fold::Sum, change, &[0], false);
            for (place, part) in [(gate, product), (2 + gate, sum)] {
                let sum = &mut sums[place];
                *sum = Some(sum.map_or(part, |sum| b.binary(Binary::Add, sum, part)));
            }
        }
    }
    let twice = b.binary(Binary::Add, sums[0].unwrap(), sums[0].unwrap());
    b.finish(&[sums[1].unwrap(), sums[2].unwrap(), sums[3].unwrap(), twice])
}

#[test]
fn gradients_of_all_matrices_of_a_layer_are_one_product_with_its_sequence() {
    let text = after("products", &gradients());
    assert!(text.contains("f64[16,32] = dot("), "{text}");
    assert!(text.contains("f64[32] = sum("), "{text}");
    // The changes are brought together, and the sequence lies there.
    let counts = ["dot", "sum", "concatenate", "slice"].map(|op| count(&text, op));
    assert_eq!(counts, [1, 1, 1, 4], "{text}");
    same(&gradients(), &values(&[vec![&[4, 4, 16][..]], vec![&[4, 16][..]; 8]].concat()));
}

/// `h = h * x[.., i] w` from ones on for `i` below `rounds`, where the axis of steps is the first or the second one.
fn sequence(axis: usize, rounds: f64) -> Program {
    let shape = if axis == 0 { [5, 2, 3] } else { [2, 5, 3] };
    let types = [ty(Type::S32, &[]), ty(F64, &[2, 4]), ty(F64, &shape), ty(F64, &[3, 4])];
    let mut condition = Builder::new(&types);
    let bound = condition.constant(Type::S32, rounds);
    let less = condition.emit(Op::Binary(Binary::Less), &[0, bound], ty(Type::U8, &[]));
    let mut body = Builder::new(&types);
    let (zero, one) = (body.constant(Type::S32, 0.0), body.constant(Type::S32, 1.0));
    let mut lengths = shape.to_vec();
    lengths[axis] = 1;
    let starts = if axis == 0 { [2, 0, zero, zero] } else { [2, zero, 0, zero] };
    let cut = Op::DynamicSlice(DynamicSlice { lengths: lengths.clone(), strides: vec![1; 3] });
    let cut = body.emit(cut, &starts, ty(F64, &lengths));
    let x = body.reshape(cut, &[2, 3]);
    let product = body.emit(dot(1, 0), &[x, 3], ty(F64, &[2, 4]));
    let h = body.binary(Binary::Multiply, 1, product);
    let next = body.binary(Binary::Add, 0, one);
    let (condition, body) = (condition.finish(&[less]), body.finish(&[next, h, 2, 3]));
    let start = Constant { bytes: scalar::from_f64(Type::S32, 0.0) };
    let instructions = vec![
        Instruction { op: Op::Constant(start), inputs: vec![], outputs: vec![types[0].clone()] },
        Instruction { op: Op::While(While { condition, body }), inputs: vec![3, 0, 1, 2], outputs: types.to_vec() },
    ];
    Program { inputs: types[1..].to_vec(), instructions, outputs: vec![5] }
}

#[test]
fn a_sequence_is_multiplied_before_the_loop() {
    for (axis, product, part) in [(0, "f64[5,2,4]", "f64[1,2,4]"), (1, "f64[2,5,4]", "f64[2,1,4]")] {
        let program = sequence(axis, 5.0);
        let text = after("sequences", &program);
        let (before, body) = text.split_once("while").expect("a loop");
        assert!(before.contains(&format!("{product} = dot(%1, %2)")), "{text}");
        assert!(body.contains(&format!("{part} = dynamic_slice(")) && count(body, "dot") == 0, "{text}");
        let shape: &[usize] = if axis == 0 { &[5, 2, 3] } else { &[2, 5, 3] };
        let inputs = values(&[&[2, 4], shape, &[3, 4]]);
        for rounds in [0.0, 3.0, 5.0, 7.0] {
            same(&sequence(axis, rounds), &inputs);
        }
    }
}

/// As the way back through a recurrent layer: what the gates say about the state before is added up.
#[test]
fn sums_of_products_in_a_loop_are_one_product() {
    let matrix = ty(F64, &[4, 4]);
    let types = [vec![ty(Type::S32, &[]), ty(F64, &[2, 4])], vec![matrix; 4]].concat();
    let mut condition = Builder::new(&types);
    let bound = condition.constant(Type::S32, 3.0);
    let less = condition.emit(Op::Binary(Binary::Less), &[0, bound], ty(Type::U8, &[]));
    let mut body = Builder::new(&types);
    let one = body.constant(Type::S32, 1.0);
    let gates = [Unary::Tanh, Unary::Sin, Unary::Cos, Unary::Sigmoid].map(|function| body.unary(function, 1));
    let products: Vec<usize> =
        gates.iter().zip(2..).map(|(&gate, w)| body.emit(dot(1, 1), &[gate, w], ty(F64, &[2, 4]))).collect();
    let sum = products.into_iter().reduce(|sum, product| body.binary(Binary::Add, sum, product)).unwrap_or(1);
    let next = body.binary(Binary::Add, 0, one);
    let attrs = While { condition: condition.finish(&[less]), body: body.finish(&[next, sum, 2, 3, 4, 5]) };
    let mut b = Builder::new(&types[1..]);
    let start = b.constant(Type::S32, 0.0);
    let first = b.all(Op::While(attrs), &[start, 0, 1, 2, 3, 4], &types);
    let program = b.finish(&[first + 1]);
    let text = after("products", &program);
    assert!(count(&text, "dot") == 1 && text.contains("f64[2,16] = concatenate("), "{text}");
    let small = |(seed, shape): (u64, [usize; 2])| {
        let numbers: Vec<f64> = noise(seed, shape[0] * shape[1], 8).iter().map(|n| n / 32.0).collect();
        tensor(F64, &shape, &numbers)
    };
    let inputs: Vec<Value> = (1..).zip([[2, 4], [4, 4], [4, 4], [4, 4], [4, 4]]).map(small).collect();
    let (plain, fast) = (run(&program, &inputs), run(&optimised(&program, &[]), &inputs));
    for (plain, fast) in numbers(&plain[0]).iter().zip(numbers(&fast[0])) {
        assert!((plain - fast).abs() <= 1e-12 * plain.abs().max(1.0), "{plain} is {fast}");
    }
}

#[test]
fn a_loop_of_few_steps_multiplies_them_alone() {
    assert_eq!(count(after("sequences", &sequence(0, 2.0)).split("while").next().unwrap_or_default(), "dot"), 0);
}

#[test]
fn a_cell_of_an_unrolled_layer_computes_what_it_did() {
    let mut b = Builder::new(&[ty(F64, &[64, 8]), ty(F64, &[8, 16]), ty(F64, &[16, 16]), ty(F64, &[16, 16])]);
    let mut h = b.emit(slice([0, 0], [16, 8]), &[0], ty(F64, &[16, 8]));
    h = b.emit(dot(1, 0), &[h, 1], ty(F64, &[16, 16]));
    for step in 0..4 {
        let x = b.emit(slice([16 * step, 0], [16, 8]), &[0], ty(F64, &[16, 8]));
        let input = b.emit(dot(1, 0), &[x, 1], ty(F64, &[16, 16]));
        let gates = [2, 3].map(|w| b.emit(dot(1, 0), &[h, w], ty(F64, &[16, 16])));
        let sums = gates.map(|gate| b.binary(Binary::Add, input, gate));
        let [kept, new] = sums.map(|sum| b.unary(Unary::Sigmoid, sum));
        h = b.binary(Binary::Multiply, kept, new);
    }
    let program = b.finish(&[h]);
    let inputs: Vec<Value> = [[64, 8], [8, 16], [16, 16], [16, 16]]
        .iter()
        .enumerate()
        .map(|(seed, shape)| {
            let small: Vec<f64> = noise(seed as u64, shape[0] * shape[1], 8).iter().map(|n| n / 16.0).collect();
            tensor(F64, shape, &small)
        })
        .collect();
    let text = optimised(&program, &[]).to_string();
    // That of all steps, and one for each step.
    assert_eq!(count(&text, "dot"), 5, "{text}");
    let (plain, fast) = (run(&program, &inputs), run(&optimised(&program, &[]), &inputs));
    for (plain, fast) in numbers(&plain[0]).iter().zip(numbers(&fast[0])) {
        assert!((plain - fast).abs() < 1e-14, "{plain} is {fast}");
    }
}
