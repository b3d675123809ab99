//! The one error type of the engine. Data first; the text is derived from it.

use crate::types::{TensorType, Type};

/// What went wrong, with what a person needs to act on it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The instruction set has the operation, but not for this type on this device.
    #[error("{op} of {dtype} is not implemented on {device}")]
    Unsupported {
        /// Operation name.
        op: String,
        /// Element type asked for.
        dtype: Type,
        /// Device name.
        device: String,
    },
    /// Arguments that no device can accept.
    #[error("{op}: {reason}")]
    Invalid {
        /// Operation name.
        op: String,
        /// What was given and what would be right.
        reason: String,
    },
    /// Elements that the operation has no answer for, such as a divisor of 0.
    #[error("{op}: {reason}")]
    Arithmetic {
        /// Operation name.
        op: String,
        /// What the elements are.
        reason: String,
    },
    /// Elements that are no arguments of the operation, in the sentence of Nx.
    #[error("{op}: {reason}")]
    Argument {
        /// Operation name.
        op: String,
        /// What was given.
        reason: String,
    },
    /// An index outside of its axis, found while running.
    #[error("{op}: index {index} is out of bounds for axis {axis} in shape {shape:?}")]
    OutOfBounds {
        /// Operation name.
        op: String,
        /// The index given.
        index: i128,
        /// The axis it indexes.
        axis: usize,
        /// Shape of the indexed tensor.
        shape: Vec<usize>,
    },
    /// A value whose type or shape differs from the declared one.
    #[error("{op}: expected {expected}, got {got}")]
    Mismatch {
        /// Operation name.
        op: String,
        /// Declared type.
        expected: TensorType,
        /// Type of the value.
        got: TensorType,
    },
    /// The tensor's memory was given back.
    #[error("{op}: the tensor has been deallocated")]
    Deallocated {
        /// Operation name.
        op: String,
    },
    /// A model or program file that cannot be read.
    #[error("{path}: {reason}")]
    File {
        /// File name.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Training met a loss, gradient or parameter that is not a number.
    #[error("the {what} is {value} at epoch {epoch}, step {step}")]
    NonFinite {
        /// `loss`, `gradient` or `parameter`.
        what: String,
        /// Number of the parameter, or of that whose gradient it is.
        parameter: Option<usize>,
        /// The value met, as text.
        value: String,
        /// Epoch, from 1.
        epoch: usize,
        /// Step within the epoch, from 1.
        step: usize,
    },
    /// A panic caught at the boundary.
    #[error("{op} panicked: {message}")]
    Panic {
        /// Operation name.
        op: String,
        /// The panic's message.
        message: String,
    },
}

/// Result of engine calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An [`Error::Invalid`] from anything that prints.
    pub fn invalid(op: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Invalid { op: op.into(), reason: reason.to_string() }
    }

    /// An [`Error::Arithmetic`].
    pub fn arithmetic(op: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Arithmetic { op: op.into(), reason: reason.to_string() }
    }

    /// Operation the error belongs to, or the file's path.
    pub fn op(&self) -> &str {
        match self {
            Self::Unsupported { op, .. }
            | Self::Invalid { op, .. }
            | Self::Arithmetic { op, .. }
            | Self::Argument { op, .. }
            | Self::OutOfBounds { op, .. }
            | Self::Mismatch { op, .. }
            | Self::Deallocated { op }
            | Self::Panic { op, .. } => op,
            Self::File { .. } => "file",
            Self::NonFinite { .. } => "fit",
        }
    }
}
