use ex_burn_engine::program::{Binary, Fold, Op, Reduce, Unary};
use ex_burn_engine::train::{Pass, gradients};
use ex_burn_engine::{Device, Error, TensorType, Type, Value};

use crate::linear::{Builder, COLUMNS, Linear, assert_close, elements, matmul, program, sum, tensor};

#[test]
fn linear_regression_has_the_closed_form_gradient_in_every_float_type() {
    let mut linear = Linear::new(8);
    (linear.w, linear.b) = ([0.5, -1.0, 0.25], 0.125);
    let rows: Vec<i64> = (0..8).collect();
    let want = linear.at(&rows);
    for (dtype, tolerance) in [(Type::F64, 1e-14), (Type::F32, 1e-6), (Type::F16, 1e-2), (Type::BF16, 5e-2)] {
        let inputs = [linear.params(dtype), vec![tensor(dtype, &[1], &[4.0])], linear.batch(dtype, &rows)].concat();
        let pass = gradients(&program(dtype, 8, true), 2, inputs, &Device::Cpu).expect("a gradient");
        assert_close(&elements(&pass.gradients[0]), &want.w, tolerance);
        assert_close(&elements(&pass.gradients[1]), &[want.b], tolerance);
        let outputs: Vec<f64> = pass.outputs.iter().flat_map(elements).collect();
        assert_close(&outputs, &[want.loss, want.error, 5.0], tolerance);
        assert_eq!(
            pass.gradients.iter().map(Value::ty).collect::<Vec<_>>(),
            program(dtype, 8, true).input_types()[..2]
        );
    }
}

/// `loss = sum(tanh(x a) c)`: `dc = sum over rows of h`, `da = x^T ((1 - h^2) c)` with `h = tanh(x a)`.
#[test]
fn a_hidden_layer_has_the_hand_derived_gradient() {
    let (x, a, c): ([[f64; 2]; 2], [[f64; 3]; 2], [f64; 3]) =
        ([[0.5, -1.0], [2.0, 0.25]], [[0.1, -0.4, 0.3], [0.7, 0.2, -0.6]], [1.5, -2.0, 0.5]);
    let h: Vec<[f64; 3]> =
        x.iter().map(|x| std::array::from_fn(|k| (x[0] * a[0][k] + x[1] * a[1][k]).tanh())).collect();
    let dc: Vec<f64> = (0..3).map(|k| h[0][k] + h[1][k]).collect();
    let da: Vec<f64> = (0..2)
        .flat_map(|j| (0..3).map(move |k| (j, k)))
        .map(|(j, k)| (0..2).map(|i| x[i][j] * (1.0 - h[i][k] * h[i][k]) * c[k]).sum())
        .collect();
    let shapes: [&[usize]; 3] = [&[2, 3], &[3], &[2, 2]];
    let mut b = Builder::new(shapes.iter().map(|shape| TensorType::new(Type::F64, *shape)).collect());
    let product = b.push(matmul(), &[2, 0], Type::F64, &[2, 3]);
    let hidden = b.push(Op::Unary(Unary::Tanh), &[product], Type::F64, &[2, 3]);
    let output = b.push(matmul(), &[hidden, 1], Type::F64, &[2]);
    let loss = b.push(sum(), &[output], Type::F64, &[]);
    let inputs = [tensor(Type::F64, &[2, 3], &a.concat()), tensor(Type::F64, &[3], &c)];
    let inputs = [&inputs[..], &[tensor(Type::F64, &[2, 2], &x.concat())]].concat();
    let pass = gradients(&b.finish(&[loss]), 2, inputs, &Device::Cpu).expect("a gradient");
    assert_close(&elements(&pass.gradients[0]), &da, 1e-14);
    assert_close(&elements(&pass.gradients[1]), &dc, 1e-14);
    assert!(pass.times[1].is_zero(), "loss and gradients are one program");
}

/// The product of `w` has no rule in instructions, and `dw` is the product of the others.
#[test]
fn what_has_no_rule_is_followed_by_the_tape() {
    let mut b = Builder::new(vec![TensorType::new(Type::F64, [3])]);
    let product = Op::Reduce(Reduce { fold: Fold::Product, axes: None, keep_axes: false });
    let loss = b.push(product, &[0], Type::F64, &[]);
    let w = tensor(Type::F64, &[3], &[2.0, 3.0, 5.0]);
    let pass = gradients(&b.finish(&[loss]), 1, vec![w], &Device::Cpu).expect("a gradient");
    assert_close(&elements(&pass.gradients[0]), &[15.0, 10.0, 6.0], 1e-14);
    assert!(!pass.times[1].is_zero());
}

/// One program of a parameter `w` of shape `[2]` and a parameter `unused`, whose outputs `outputs` picks.
fn pass(dtype: Type, outputs: impl FnOnce(&mut Builder) -> Vec<usize>) -> Result<Pass, Error> {
    let mut b = Builder::new(vec![TensorType::new(dtype, [2]), TensorType::new(Type::F32, [COLUMNS])]);
    let outputs = outputs(&mut b);
    let inputs = vec![tensor(dtype, &[2], &[1.0, 2.0]), tensor(Type::F32, &[COLUMNS], &[1.0; COLUMNS])];
    gradients(&b.finish(&outputs), 2, inputs, &Device::Cpu)
}

#[test]
fn parameters_that_the_loss_does_not_reach_have_zero_gradients() {
    let some = pass(Type::F32, |b| vec![b.push(sum(), &[0], Type::F32, &[])]).expect("a gradient");
    assert_eq!(elements(&some.gradients[0]), [1.0; 2]);
    assert_eq!(elements(&some.gradients[1]), [0.0; COLUMNS]);
    let none = pass(Type::F32, |b| vec![b.constant(Type::F32, 3.0)]).expect("a gradient");
    assert_eq!(elements(&none.gradients[0]), [0.0; 2]);
}

#[test]
fn what_comes_out_is_outside_of_autodiff() {
    let outputs = |b: &mut Builder| {
        let loss = b.push(sum(), &[0], Type::F32, &[]);
        let doubled = b.push(Op::Binary(Binary::Add), &[0, 0], Type::F32, &[2]);
        let integer = b.push(Op::Cast, &[doubled], Type::S32, &[2]);
        vec![loss, doubled, integer]
    };
    let pass = pass(Type::F32, outputs).expect("a gradient");
    // Only values outside of autodiff show their memory, and only they can become leaves again.
    assert!(pass.outputs.iter().chain(&pass.gradients).all(|value| value.flex().is_some()));
    assert_eq!(elements(&pass.outputs[2]), [2.0, 4.0]);
    let again = ex_burn_engine::exec::instruction(
        &Op::Cast,
        vec![pass.outputs[2].clone()],
        &[pass.outputs[1].ty()],
        &Device::Cpu,
    );
    assert_eq!(elements(&again.expect("a cast")[0]), [2.0, 4.0]);
}

#[test]
fn refuses_what_has_no_gradient() {
    let integer = pass(Type::S32, |b| vec![b.constant(Type::F32, 1.0)]);
    assert!(matches!(integer, Err(Error::Invalid { reason, .. }) if reason.contains("parameter 0 is s32[2]")));
    let vector = pass(Type::F32, |b| vec![b.push(Op::Binary(Binary::Add), &[0, 0], Type::F32, &[2])]);
    assert!(matches!(vector, Err(Error::Invalid { reason, .. }) if reason.contains("f32[2], not a float scalar")));
    let nothing = pass(Type::F32, |_| vec![]);
    assert!(matches!(nothing, Err(Error::Invalid { reason, .. }) if reason.contains("no output")));
    let few = gradients(&program(Type::F32, 1, true), 9, vec![], &Device::Cpu);
    assert!(matches!(few, Err(Error::Invalid { reason, .. }) if reason.contains("9 parameters")));
}
