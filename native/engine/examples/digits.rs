//! Learns to read handwritten digits on the engine alone, without Elixir: `cargo run --release --example digits`.
//!
//! The network, its loss and its initial parameters come from `priv/digits_mlp.safetensors`, which
//! `examples/export_digits_program.exs` writes; the images from `examples/data/digits.bin`.

use std::collections::BTreeMap;
use std::error::Error;
use std::f64::consts::PI;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use ex_burn_engine::exec::Executable;
use ex_burn_engine::file::{self, Contents};
use ex_burn_engine::program::Program;
use ex_burn_engine::train::{Answer, Config, EpochReport, Event, Job, Session, Validation};
use ex_burn_engine::{Device, TensorType, Type, Value};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

const EPOCHS: usize = 20;
const BATCH_SIZE: usize = 32;
const LEARNING_RATES: (f64, f64) = (5e-3, 1e-4);
const WANTED_ACCURACY: f64 = 0.97;

/// Pixels of an image; the byte after them is the label.
const PIXELS: usize = 64;

fn main() -> Result<()> {
    let accuracy = train(|report| println!("{}", line(report)))?;
    println!("\nTest accuracy: {:.1} %", 100.0 * accuracy);
    if accuracy < WANTED_ACCURACY {
        return Err(format!("wanted at least {:.1} %", 100.0 * WANTED_ACCURACY).into());
    }
    Ok(())
}

/// Trains the network and answers the part of the test images that it reads right. `report` sees each epoch.
fn train(mut report: impl FnMut(&EpochReport)) -> Result<f64> {
    let (sender, events) = mpsc::channel();
    let session = Session::start(config(), job()?, move |event| drop(sender.send(event)))?;
    let mut accuracy = 0.0;
    for event in events {
        match event {
            Event::Epoch(epoch) => {
                report(&epoch);
                accuracy = test_accuracy(&epoch);
                session.answer(Answer::LearningRate(learning_rate(epoch.epoch + 1)))?;
            }
            Event::Failed(error) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(accuracy)
}

fn config() -> Config {
    Config {
        epochs: EPOCHS,
        batch_size: BATCH_SIZE,
        shuffle: true,
        seed: 42,
        learning_rate: learning_rate(1),
        ..Config::default()
    }
}

/// Falls from the first rate to the second along half a cosine.
fn learning_rate(epoch: usize) -> f64 {
    let (first, last) = LEARNING_RATES;
    let turn = PI * (epoch - 1) as f64 / (EPOCHS - 1) as f64;
    last + (first - last) * (1.0 + turn.cos()) / 2.0
}

/// The test images are the run's validation rows, the accuracy its first metric.
fn test_accuracy(report: &EpochReport) -> f64 {
    report.validation.as_ref().and_then(|(_loss, metrics)| metrics.first()).copied().unwrap_or(0.0)
}

fn line(report: &EpochReport) -> String {
    let EpochReport { epoch, loss, seconds, .. } = report;
    format!("epoch {epoch:2}/{EPOCHS}   loss {loss:.4}   test accuracy {:.4}   {seconds:.2} s", test_accuracy(report))
}

fn job() -> Result<Job> {
    let images = std::fs::read(in_project("examples/data/digits.bin"))?;
    let (train, test) = split(&images);
    let program = file::read(&in_project("priv/digits_mlp.safetensors"), &Device::Cpu)?;
    job_of(program, tensors(&train)?, tensors(&test)?)
}

fn in_project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Records of the images to train and to test with, split as in `examples/digits/data.exs`: of each digit every fifth
/// image is for the test, beginning with the third.
fn split(images: &[u8]) -> (Vec<&[u8]>, Vec<&[u8]>) {
    let mut seen = [0; 256];
    images.chunks_exact(PIXELS + 1).partition(|record| {
        let count = &mut seen[usize::from(record[PIXELS])];
        *count += 1;
        *count % 5 != 3
    })
}

/// Pixels between 0 and 1, `f32[n][64]`, and labels, `s64[n]`.
fn tensors(records: &[&[u8]]) -> Result<Vec<Value>> {
    let pixels = records.iter().flat_map(|record| &record[..PIXELS]);
    let x = pixels.flat_map(|&ink| (f32::from(ink) / 16.0).to_le_bytes()).collect();
    let y = records.iter().flat_map(|record| i64::from(record[PIXELS]).to_le_bytes()).collect();
    Ok(vec![
        Value::from_bytes(&TensorType::new(Type::F32, [records.len(), PIXELS]), x, &Device::Cpu)?,
        Value::from_bytes(&TensorType::new(Type::S64, [records.len()]), y, &Device::Cpu)?,
    ])
}

/// The program's tensors are the initial parameters. Its texts `steps` and `evaluations` are lists of programs as JSON, one
/// for each size of batch.
fn job_of(program: Contents, data: Vec<Value>, validation: Vec<Value>) -> Result<Job> {
    let Contents { tensors, metadata } = program;
    Ok(Job {
        params: tensors.into_iter().map(|(_name, value)| value).collect(),
        steps: executables(&metadata, "steps")?,
        data: Some(data),
        validation: vec![Validation { programs: executables(&metadata, "evaluations")?, rows: validation }],
        ..Job::default()
    })
}

fn executables(metadata: &BTreeMap<String, String>, key: &str) -> Result<Vec<Arc<Executable>>> {
    let text = metadata.get(key).ok_or_else(|| format!("the program file has no {key}"))?;
    let programs: Vec<Program> = serde_json::from_str(text)?;
    programs.iter().map(|program| Ok(Arc::new(Executable::new(program, vec![])?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_each_digit_are_split_four_to_one() {
        let images = std::fs::read(in_project("examples/data/digits.bin")).expect("the images");
        let (train, test) = split(&images);
        assert_eq!((train.len(), test.len()), (1438, 359));
        for digit in 0..10 {
            let share = test.iter().filter(|record| record[PIXELS] == digit).count();
            assert!((35..=37).contains(&share), "{share} of {digit}");
        }
    }

    #[test]
    fn the_program_file_trains_to_the_wanted_accuracy() {
        let mut losses = Vec::new();
        let accuracy = train(|report| losses.push(report.loss)).expect("a run to its end");
        assert_eq!(losses.len(), EPOCHS);
        assert!(accuracy >= WANTED_ACCURACY, "accuracy {accuracy}, losses {losses:?}");
    }
}
