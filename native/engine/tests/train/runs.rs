use ex_burn_engine::program::{Binary, Op, Unary};
use ex_burn_engine::train::{
    Adam, Answer, Config, Ending, EpochReport, Event, Job, Progress, Rule, Session, Validation, order,
};
use ex_burn_engine::{Device, Error, TensorType, Type};

use crate::linear::{Builder, Linear, assert_close, config, elements, program, start, sum, tensor};
use crate::weighed;

/// How a run went.
struct Outcome {
    reports: Vec<EpochReport>,
    last: Event,
    session: Session,
}

impl Outcome {
    fn weights(&self) -> Vec<f64> {
        elements(&self.session.parameters().0[0])
    }

    fn bias(&self) -> Vec<f64> {
        elements(&self.session.parameters().0[1])
    }

    fn steps(&self) -> Vec<f64> {
        elements(&self.session.parameters().1[0])
    }
}

/// Runs to the end, answering each epoch.
fn run(config: Config, job: Job, answer: impl Fn(usize) -> Answer) -> Outcome {
    let (session, events) = start(config, job);
    let mut reports = vec![];
    for event in events {
        match event {
            Event::Epoch(report) => {
                assert!(session.answer(answer(report.epoch)).expect("an epoch waits"));
                reports.push(report);
            }
            Event::Progress(_) | Event::WantBatches(_) => {}
            last => return Outcome { reports, last, session },
        }
    }
    panic!("the run ended without a word");
}

fn go_on(_epoch: usize) -> Answer {
    Answer::Continue
}

/// The epoch's mean loss and error when its batches, the short last one too, count by their rows.
fn expected_epoch(linear: &mut Linear, config: &Config, epoch: usize) -> (f64, f64) {
    let rows = linear.y.len();
    let (mut loss, mut error) = (0.0, 0.0);
    for batch in order(rows, config.shuffle.then_some(config.seed), epoch).chunks(config.batch_size) {
        let step = linear.descend(batch, config.learning_rate);
        loss += step.loss * batch.len() as f64 / rows as f64;
        error += step.error * batch.len() as f64 / rows as f64;
    }
    (loss, error)
}

#[test]
fn follows_plain_gradient_descent_with_a_short_last_batch() {
    let (mut linear, config) = (Linear::new(11), config(4, 5));
    let outcome = run(config, linear.job(&[4, 3]), go_on);
    assert_eq!(outcome.last, Event::Done(Ending::Finished));
    assert_eq!(outcome.reports.len(), 5);
    for report in &outcome.reports {
        let (loss, error) = expected_epoch(&mut linear, &config, report.epoch);
        assert_close(&[report.loss, report.metrics[0]], &[loss, error], 1e-13);
        assert_eq!((report.steps, report.samples, &report.validation), (3, 11, &None));
    }
    assert_close(&outcome.weights(), &linear.w, 1e-13);
    assert_close(&outcome.bias(), &[linear.b], 1e-13);
    assert_eq!(outcome.steps(), [15.0]);
}

#[test]
fn rows_fewer_than_a_batch_are_one_batch() {
    let (mut linear, config) = (Linear::new(3), config(8, 1));
    let outcome = run(config, linear.job(&[3]), go_on);
    let (loss, _) = expected_epoch(&mut linear, &config, 1);
    assert_close(&[outcome.reports[0].loss], &[loss], 1e-13);
    assert_close(&outcome.weights(), &linear.w, 1e-13);
}

#[test]
fn validates_after_each_epoch_with_the_parameters_of_its_end() {
    let (mut linear, unseen) = (Linear::new(8), Linear::new(15));
    let config = Config { shuffle: false, ..config(4, 3) };
    let rows: Vec<i64> = (8..15).collect();
    let job = Job {
        validation: vec![Validation {
            programs: vec![program(Type::F64, 3, false), program(Type::F64, 4, false)],
            rows: unseen.batch(Type::F64, &rows),
        }],
        ..linear.job(&[4])
    };
    for report in run(config, job, go_on).reports {
        let (loss, _) = expected_epoch(&mut linear, &config, report.epoch);
        let want = Linear { w: linear.w, b: linear.b, ..unseen.clone() }.at(&rows);
        let (val_loss, val_metrics) = report.validation.expect("validated");
        assert_close(&[report.loss, val_loss, val_metrics[0]], &[loss, want.loss, want.error], 1e-13);
    }
}

#[test]
fn an_answer_changes_the_learning_rate_or_halts() {
    let (mut linear, mut config) = (Linear::new(8), config(4, 9));
    let answer = |epoch| if epoch == 3 { Answer::Halt } else { Answer::LearningRate(0.05 / (epoch + 1) as f64) };
    let outcome = run(config, linear.job(&[4]), answer);
    assert_eq!((outcome.reports.len(), &outcome.last), (3, &Event::Done(Ending::Halted)));
    for (report, rate) in outcome.reports.iter().zip([0.05, 0.05 / 2.0, 0.05 / 3.0]) {
        assert_eq!(report.learning_rate, rate);
        config.learning_rate = rate;
        expected_epoch(&mut linear, &config, report.epoch);
    }
    assert_close(&outcome.weights(), &linear.w, 1e-13);
}

#[test]
fn parameters_stay_where_they_are_in_memory() {
    let (session, events) = start(config(4, 3), Linear::new(8).job(&[4]));
    let address = || session.parameters().0[0].flex().map(|memory| memory.bytes().as_ptr());
    let mut addresses = vec![];
    for event in events {
        if matches!(event, Event::Epoch(_)) {
            addresses.push(address());
            session.answer(Answer::Continue).expect("an epoch waits");
        }
    }
    assert_eq!(addresses, [addresses[0]; 3]);
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let config = Config { optimizer: Some(Rule::Adam(Adam::default())), ..config(4, 6) };
    let bits = |seed| {
        let outcome = run(Config { seed, ..config }, Linear::new(30).job(&[4, 2]), go_on);
        outcome.reports.iter().map(|report| report.loss.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(bits(1), bits(1));
    assert_ne!(bits(1), bits(2));
}

#[test]
fn a_resumed_run_ends_with_the_same_bits() {
    let config = Config { optimizer: Some(Rule::Adam(Adam::default())), ..config(4, 6) };
    let job = Linear::new(10).job(&[4, 2]);
    let whole = run(config, job.clone(), go_on);
    let first = run(config, job.clone(), |epoch| if epoch == 2 { Answer::Halt } else { Answer::Continue });
    let (params, states) = first.session.parameters();
    let job = Job { params, states, optimizer_state: Some(first.session.optimizer_state()), ..job };
    let rest = run(Config { first_epoch: 3, ..config }, job, go_on);
    assert_eq!(rest.reports.iter().map(|report| report.epoch).collect::<Vec<_>>(), [3, 4, 5, 6]);
    assert_eq!((rest.weights(), rest.bias(), rest.steps()), (whole.weights(), whole.bias(), whole.steps()));
    assert_eq!(rest.session.optimizer_state().count, 18);
}

#[test]
fn a_loss_that_is_not_finite_stops_before_the_update() {
    let mut linear = Linear::new(12);
    linear.y[9] = f64::NAN;
    let config = Config { shuffle: false, ..config(4, 5) };
    let outcome = run(config, linear.job(&[4]), go_on);
    let error = Error::NonFinite { what: "loss".into(), parameter: None, value: "NaN".into(), epoch: 1, step: 3 };
    assert_eq!((outcome.reports.len(), &outcome.last), (0, &Event::Failed(error)));
    linear.descend(&[0, 1, 2, 3], config.learning_rate);
    linear.descend(&[4, 5, 6, 7], config.learning_rate);
    assert_close(&outcome.weights(), &linear.w, 1e-13);
    assert_close(&outcome.bias(), &[linear.b], 1e-13);
    assert_eq!(outcome.steps(), [2.0]);
}

#[test]
fn progress_is_told_after_the_last_step_of_an_epoch() {
    let mut linear = Linear::new(11);
    let (session, events) = start(Config { progress: true, ..config(4, 1) }, linear.job(&[4, 3]));
    let event = events.iter().find(|e| matches!(e, Event::Progress(Progress { step: 3, .. }))).expect("the last step");
    let Event::Progress(progress) = event else { unreachable!("found as progress") };
    let (loss, error) = expected_epoch(&mut linear, &config(4, 1), 1);
    assert_close(&[progress.loss, progress.metrics[0]], &[loss, error], 1e-13);
    assert_eq!((progress.epoch, progress.steps), (1, Some(3)));
    assert!(progress.samples_per_second > 0.0);
    drop(session);
}

/// `loss = sum(f(p) x)` over one row, without states.
fn scaled(f: Op, parameter: f64) -> Job {
    let mut b = Builder::new(vec![TensorType::new(Type::F64, []), TensorType::new(Type::F64, [1])]);
    let value = b.push(f, &[0], Type::F64, &[]);
    let product = b.push(Op::Binary(Binary::Multiply), &[value, 1], Type::F64, &[1]);
    let loss = b.push(sum(), &[product], Type::F64, &[]);
    Job {
        steps: vec![b.finish(&[loss])],
        params: vec![tensor(Type::F64, &[], &[parameter])],
        data: Some(vec![tensor(Type::F64, &[4], &[1.0, -2.0, 4.0, 8.0])]),
        ..Job::default()
    }
}

#[test]
fn states_may_be_absent() {
    let outcome = run(config(1, 1), scaled(Op::Unary(Unary::Negate), 0.5), go_on);
    assert_close(&outcome.weights(), &[0.5 + 0.05 * 11.0], 1e-15);
}

/// The derivative of the root is infinite at 0, the root itself is not.
#[test]
fn a_gradient_that_is_not_finite_stops_before_the_update() {
    let outcome = run(Config { shuffle: false, ..config(1, 1) }, scaled(Op::Unary(Unary::Sqrt), 0.0), go_on);
    let error =
        Error::NonFinite { what: "gradient".into(), parameter: Some(0), value: "inf".into(), epoch: 1, step: 1 };
    assert_eq!(outcome.last, Event::Failed(error));
    assert_eq!(outcome.weights(), [0.0]);
}

/// No loss sees what the last step of a run makes, nor what a checkpoint would keep.
#[test]
fn a_parameter_that_is_not_finite_behind_the_last_step_is_taken_back() {
    let error =
        Error::NonFinite { what: "parameter".into(), parameter: Some(0), value: "-inf".into(), epoch: 1, step: 1 };
    for pause_every in [None, Some(1)] {
        let config = Config { shuffle: false, learning_rate: f64::MAX, pause_every, ..config(1, 1) };
        let one_row = Some(vec![tensor(Type::F64, &[1], &[1.0])]);
        let outcome = run(config, Job { data: one_row, ..scaled(Op::Unary(Unary::Sinh), 4.0) }, go_on);
        assert_eq!((outcome.reports.len(), &outcome.last), (0, &Event::Failed(error.clone())));
        assert_eq!(outcome.weights(), [4.0]);
    }
}

/// The first step goes so far that the hyperbolic sine of the parameter is infinite, whatever the batch.
#[test]
fn a_step_after_which_no_loss_is_finite_is_taken_back() {
    let config = Config { shuffle: false, learning_rate: 1e6, ..config(1, 1) };
    let outcome = run(config, scaled(Op::Unary(Unary::Sinh), 0.5), go_on);
    let error = Error::NonFinite { what: "loss".into(), parameter: None, value: "inf".into(), epoch: 1, step: 2 };
    assert_eq!(outcome.last, Event::Failed(error));
    assert_eq!(outcome.weights(), [0.5]);
}

#[test]
fn batches_that_make_one_step_are_averaged_without_loss() {
    weighed::check(&Device::Cpu);
}
