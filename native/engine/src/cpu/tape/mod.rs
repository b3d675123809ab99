//! Fused elementwise operations: a short list of loops that pass over a block of elements while it is in the first cache.
//!
//! The elements of a region are rows of equal length, one after the other. A value of the region has as many elements as
//! that, or one for each row, or one in all. Folds make one element of each row; spreading repeats them.

mod ahead;
mod arena;
mod chains;
mod folds;
mod output;
mod rows;
mod run;
mod serial;
mod source;
mod worker;

pub(crate) use folds::{Folds, folds};
pub(crate) use rows::Rows;

use super::{Kernel, Link};
use crate::program::Extent;
use crate::types::Type;

/// Rows beyond this length are cut, and what is folded from them is known at the end only.
pub(crate) const LONGEST_ROW: usize = 16 * 1024;

/// From this length on, an element for each row is not repeated.
pub(crate) use super::block::LONG as LONG_ROW;

/// Elements of a block that is not a whole row: few enough that the memory of the next comes while one is computed, and
/// many enough that a loop over them takes longer than its start.
const BLOCK: usize = 1024;

/// Blocks that are one where there are elements for rows: what is done to those takes as long for one row as for several.
const JOINED: usize = 4;

/// A region made ready to run.
#[derive(Debug)]
pub(crate) struct Tape {
    /// Length of each axis of the region.
    pub(crate) shape: Vec<usize>,
    /// Elements of a row.
    pub(crate) row: usize,
    /// Element type and extent of each operand.
    pub(crate) inputs: Vec<(Type, Extent)>,
    /// Slots that hold one element, repeated, from the start.
    pub(crate) constants: Vec<(usize, Vec<u8>)>,
    /// Places of one element in all that is not repeated.
    pub(crate) alone: Vec<Place>,
    /// Operands of one element, an integer, that must be above zero.
    pub(crate) divisors: Vec<usize>,
    /// What is done to each block.
    pub(crate) steps: Vec<Step>,
    /// Element type, extent and shape of each result.
    pub(crate) outputs: Vec<(Type, Extent, Vec<usize>)>,
    /// Buffers for a block.
    pub(crate) slots: usize,
    /// Bytes of the widest element.
    pub(crate) width: usize,
}

/// Where the elements of a value that belong to a block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the memory of an operand.
    Input(usize),
    /// In a buffer.
    Slot(usize),
    /// In the memory of a result.
    Output(usize),
}

/// One loop.
#[derive(Debug)]
pub(crate) struct Step {
    /// The loop.
    pub(crate) what: What,
    /// Its operands.
    pub(crate) from: Vec<Place>,
    /// Its result, which is none of the operands.
    pub(crate) to: Place,
    /// How many elements the result has.
    pub(crate) extent: Extent,
    /// The operand of a kernel that is one element for each row, or in all, and not repeated; and which of both.
    pub(crate) one: Option<(usize, Extent)>,
}

/// Kinds of loops.
#[derive(Debug)]
pub(crate) enum What {
    /// Elements from elements.
    Kernel(Kernel),
    /// Functions of the elements of the first operand, one after the other.
    Chain(Vec<Joint>),
    /// An element from each row.
    Fold(Box<dyn Folds>),
    /// A row from each element of so many bytes.
    Spread(usize),
}

/// A function in a chain of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joint {
    pub(crate) link: Link,
    /// Its other operand, where it has one and not the same elements twice.
    pub(crate) beside: Option<Read>,
    /// What the other operand is multiplied by first.
    pub(crate) times: Option<Read>,
    /// Whether the other operand is the first one.
    pub(crate) turned: bool,
}

/// An operand by its number, and how many elements of it are read.
pub(crate) type Read = (usize, Extent);

impl Joint {
    /// The operands of the chain that it reads.
    fn reads(&self) -> impl Iterator<Item = Read> {
        self.beside.into_iter().chain(self.times)
    }
}

impl Step {
    /// The operand as one element for each row, or in all, where it is not repeated.
    pub(crate) fn reads_one(&self, operand: usize) -> Option<Extent> {
        let joints: &[Joint] = if let What::Chain(joints) = &self.what { joints } else { &[] };
        let mut reads = joints.iter().flat_map(Joint::reads).chain(self.one);
        reads.find(|&(number, extent)| number == operand && extent != Extent::Whole).map(|(_, extent)| extent)
    }

    /// How many loops it stands for.
    fn work(&self) -> usize {
        if let What::Chain(joints) = &self.what { joints.len() } else { 1 }
    }
}

/// Bytes of the widest element of a tape's values.
pub(crate) fn width(steps: &[Step], inputs: &[(Type, Extent)]) -> usize {
    let made = steps.iter().flat_map(|step| match &step.what {
        What::Kernel(kernel) => kernel.operands.iter().chain([&kernel.result]).map(|dtype| dtype.size()).collect(),
        What::Chain(_) => vec![size_of::<f32>()],
        What::Fold(fold) => vec![fold.operand().size(), fold.result().size()],
        What::Spread(size) => vec![*size],
    });
    made.chain(inputs.iter().map(|(dtype, _)| dtype.size())).max().unwrap_or(1)
}

impl Tape {
    /// One loop over whole tensors of a shape.
    pub(crate) fn single(kernel: Kernel, shape: Vec<usize>) -> Self {
        let inputs: Vec<_> = kernel.operands.iter().map(|&dtype| (dtype, Extent::Whole)).collect();
        let from = (0..inputs.len()).map(Place::Input).collect();
        let outputs = vec![(kernel.result, Extent::Whole, shape.clone())];
        let step = Step { what: What::Kernel(kernel), from, to: Place::Output(0), extent: Extent::Whole, one: None };
        let steps = vec![step];
        let width = width(&steps, &inputs);
        let row = shape.iter().product();
        Self { row, shape, inputs, constants: vec![], alone: vec![], divisors: vec![], steps, outputs, slots: 0, width }
    }

    /// Whether each element of the results comes from the elements at its own place alone.
    pub(crate) fn is_flat(&self) -> bool {
        let is_whole =
            |(_, extent, shape): &(Type, Extent, Vec<usize>)| *extent == Extent::Whole && *shape == self.shape;
        let is_folded = |step: &Step| matches!(step.what, What::Fold(_));
        !self.has_rows() && !self.steps.iter().any(is_folded) && self.outputs.iter().all(is_whole)
    }

    /// Whether a run may answer that the results depend on the order of the elements.
    pub(crate) fn may_decline(&self) -> bool {
        self.is_long() && self.steps.iter().any(|step| matches!(step.what, What::Fold(_)))
    }

    /// Whether rows are cut: where they are long, and where nothing is known of rows as a whole.
    fn is_long(&self) -> bool {
        self.row > LONGEST_ROW || self.row > BLOCK && !self.has_rows()
    }

    fn has_rows(&self) -> bool {
        let is_row = |extent: &Extent| *extent == Extent::Row;
        self.inputs.iter().any(|(_, extent)| is_row(extent)) || self.steps.iter().any(|step| is_row(&step.extent))
    }

    /// Elements in all.
    fn len(&self) -> usize {
        self.shape.iter().product()
    }
}
