use ex_burn_engine::train::{
    Adagrad, Adam, Adamw, Lamb, Lion, Muon, Optimizer, OptimizerState, Prepare, Rmsprop, Rule, Sgd,
};
use ex_burn_engine::{Error, Type, Value};

use crate::linear::{assert_close, elements, tensor};

/// Enough elements for the pass to be split over threads, and not into equal parts.
const LONG: usize = 100_003;
const RATE: f64 = 0.01;

/// A gradient that changes its size and sign from step to step and element to element.
fn gradient(step: usize, len: usize) -> Vec<f64> {
    (0..len).map(|i| ((step * 7 + i * 3) as f64 * 0.37).sin() * (1.0 + (i % 4) as f64)).collect()
}

fn start(len: usize) -> Vec<f64> {
    (0..len).map(|i| (i as f64 * 0.11).cos()).collect()
}

/// The published rules, one element at a time.
fn expected(rule: Rule, len: usize, steps: usize) -> Vec<f64> {
    let first = match rule {
        Rule::Adagrad(adagrad) => adagrad.initial_accumulator_value,
        Rule::Rmsprop(rmsprop) => rmsprop.initial_scale,
        _ => 0.0,
    };
    let (mut p, mut m, mut v, mut trace) = (start(len), vec![0.0; len], vec![first; len], vec![0.0; len]);
    for t in 1..=steps {
        for (i, g) in gradient(t, len).into_iter().enumerate() {
            p[i] -= match rule {
                Rule::Sgd(Sgd { momentum: None, .. }) => RATE * g,
                Rule::Sgd(Sgd { momentum: Some(decay), nesterov }) => {
                    m[i] = g + decay * m[i];
                    RATE * if nesterov { g + decay * m[i] } else { m[i] }
                }
                Rule::Adam(Adam { b1, b2, eps, eps_root }) => {
                    m[i] = b1 * m[i] + (1.0 - b1) * g;
                    v[i] = b2 * v[i] + (1.0 - b2) * g.powi(2);
                    let (m, v) = (m[i] / (1.0 - b1.powi(t as i32)), v[i] / (1.0 - b2.powi(t as i32)));
                    RATE * m / ((v + eps_root).sqrt() + eps)
                }
                Rule::Adamw(Adamw { b1, b2, eps, eps_root, decay }) => {
                    m[i] = b1 * m[i] + (1.0 - b1) * g;
                    v[i] = b2 * v[i] + (1.0 - b2) * g.powi(2);
                    let (m, v) = (m[i] / (1.0 - b1.powi(t as i32)), v[i] / (1.0 - b2.powi(t as i32)));
                    RATE * (m / ((v + eps_root).sqrt() + eps) + decay * p[i])
                }
                Rule::Adagrad(Adagrad { eps, .. }) => {
                    v[i] += g.powi(2);
                    RATE * g / (v[i] + eps).sqrt()
                }
                Rule::Rmsprop(Rmsprop { decay, eps, centered, momentum, nesterov, .. }) => {
                    m[i] = decay * m[i] + (1.0 - decay) * g;
                    v[i] = decay * v[i] + (1.0 - decay) * g.powi(2);
                    let centre = if centered { m[i].powi(2) } else { 0.0 };
                    let change = RATE * g / (v[i] - centre + eps).sqrt();
                    trace[i] = momentum.unwrap_or(0.0) * trace[i] + change;
                    if nesterov { momentum.unwrap_or(0.0) * trace[i] + change } else { trace[i] }
                }
                Rule::Lion(Lion { b1, b2, decay }) => {
                    let mixed: f64 = b1 * m[i] + (1.0 - b1) * g;
                    m[i] = b2 * m[i] + (1.0 - b2) * g;
                    RATE * (mixed.signum() + decay * p[i])
                }
                Rule::Lamb(_) | Rule::Muon(_) => unreachable!("these don't go element by element"),
            };
        }
    }
    p
}

fn rules() -> Vec<Rule> {
    let rmsprop = Rmsprop { decay: 0.8, eps: 1e-4, initial_scale: 0.5, ..Rmsprop::default() };
    vec![
        Rule::Adamw(Adamw::default()),
        Rule::Adamw(Adamw { b1: 0.8, decay: 0.3, ..Adamw::default() }),
        Rule::Adagrad(Adagrad::default()),
        Rule::Adagrad(Adagrad { eps: 0.1, initial_accumulator_value: 0.0 }),
        Rule::Rmsprop(rmsprop),
        Rule::Rmsprop(Rmsprop { centered: true, ..rmsprop }),
        Rule::Rmsprop(Rmsprop { momentum: Some(0.7), ..rmsprop }),
        Rule::Rmsprop(Rmsprop { centered: true, momentum: Some(0.7), nesterov: true, ..rmsprop }),
        Rule::Lion(Lion::default()),
        Rule::Lion(Lion { b1: 0.8, b2: 0.95, decay: 0.1 }),
        Rule::Sgd(Sgd::default()),
        Rule::Sgd(Sgd { momentum: Some(0.9), nesterov: false }),
        Rule::Sgd(Sgd { momentum: Some(0.8), nesterov: true }),
        Rule::Adam(Adam::default()),
        Rule::Adam(Adam { b1: 0.5, b2: 0.75, eps: 0.1, eps_root: 0.25 }),
    ]
}

/// One step in place.
fn descend(
    optimizer: &mut Optimizer,
    params: &mut [Value],
    gradients: Vec<Value>,
    learning_rate: f64,
) -> Result<(), Error> {
    let mut next = params.to_vec();
    optimizer.step(params, &mut next, gradients, &Prepare::default(), learning_rate)?;
    params.clone_from_slice(&next);
    Ok(())
}

fn run(optimizer: &mut Optimizer, params: &mut [Value], steps: std::ops::RangeInclusive<usize>) {
    for step in steps {
        let gradients =
            params.iter().map(|p| tensor(p.dtype(), &p.shape(), &gradient(step, p.len()))).collect::<Vec<_>>();
        descend(optimizer, params, gradients, RATE).expect("a step");
    }
}

fn params(dtype: Type, lens: &[usize]) -> Vec<Value> {
    lens.iter().map(|&len| tensor(dtype, &[len], &start(len))).collect()
}

#[test]
fn a_hundred_steps_follow_the_published_rule() {
    for rule in rules() {
        for (dtype, tolerance) in [(Type::F64, 1e-12), (Type::F32, 2e-5)] {
            let mut params = params(dtype, &[5, 1]);
            run(&mut Optimizer::new(rule, &params, None).expect("good options"), &mut params, 1..=100);
            assert_close(&elements(&params[0]), &expected(rule, 5, 100), tolerance);
            assert_close(&elements(&params[1]), &expected(rule, 1, 100), tolerance);
        }
    }
}

#[test]
fn a_long_tensor_split_over_threads_follows_it_too() {
    for rule in rules() {
        let mut params = params(Type::F64, &[LONG]);
        run(&mut Optimizer::new(rule, &params, None).expect("good options"), &mut params, 1..=3);
        assert_close(&elements(&params[0]), &expected(rule, LONG, 3), 1e-12);
    }
}

#[test]
fn half_precision_parameters_keep_their_moments_in_f32() {
    for (dtype, tolerance) in [(Type::F16, 5e-3), (Type::BF16, 4e-2)] {
        let rule = Rule::Adam(Adam::default());
        let mut params = params(dtype, &[6]);
        let mut optimizer = Optimizer::new(rule, &params, None).expect("good options");
        run(&mut optimizer, &mut params, 1..=10);
        assert_close(&elements(&params[0]), &expected(rule, 6, 10), tolerance);
        assert!(optimizer.state().slots.iter().flatten().all(|moment| moment.dtype() == Type::F32));
    }
}

#[test]
fn memory_is_reused_unless_someone_else_holds_it() {
    let address = |value: &Value| value.flex().map(|t| t.bytes().as_ptr());
    let (from, mut next) = (params(Type::F32, &[5]), params(Type::F32, &[5]));
    let gradients = |step| vec![tensor(Type::F32, &[5], &gradient(step, 5))];
    let mut optimizer = Optimizer::new(Rule::Adam(Adam::default()), &from, None).expect("good options");
    let before = address(&next[0]);
    optimizer.step(&from, &mut next, gradients(1), &Prepare::default(), RATE).expect("a step");
    assert_eq!(address(&next[0]), before);
    assert_eq!(elements(&from[0]), elements(&params(Type::F32, &[5])[0]));
    let (held, moment) = (next[0].clone(), optimizer.state().slots[0][0].clone());
    let (old, old_moment) = (elements(&held), elements(&moment));
    optimizer.step(&from, &mut next, gradients(2), &Prepare::default(), RATE).expect("a step");
    assert_eq!((elements(&held), elements(&moment)), (old.clone(), old_moment));
    assert_ne!(elements(&next[0]), old);
}

#[test]
fn moments_of_a_gradient_that_stays_zero_end_at_zero() {
    let adam = Rule::Adam(Adam { b1: 0.5, b2: 0.5, ..Adam::default() });
    for rule in [adam, Rule::Sgd(Sgd { momentum: Some(0.5), nesterov: false })] {
        for dtype in [Type::F32, Type::F64] {
            let mut params = vec![tensor(dtype, &[1], &[1.0])];
            let mut optimizer = Optimizer::new(rule, &params, None).expect("good options");
            descend(&mut optimizer, &mut params, vec![tensor(dtype, &[1], &[1.0])], RATE).expect("a step");
            for _ in 0..1100 {
                descend(&mut optimizer, &mut params, vec![tensor(dtype, &[1], &[0.0])], RATE).expect("a step");
            }
            assert!(optimizer.state().slots.iter().all(|slot| elements(&slot[0]) == [0.0]), "{rule:?} {dtype}");
        }
    }
}

#[test]
fn gradients_may_be_strided() {
    let column = tensor(Type::F64, &[2, 2], &[1.0, 2.0, 3.0, 4.0]).permute(&[1, 0]);
    let mut params = vec![tensor(Type::F64, &[2, 2], &[0.0; 4])];
    let mut optimizer = Optimizer::new(Rule::Sgd(Sgd::default()), &params, None).expect("good options");
    descend(&mut optimizer, &mut params, vec![column], 1.0).expect("a step");
    assert_eq!(elements(&params[0]), [-1.0, -3.0, -2.0, -4.0]);
}

#[test]
fn goes_on_where_an_exported_state_ends() {
    for rule in rules().into_iter().chain([Rule::Lamb(Lamb::default()), Rule::Muon(Muon::default())]) {
        let mut whole = params(Type::F32, &[5, 2]);
        run(&mut Optimizer::new(rule, &whole, None).expect("good options"), &mut whole, 1..=20);
        let mut parts = params(Type::F32, &[5, 2]);
        let mut first = Optimizer::new(rule, &parts, None).expect("good options");
        run(&mut first, &mut parts, 1..=12);
        let mut second = Optimizer::new(rule, &parts, Some(first.state().clone())).expect("its own state");
        run(&mut second, &mut parts, 13..=20);
        assert_eq!(parts.iter().map(elements).collect::<Vec<_>>(), whole.iter().map(elements).collect::<Vec<_>>());
        assert_eq!(second.state().count, 20);
    }
}

#[test]
fn refuses_a_foreign_state_and_a_foreign_gradient() {
    let mut params = params(Type::F32, &[3]);
    let adam = Rule::Adam(Adam::default());
    let foreign =
        [vec![], vec![vec![tensor(Type::F32, &[3], &[0.0; 3])]], vec![vec![tensor(Type::F64, &[3], &[0.0; 3])]; 2]];
    for slots in foreign {
        let refused = Optimizer::new(adam, &params, Some(OptimizerState { count: 1, slots }));
        assert!(matches!(refused, Err(Error::Invalid { reason, .. }) if reason.contains("another optimizer")));
    }
    let mut optimizer = Optimizer::new(adam, &params, None).expect("good options");
    let refused = descend(&mut optimizer, &mut params, vec![tensor(Type::F32, &[2], &[0.0; 2])], RATE);
    assert!(matches!(refused, Err(Error::Mismatch { .. })));
}

#[test]
fn refuses_options_out_of_range() {
    let adam = |change: fn(&mut Adam)| {
        let mut adam = Adam::default();
        change(&mut adam);
        Rule::Adam(adam)
    };
    let cases = [
        (Rule::Sgd(Sgd { momentum: Some(1.0), nesterov: false }), "momentum is 1"),
        (Rule::Sgd(Sgd { momentum: None, nesterov: true }), "nesterov needs a momentum"),
        (adam(|adam| adam.b1 = -0.1), "b1 is -0.1"),
        (adam(|adam| adam.b2 = f64::NAN), "b2 is NaN"),
        (adam(|adam| adam.eps = f64::INFINITY), "eps is inf"),
        (adam(|adam| adam.eps_root = -1.0), "eps_root is -1"),
        (Rule::Adamw(Adamw { decay: -1.0, ..Adamw::default() }), "decay is -1"),
        (Rule::Adagrad(Adagrad { eps: -1.0, ..Adagrad::default() }), "eps is -1"),
        (Rule::Rmsprop(Rmsprop { nesterov: true, ..Rmsprop::default() }), "nesterov needs a momentum"),
        (Rule::Rmsprop(Rmsprop { decay: 1.0, ..Rmsprop::default() }), "decay is 1"),
        (Rule::Lion(Lion { b2: 2.0, ..Lion::default() }), "b2 is 2"),
        (Rule::Lamb(Lamb { min_norm: -1.0, ..Lamb::default() }), "min_norm is -1"),
        (Rule::Muon(Muon { steps: 0, ..Muon::default() }), "steps is 0; it must be from 1 to 100"),
        (Rule::Muon(Muon { momentum: 1.0, ..Muon::default() }), "momentum is 1"),
    ];
    for (rule, text) in cases {
        assert!(matches!(rule.check(), Err(Error::Invalid { reason, .. }) if reason.contains(text)), "{text}");
    }
}
