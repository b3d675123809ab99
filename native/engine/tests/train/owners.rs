use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Weak};

use ex_burn_engine::exec::Executable;
use ex_burn_engine::train::{Answer, Config, Ending, Event, Job, Session, Validation};
use ex_burn_engine::{Error, Type};

use crate::linear::{Linear, config, elements, program, start};

const ROWS: usize = 12;

fn steps_done(session: &Session) -> f64 {
    elements(&session.parameters().1[0])[0]
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.expect_err("refused").to_string()
}

/// A run that is fed, at its first event.
fn fed() -> (Session, Receiver<Event>) {
    let (session, events) = start(config(4, 2), Job { data: None, ..Linear::new(ROWS).job(&[]) });
    assert_eq!(events.recv(), Ok(Event::WantBatches(2)));
    (session, events)
}

/// The rows `4 * batch` and the three after it.
fn feed(session: &Session, batch: i64) -> Result<bool, Error> {
    let rows: Vec<i64> = (4 * batch..4 * batch + 4).collect();
    session.feed(program(Type::F64, 4, true), Linear::new(ROWS).batch(Type::F64, &rows))
}

#[test]
fn fed_batches_train_as_the_same_batches_in_memory_do() {
    let (session, events) = fed();
    let (mut fed_losses, mut next) = (vec![], 0);
    let give = |count: usize, next: &mut i64| {
        for _ in 0..count.min((3 - *next) as usize) {
            assert!(feed(&session, *next).expect("asked for"));
            *next += 1;
            assert!(*next < 3 || session.end_feed().expect("takes batches"));
        }
    };
    give(2, &mut next);
    for event in events {
        match event {
            Event::WantBatches(count) => give(count, &mut next),
            Event::Epoch(report) => {
                assert_eq!((report.steps, report.samples), (3, ROWS));
                fed_losses.push(report.loss);
                next = 0;
                session.answer(Answer::Continue).expect("an epoch waits");
            }
            last => assert_eq!(last, Event::Done(Ending::Finished)),
        }
    }
    let (memory, events) = start(Config { shuffle: false, ..config(4, 2) }, Linear::new(ROWS).job(&[4]));
    let mut losses = vec![];
    for event in events {
        if let Event::Epoch(report) = event {
            losses.push(report.loss);
            memory.answer(Answer::Continue).expect("an epoch waits");
        }
    }
    assert_eq!(fed_losses, losses);
    assert_eq!(elements(&session.parameters().0[0]), elements(&memory.parameters().0[0]));
}

#[test]
fn refuses_a_batch_that_does_not_fit_its_program() {
    let (session, _events) = fed();
    let linear = Linear::new(ROWS);
    let short = session.feed(program(Type::F64, 4, true), linear.batch(Type::F64, &[0, 1, 2]));
    assert!(refusal(short).contains("expected f64[4,3], got f64[3,3]"));
    let evaluation = session.feed(program(Type::F64, 2, false), linear.batch(Type::F64, &[0, 1]));
    assert!(refusal(evaluation).contains("answers (f64[], f64[]); it must answer"));
    let few = session.feed(program(Type::F64, 1, true), vec![]);
    assert!(refusal(few).contains("takes 5 inputs, given are 3"));
}

#[test]
fn refuses_batches_and_answers_that_nobody_waits_for() {
    let (session, events) = start(config(4, 1), Linear::new(8).job(&[4]));
    assert!(refusal(feed(&session, 0)).contains("takes no batches now"));
    assert!(refusal(session.end_feed()).contains("takes no batches now"));
    assert!(matches!(events.recv(), Ok(Event::Epoch(_))));
    assert!(refusal(session.answer(Answer::LearningRate(f64::NAN))).contains("the learning rate is NaN"));
    assert!(session.answer(Answer::Continue).expect("an epoch waits"));
    assert_eq!(events.recv(), Ok(Event::Done(Ending::Finished)));
    assert_eq!(session.answer(Answer::Continue), Ok(false));
    assert_eq!(feed(&session, 0), Ok(false));
    assert!(!session.stop());
}

#[test]
fn refuses_more_batches_than_it_asked_for() {
    let linear = Linear::new(ROWS);
    let (sender, events) = channel();
    let (resume, wait) = channel::<()>();
    // The run can't take a batch while its observer holds it up.
    let observer = move |event| {
        drop(sender.send(event));
        let _ = wait.recv();
    };
    let session = Session::start(config(4, 1), Job { data: None, ..linear.job(&[]) }, observer).expect("a good job");
    assert_eq!(events.recv(), Ok(Event::WantBatches(2)));
    assert_eq!((feed(&session, 0), feed(&session, 1)), (Ok(true), Ok(true)));
    assert!(refusal(feed(&session, 2)).contains("2 batches wait already"));
    drop(resume);
}

#[test]
fn an_epoch_without_batches_fails() {
    let (session, events) = fed();
    session.end_feed().expect("takes batches");
    let Ok(Event::Failed(error)) = events.recv() else { panic!("no failure") };
    assert!(error.to_string().contains("epoch 1 got no batches"));
}

#[test]
fn stops_while_it_waits_for_a_batch_or_an_answer() {
    let (session, events) = fed();
    assert!(session.stop());
    assert_eq!(events.recv(), Ok(Event::Done(Ending::Stopped)));
    let (session, events) = start(config(4, 1), Linear::new(8).job(&[4]));
    assert!(matches!(events.recv(), Ok(Event::Epoch(_))));
    assert!(session.stop());
    assert_eq!(events.recv(), Ok(Event::Done(Ending::Stopped)));
}

#[test]
fn stops_within_one_batch() {
    let job = Linear::new(200_000).job(&[1]);
    let (mut session, events) = start(Config { progress: true, ..config(1, 1) }, job);
    assert!(matches!(events.recv(), Ok(Event::Progress(_))));
    assert!(session.stop());
    let done = steps_done(&session);
    session.join();
    assert!(steps_done(&session) - done <= 1.0);
    assert_eq!(events.iter().last(), Some(Event::Done(Ending::Stopped)));
}

#[test]
fn a_dropped_handle_ends_the_thread_and_gives_all_memory_back() {
    let linear = Linear::new(ROWS);
    let rows: Vec<i64> = (0..ROWS as i64).collect();
    let (steps, evaluations) = (vec![program(Type::F64, 4, true)], vec![program(Type::F64, 4, false)]);
    let programs: [Weak<Executable>; 2] = [Arc::downgrade(&steps[0]), Arc::downgrade(&evaluations[0])];
    let validation = vec![Validation { programs: evaluations, rows: linear.batch(Type::F64, &rows) }];
    let job = Job { steps, validation, ..linear.job(&[]) };
    let held = [job.params.clone(), job.data.clone().expect("in memory")].concat();
    let (session, events) = start(config(4, 1000), job);
    assert!(matches!(events.recv(), Ok(Event::Epoch(_))));
    drop(session);
    // The channel ends when the thread drops the observer, which is the last it does.
    assert_eq!(events.iter().last(), Some(Event::Done(Ending::Stopped)));
    assert!(programs.iter().all(|program| program.upgrade().is_none()));
    assert!(held.iter().all(|value| value.flex().is_some_and(|memory| memory.is_unique())));
}

#[test]
fn a_panic_becomes_an_event_and_parameters_stay_readable() {
    let (sender, events) = channel();
    let observer = move |event| {
        assert!(!matches!(event, Event::Epoch(_)), "the observer fell over");
        drop(sender.send(event));
    };
    let session = Session::start(config(4, 5), Linear::new(8).job(&[4]), observer).expect("a good job");
    let panic = Error::Panic { op: "fit".into(), message: "the observer fell over".into() };
    assert_eq!(events.recv(), Ok(Event::Failed(panic)));
    assert_eq!(steps_done(&session), 2.0);
    assert_eq!(session.optimizer_state().count, 2);
}
