//! What a model file says about the model beside its tensors and its program.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::types::Type;

/// A model, without its numbers.
///
/// The program takes the parameters, the states and the inputs in the order given here, then its captured tensors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// What the model is fed with, ordered by name.
    pub inputs: Vec<Input>,
    /// How the program's results are arranged.
    pub output: Output,
    /// Tensors that training changes.
    pub parameters: Vec<Leaf>,
    /// Tensors that the layers change in training.
    pub states: Vec<Leaf>,
    /// Number of captured tensors.
    pub captures: usize,
    /// The batch sizes that have a program; `None` when all of them have.
    pub batch_sizes: Option<Vec<usize>>,
    /// How the model was trained.
    pub training: Training,
}

/// An input of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: Type,
    /// Length of each axis, `None` where it is the batch size.
    pub shape: Vec<Option<usize>>,
}

/// A container of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// The result of this number.
    Tensor(usize),
    /// A tuple.
    Tuple(Vec<Output>),
    /// A map.
    Map(Vec<(String, Output)>),
}

/// A named tensor of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leaf {
    /// Name of the layer, then of the parameter.
    pub path: Vec<String>,
    /// Whether training leaves it as it is.
    pub frozen: bool,
}

/// How a model was trained; for people, and for a later training that goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Name of the loss, if it has one.
    pub loss: Option<String>,
    /// Name of the optimizer.
    pub optimizer: String,
    /// Options of the optimizer.
    pub optimizer_options: BTreeMap<String, Number>,
    /// Step size at the start.
    pub learning_rate: f64,
    /// Names of the metrics.
    pub metrics: Vec<String>,
    /// Seed of the initial parameters.
    pub seed: u64,
    /// What training reported of itself.
    pub trained: BTreeMap<String, String>,
}

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Number {
    Boolean(bool),
    Float(f64),
}
