//! Gradients by segments that are computed again, against those of the whole program on one tape.

use std::sync::{Arc, Mutex};

use ex_burn_engine::exec::{Executable, with_host};
use ex_burn_engine::program::{Binary, Callback, Instruction, Op, Program, Unary};
use ex_burn_engine::train::{Checkpointing, Config, Event, Gradients, checkpointed, gradients};
use ex_burn_engine::{Device, TensorType, Type, Value};

use crate::linear::{Builder, Linear, assert_close, config, elements, matmul, start, sum, tensor};

const WIDTH: usize = 4;
const WAYS: [Checkpointing; 4] =
    [Checkpointing::Every(1), Checkpointing::Every(4), Checkpointing::Every(1000), Checkpointing::Balanced];

/// `h = tanh(h w) + h` so many times, `w` being the same each time; answers the sum of `h`, and of its first `tanh`. The
/// second parameter is not used.
fn residual(depth: usize) -> Arc<Executable> {
    let shape = [WIDTH, WIDTH];
    let ty = TensorType::new(Type::F64, shape);
    let mut b = Builder::new(vec![ty.clone(), ty.clone(), ty]);
    let (mut h, mut first) = (2, 2);
    for layer in 0..depth {
        let product = b.push(matmul(), &[h, 0], Type::F64, &shape);
        let tanh = b.push(Op::Unary(Unary::Tanh), &[product], Type::F64, &shape);
        h = b.push(Op::Binary(Binary::Add), &[tanh, h], Type::F64, &shape);
        first = if layer == 0 { tanh } else { first };
    }
    let (loss, metric) = (b.push(sum(), &[h], Type::F64, &[]), b.push(sum(), &[first], Type::F64, &[]));
    b.finish(&[loss, metric])
}

fn inputs() -> Vec<Value> {
    let numbers =
        |seed: usize| (0..WIDTH * WIDTH).map(|i| ((i * 7 + seed) % 11) as f64 / 20.0 - 0.25).collect::<Vec<_>>();
    (1..4).map(|seed| tensor(Type::F64, &[WIDTH, WIDTH], &numbers(seed))).collect()
}

#[test]
fn segments_have_the_gradients_of_the_whole() {
    let program = residual(9);
    let want = gradients(&program, 2, inputs(), &Device::Cpu).expect("a gradient");
    for way in WAYS {
        let got = checkpointed(&program, 2, inputs(), way).expect("a gradient");
        for (got, want) in got.gradients.iter().zip(&want.gradients) {
            assert_close(&elements(got), &elements(want), 1e-13);
        }
        assert_eq!(elements(&got.gradients[1]), [0.0; WIDTH * WIDTH]);
        let numbers = |outputs: &[Value]| outputs.iter().flat_map(elements).collect::<Vec<_>>();
        assert_eq!(numbers(&got.outputs), numbers(&want.outputs), "{way:?}");
    }
}

#[test]
fn a_loss_without_parameters_has_gradients_of_zeros() {
    let ty = TensorType::new(Type::F64, []);
    let mut b = Builder::new(vec![ty.clone(), ty]);
    let square = b.push(Op::Binary(Binary::Multiply), &[1, 1], Type::F64, &[]);
    let loss = b.push(Op::Binary(Binary::Add), &[square, 1], Type::F64, &[]);
    let inputs = vec![tensor(Type::F64, &[], &[1.0]), tensor(Type::F64, &[], &[3.0])];
    let pass = checkpointed(&b.finish(&[loss]), 1, inputs, Checkpointing::Every(1)).expect("a gradient");
    assert_eq!((elements(&pass.outputs[0]), elements(&pass.gradients[0])), (vec![12.0], vec![0.0]));
}

/// A hook after each of two instructions, of which `every` make a segment.
#[test]
fn hooks_are_called_once_though_their_segment_runs_twice() {
    let ty = TensorType::new(Type::F64, []);
    let instruction = |op, inputs: &[usize], outputs: &[&TensorType]| Instruction {
        op,
        inputs: inputs.to_vec(),
        outputs: outputs.iter().map(|&ty| ty.clone()).collect(),
    };
    let square = |id| instruction(Op::Binary(Binary::Multiply), &[id, id], &[&ty]);
    let hook = |number, id| instruction(Op::Hook(Callback { id: number }), &[id], &[]);
    let instructions = vec![square(0), hook(7, 1), square(1), hook(8, 2)];
    let program = Program { inputs: vec![ty.clone()], instructions, outputs: vec![2] };
    let program = Arc::new(Executable::new(&program, vec![]).expect("a good program"));
    for way in [Checkpointing::Off, Checkpointing::Every(2)] {
        let calls = Arc::new(Mutex::new(vec![]));
        let heard = calls.clone();
        let host = Box::new(move |id, values: Vec<Value>| {
            heard.lock().expect("no panic").push((id, elements(&values[0])));
            Ok(vec![])
        });
        let three = vec![tensor(Type::F64, &[], &[3.0])];
        let pass = with_host(host, || checkpointed(&program, 1, three, way)).expect("a gradient");
        assert_eq!(elements(&pass.gradients[0]), [108.0]);
        assert_eq!(*calls.lock().expect("no panic"), [(7, vec![9.0]), (8, vec![81.0])]);
    }
}

#[test]
fn what_makes_no_sense_is_an_error() {
    let integer = vec![Value::full(&TensorType::new(Type::S32, []), 1.0, &Device::Cpu).expect("a number")];
    let ty = TensorType::new(Type::S32, []);
    let mut b = Builder::new(vec![ty]);
    let sum = b.push(Op::Binary(Binary::Add), &[0, 0], Type::S32, &[]);
    let sum = b.push(Op::Binary(Binary::Add), &[sum, sum], Type::S32, &[]);
    let program = b.finish(&[sum]);
    let error = |inputs, way| checkpointed(&program, 1, inputs, way).expect_err("no gradient").to_string();
    assert!(error(integer.clone(), Checkpointing::Every(1)).contains("only float parameters have a gradient"));
    assert!(error(integer, Checkpointing::Every(0)).contains("segments of 0 operations"));
    assert!(error(vec![], Checkpointing::Every(1)).contains("takes 1 inputs, got 0"));
    let config = Config { gradients: Gradients::Program, checkpointing: Checkpointing::Balanced, ..config(4, 1) };
    let error = ex_burn_engine::train::Session::start(config, Linear::new(8).job(&[4]), |_: Event| {});
    assert!(error.expect_err("no run").to_string().contains("checkpointing is of autodiff"));
}

#[test]
fn a_run_goes_the_same_way_with_segments() {
    let run = |checkpointing| {
        let (session, events) = start(Config { checkpointing, ..config(4, 3) }, Linear::new(10).job(&[4, 2]));
        for event in events {
            if let Event::Epoch(_) = event {
                session.answer(ex_burn_engine::train::Answer::Continue).expect("it waits");
            }
        }
        session.parameters().0.iter().flat_map(elements).collect::<Vec<_>>()
    };
    let want = run(Checkpointing::Off);
    WAYS.iter().for_each(|&way| assert_close(&run(way), &want, 1e-13));
}
