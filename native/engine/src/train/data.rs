//! Rows in memory and the order they are seen in.

use std::sync::Arc;

use chacha20::ChaCha8Rng;
use rand::SeedableRng;
use rand::seq::SliceRandom;

use super::control::Batch;
use super::job::Rows;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::exec::Executable;
use crate::types::{TensorType, Type};
use crate::value::Value;

/// Tensors that share the length of their first axis.
#[derive(Clone, Debug)]
pub(super) struct Dataset {
    /// Each as a matrix with one line for each row.
    lines: Vec<Value>,
    types: Vec<TensorType>,
    rows: usize,
}

impl Dataset {
    pub(super) fn new(name: &str, tensors: Vec<Value>) -> Result<Self> {
        let types: Vec<TensorType> = tensors.iter().map(Value::ty).collect();
        let rows = leading(name, &types)?;
        let line = |value: Value| {
            let len = value.len() / rows;
            Ok(value.to_device(&Device::Cpu)?.contiguous().reshape(&[rows, len]))
        };
        Ok(Self { lines: tensors.into_iter().map(line).collect::<Result<_>>()?, types, rows })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Types of a batch of `rows` rows.
    pub(super) fn batch_types(&self, rows: usize) -> Vec<TensorType> {
        let with_rows = |ty: &TensorType| TensorType::new(ty.dtype, [&[rows], &ty.shape[1..]].concat());
        self.types.iter().map(with_rows).collect()
    }

    /// The rows numbered `rows`, in that order.
    pub(super) fn batch(&self, rows: &[i64]) -> Result<Vec<Value>> {
        let bytes = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
        let index = Value::from_bytes(&TensorType::new(Type::S64, [rows.len()]), bytes, &Device::Cpu)?;
        let select = |(line, ty): (&Value, TensorType)| line.clone().select(0, index.clone()).reshape(&ty.shape);
        Ok(self.lines.iter().zip(self.batch_types(rows.len())).map(select).collect())
    }
}

impl Rows {
    /// The rows numbered `numbers`, with the program of as many.
    pub(super) fn batch(&self, numbers: &[i64]) -> Result<Batch> {
        let rows = numbers.len();
        let executable: &Arc<Executable> = self
            .programs
            .get(&rows)
            .ok_or_else(|| Error::invalid("fit", format!("there is no program for batches of {rows}")))?;
        Ok(Batch { executable: executable.clone(), tensors: self.dataset.batch(numbers)?, rows })
    }
}

/// The common length of the first axis of `types`.
pub(super) fn leading(name: &str, types: &[TensorType]) -> Result<usize> {
    let invalid = |reason: String| Err(Error::invalid("fit", format!("the {name} {reason}")));
    let Some(first) = types.first() else { return invalid("has no tensor; give at least one".into()) };
    let Some(&rows) = first.shape.first() else { return invalid(format!("has {first}, which has no rows")) };
    match types.iter().find(|ty| ty.shape.first() != Some(&rows)) {
        Some(other) => invalid(format!("has tensors of different lengths: {first} and {other}")),
        None if rows == 0 => invalid(format!("is empty: {first}")),
        None => Ok(rows),
    }
}

/// The order of an epoch's rows: a permutation that depends on the seed and the epoch's number only, or as they are.
///
/// ```
/// use ex_burn_engine::train::order;
///
/// assert_eq!(order(3, None, 1), [0, 1, 2]);
/// assert_eq!(order(5, Some(42), 1), order(5, Some(42), 1));
/// ```
pub fn order(rows: usize, seed: Option<u64>, epoch: usize) -> Vec<i64> {
    let mut order: Vec<i64> = (0..rows as i64).collect();
    if let Some(seed) = seed {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(epoch as u64);
        order.shuffle(&mut generator);
    }
    order
}
