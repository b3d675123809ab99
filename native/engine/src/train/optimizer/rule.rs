//! The table of optimizers.

use serde::{Deserialize, Serialize};

use super::update::Update;
use super::{Adagrad, Adam, Adamw, Lamb, Lion, Muon, Rmsprop, Sgd};
use crate::error::Result;

/// An optimizer and its options.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Gradient descent.
    Sgd(Sgd),
    /// Adam.
    Adam(Adam),
    /// Adam with weights that decay by themselves.
    Adamw(Adamw),
    /// Gradients over the root of their mean square.
    Rmsprop(Rmsprop),
    /// Gradients over the root of the sum of their squares.
    Adagrad(Adagrad),
    /// Signs of gradients.
    Lion(Lion),
    /// Adam with steps as long as the parameters are.
    Lamb(Lamb),
    /// Orthogonal steps of matrices.
    Muon(Muon),
}

impl Rule {
    /// What each moment that is kept of a parameter starts from.
    pub(super) fn moments(&self) -> Vec<f64> {
        match self {
            Rule::Sgd(sgd) => vec![0.0; usize::from(sgd.momentum.is_some())],
            Rule::Adam(_) | Rule::Adamw(_) | Rule::Lamb(_) | Rule::Muon(_) => vec![0.0; 2],
            Rule::Rmsprop(rmsprop) => rmsprop.moments(),
            Rule::Adagrad(adagrad) => vec![adagrad.initial_accumulator_value],
            Rule::Lion(_) => vec![0.0],
        }
    }

    /// The shape of moment number `moment` of a parameter.
    pub(super) fn moment_shape(&self, moment: usize, shape: &[usize]) -> Vec<usize> {
        let unused = moment == 1 && matches!(self, Rule::Muon(_)) && Muon::is_matrix(shape);
        if unused { vec![] } else { shape.to_vec() }
    }

    /// How fast the two moments of Adam forget; 0 of rules that have none.
    pub(super) fn decays(&self) -> [f64; 2] {
        match self {
            Rule::Adam(Adam { b1, b2, .. })
            | Rule::Adamw(Adamw { b1, b2, .. })
            | Rule::Lamb(Lamb { b1, b2, .. })
            | Rule::Muon(Muon { b1, b2, .. }) => [*b1, *b2],
            _ => [0.0; 2],
        }
    }

    /// Refuses options that make no sense.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](crate::Error::Invalid) names the option.
    pub fn check(&self) -> Result<()> {
        match self {
            Rule::Sgd(sgd) => sgd.check(),
            Rule::Adam(adam) => adam.check(),
            Rule::Adamw(adamw) => adamw.check(),
            Rule::Rmsprop(rmsprop) => rmsprop.check(),
            Rule::Adagrad(adagrad) => adagrad.check(),
            Rule::Lion(lion) => lion.check(),
            Rule::Lamb(lamb) => lamb.check(),
            Rule::Muon(muon) => muon.check(),
        }
    }

    /// Step number `count`, from 1, of one parameter.
    pub(super) fn apply(&self, update: Update<'_>, count: u64, learning_rate: f64) -> Result<()> {
        match *self {
            Rule::Sgd(sgd) => match sgd.momentum {
                None => update.run(Sgd::plain(learning_rate)),
                Some(decay) => update.run(sgd.traced(decay, learning_rate)),
            },
            Rule::Adam(adam) => update.run(adam.at(count, learning_rate)),
            Rule::Adamw(adamw) => update.run(adamw.at(count, learning_rate)),
            Rule::Rmsprop(rmsprop) => rmsprop.apply(update, learning_rate),
            Rule::Adagrad(adagrad) => update.run(adagrad.at(learning_rate)),
            Rule::Lion(lion) => update.run(lion.at(learning_rate)),
            Rule::Lamb(lamb) => lamb.apply(update, count, learning_rate),
            Rule::Muon(muon) => muon.apply(update, count, learning_rate),
        }
    }
}
