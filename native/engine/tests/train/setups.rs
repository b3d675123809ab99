use ex_burn_engine::train::{Config, Job, Session, Validation};
use ex_burn_engine::{Error, Type};

use crate::linear::{Linear, config, program, tensor};

fn refused(config: Config, job: Job, text: &str) {
    let error = Session::start(config, job, |_event| {}).expect_err("refused").to_string();
    assert!(error.contains(text), "{error}");
}

#[test]
fn says_what_is_wrong_with_the_configuration() {
    let good = config(4, 2);
    let cases = [
        (Config { epochs: 0, ..good }, "epochs is 0; it must be at least 1"),
        (Config { first_epoch: 0, ..good }, "they count from 1"),
        (Config { first_epoch: 3, ..good }, "the first epoch is 3, but the last one is 2"),
        (Config { batch_size: 0, ..good }, "the batch size is 0; it must be at least 1"),
        (Config { learning_rate: -1.0, ..good }, "the learning rate is -1"),
        (Config { learning_rate: f64::INFINITY, ..good }, "the learning rate is inf"),
    ];
    for (config, text) in cases {
        refused(config, Linear::new(8).job(&[4]), text);
    }
}

#[test]
fn says_what_is_wrong_with_the_data() {
    let good = || Linear::new(8).job(&[4]);
    let column = |rows: usize| tensor(Type::F64, &[rows], &vec![0.0; rows]);
    let matrix = tensor(Type::F64, &[8, 3], &[0.0; 24]);
    let cases = [
        (vec![], "the data has no tensor"),
        (vec![tensor(Type::F64, &[], &[0.0])], "f64[], which has no rows"),
        (vec![matrix.clone(), column(7)], "different lengths: f64[8,3] and f64[7]"),
        (vec![tensor(Type::F64, &[0, 3], &[]), column(0)], "the data is empty: f64[0,3]"),
        (vec![matrix], "takes 5 inputs, given are 4"),
        (vec![tensor(Type::F64, &[8, 2], &[0.0; 16]), column(8)], "expected f64[4,3], got f64[4,2]"),
    ];
    for (data, text) in cases {
        refused(config(4, 1), Job { data: Some(data), ..good() }, text);
    }
    let rows = Linear::new(2).batch(Type::F64, &[0, 1]);
    let validation = vec![Validation { programs: vec![], rows }];
    refused(config(4, 1), Job { validation, ..good() }, "no program for batches of 2 of the validation data");
}

#[test]
fn says_which_program_is_missing_or_wrong() {
    let linear = Linear::new(11);
    refused(config(4, 1), linear.job(&[]), "no program for batches of 4 of the data, which has 11 rows");
    refused(config(4, 1), linear.job(&[4]), "no program for batches of 3 of the data, which has 11 rows");
    let evaluation = Job { steps: vec![program(Type::F64, 11, false)], ..linear.job(&[]) };
    refused(config(11, 1), evaluation, "answers (f64[], f64[]); it must answer a float scalar");
    let other_type = Job { steps: vec![program(Type::F32, 11, true)], ..linear.job(&[]) };
    refused(config(11, 1), other_type, "expected f32[3], got f64[3]");
}

#[test]
fn says_what_is_wrong_with_the_parameters() {
    let good = || Linear::new(8).job(&[4]);
    refused(config(4, 1), Job { params: vec![], ..good() }, "there are no parameters to train");
    let integers = Job { params: vec![tensor(Type::S32, &[3], &[0.0; 3]), tensor(Type::F64, &[], &[0.0])], ..good() };
    refused(config(4, 1), integers, "parameter 0 is s32[3]; only float parameters can be trained");
    let error = Session::start(config(4, 1), Job { states: vec![], ..good() }, |_event| {}).expect_err("refused");
    assert!(matches!(error, Error::Invalid { .. } | Error::Mismatch { .. }));
}
