//! Names of what regions compute.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// What a fused region computes, alone or with the product or convolution before it. Names are for people: they change
/// no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs)]
pub enum Pattern {
    Attention,
    CrossEntropy,
    Softmax,
    LogSoftmax,
    LayerNorm,
    RmsNorm,
    Linear,
    Conv,
    Gelu,
    Silu,
    Sigmoid,
    Tanh,
    Relu,
    Sgd,
    Adam,
    Adamw,
    Rmsprop,
    Adagrad,
    Embedding,
    Elementwise,
}

impl Pattern {
    /// The name in programs' texts and in options.
    ///
    /// ```
    /// use ex_burn_engine::program::Pattern;
    ///
    /// assert_eq!(Pattern::LogSoftmax.name(), "log_softmax");
    /// ```
    pub fn name(self) -> &'static str {
        self.into()
    }
}
