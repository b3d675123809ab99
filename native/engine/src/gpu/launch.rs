//! Regions on their way to a GPU: where their operands lie, and how many threads work.

use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::calculate_cube_count_elemwise;
use cubecl::prelude::*;

use super::kernel::fold;
use super::known::Known;
use super::layouts::words;
use super::mapped::Mapped;
use super::step::{Fold, Read, Region, Step, Write};
use super::{Adapter, transfer};
use crate::error::{Error, Result};
use crate::types::TensorType;
use crate::value::Value;

/// An operand of a region: a tensor, and by how many elements each axis of the region steps in it, from where; without strides
/// one that steps load from.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) tensor: CubeTensor,
    pub(crate) start: usize,
    pub(crate) strides: Vec<isize>,
}

impl Operand {
    /// A value that steps load elements of.
    pub(crate) fn loaded(value: &Value, rank: usize) -> Option<Self> {
        // No region of its own has so large a step.
        Some(Self { tensor: value.cube()?.clone(), start: LOADED, strides: vec![0; rank] })
    }

    /// A contiguous value that broadcasts to `shape`.
    pub(crate) fn broadcast(value: &Value, shape: &[usize]) -> Option<Self> {
        let tensor = value.cube()?.clone();
        let own = value.shape();
        let lead = shape.len().checked_sub(own.len())?;
        let mut strides = vec![0; shape.len()];
        let mut step = 1;
        for axis in (0..own.len()).rev() {
            strides[lead + axis] = if own[axis] == 1 { 0 } else { step };
            step *= own[axis] as isize;
        }
        Some(Self { tensor, start: 0, strides })
    }
}

/// The start of an operand that is not read by strides.
const LOADED: usize = usize::MAX;

/// How an operand is read in a region of `shape`, where it needs no strides.
fn read(start: usize, strides: &[isize], shape: &[usize]) -> Option<Read> {
    match start {
        LOADED => return Some(Read::Loaded),
        0 if strides.iter().zip(shape).all(|(&stride, &length)| stride == 0 || length == 1) => return Some(Read::Same),
        0 => {}
        _ => return None,
    }
    let mut step = 1;
    for (&stride, &length) in strides.iter().zip(shape).rev() {
        if length != 1 && stride != step {
            return None;
        }
        step *= length as isize;
    }
    Some(Read::Each)
}

/// Where [`Work::write`] writes.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The first element, and how many elements each axis of the region steps.
    Strided(usize, Vec<isize>),
    /// The place that a value is.
    At(usize),
}

/// The most elements that a thread's number counts up to.
const MOST: usize = u32::MAX as usize / 4;

/// A region about to run on operands.
#[derive(Clone, Debug)]
pub(crate) struct Work<'a> {
    pub(crate) adapter: Adapter,
    /// Length of each axis.
    pub(crate) shape: Vec<usize>,
    pub(crate) operands: Vec<Operand>,
    pub(crate) steps: Vec<Step>,
    /// The values that are results.
    pub(crate) results: Vec<usize>,
    pub(crate) types: &'a [TensorType],
}

impl Work<'_> {
    /// What a kernel is told of the region, and its steps.
    pub(crate) fn described(&self) -> Result<(Vec<u32>, Known<Region>)> {
        self.mapped().map(|kernel| (kernel.layout, kernel.region))
    }

    /// The kernel that computes an element for each of the region in each result.
    pub(crate) fn mapped(&self) -> Result<Mapped> {
        let len = counted(self.shape.iter().product())?;
        let (layout, region) = Merged::new(&self.shape, &self.operands, &self.steps).region(self, [len, 1, 1, 1]);
        Ok(Mapped { len, layout, region: Known::new(region) })
    }

    fn tensors(&self) -> Vec<&CubeTensor> {
        self.operands.iter().map(|operand| &operand.tensor).collect()
    }

    /// An element for each of the region in each result.
    pub(crate) fn run(self) -> Result<Vec<Value>> {
        self.mapped()?.run(&self.tensors(), self.types, self.adapter)
    }

    /// Writes the only result into `target`: by strides from a start, or at a place that is a value.
    pub(crate) fn write(mut self, target: Target, tensor: &CubeTensor) -> Result<()> {
        let len = counted(self.shape.iter().product())?;
        if len == 0 {
            return Ok(());
        }
        let write = match target {
            Target::At(value) => Write::At(value),
            Target::Strided(start, strides) => {
                self.operands.push(Operand { tensor: tensor.clone(), start, strides });
                Write::Strided(0)
            }
        };
        let merged = Merged::new(&self.shape, &self.operands, &self.steps);
        let strides =
            matches!(write, Write::Strided(_)).then(|| self.operands.pop().zip(merged.strides.last().cloned()));
        let (mut layout, mut region) = merged.region(&self, [len, 1, 1, 1]);
        region.write = write;
        if let Some(Some((operand, strides))) = strides {
            let read = region.reads.iter().filter(|read| matches!(read, Read::Strided(_))).count();
            region.write = Write::Strided(read);
            layout.push(operand.start as u32);
            layout.extend(strides.iter().map(|&stride| stride as u32));
        }
        let kernel = Mapped { len, layout, region: Known::new(region) };
        kernel.launch(&self.tensors(), std::slice::from_ref(tensor), self.adapter)
    }

    /// The only result folded along all axes but the first `kept`, of which none is empty.
    pub(crate) fn fold(self, fold: Fold, kept: usize) -> Result<Value> {
        let rows: usize = counted(self.shape[..kept].iter().product())?;
        let folded: usize = self.shape[kept..].iter().product();
        counted(rows.saturating_mul(folded))?;
        let along_rows = self.operands.iter().any(|operand| operand.strides[kept..].last() == Some(&1));
        let lanes = if folded >= 32 && (along_rows || rows < MANY_ROWS) { fold::LANES } else { 1 };
        // Few long rows are folded in chunks, and these once more.
        let chunks = if lanes > 1 && rows < FEW_ROWS { folded.div_ceil(LONG_CHUNK).min(FEW_ROWS) } else { 1 };
        let chunk = folded.div_ceil(chunks);
        let chunks = folded.div_ceil(chunk);
        let mut shape = self.shape[..kept].to_vec();
        if chunks > 1 {
            shape.push(chunks);
        }
        let partial = TensorType::new(self.types[0].dtype, shape.clone());
        let output = transfer::empty(&partial, self.adapter)?;
        if rows > 0 {
            self.launch_fold(fold, kept, lanes, [rows * chunks, folded, chunk, chunks], &output)?;
        }
        let value = transfer::from_cube(partial.dtype, output);
        if chunks == 1 {
            return transfer::reshaped(&value, partial.dtype, &self.types[0].shape).ok_or_else(lost);
        }
        let operand = Operand::broadcast(&value, &shape).ok_or_else(lost)?;
        Work { shape, operands: vec![operand], steps: vec![], results: vec![0], ..self }.fold(fold, kept)
    }

    fn launch_fold(&self, fold: Fold, kept: usize, lanes: usize, head: [usize; 4], output: &CubeTensor) -> Result<()> {
        let client = self.adapter.client()?;
        let (layout, region) = Merged::whole(&self.shape, &self.operands, &self.steps, kept).region(self, head);
        let region = Known::new(region);
        let dim = if lanes == 1 { CubeDim::new(client, head[0]) } else { CubeDim::new_1d(lanes as u32) };
        let units = if lanes == 1 { head[0] } else { head[0] * lanes };
        let count = calculate_cube_count_elemwise(client, units, dim);
        let inputs = self.operands.iter().map(|operand| buffer(&operand.tensor)).collect();
        // SAFETY: as in `run`.
        unsafe {
            fold::fold_region::launch_unchecked(
                client,
                count,
                dim,
                inputs,
                buffer(output),
                words(self.adapter, &layout)?,
                region,
                fold,
                lanes,
            )
        };
        Ok(())
    }
}

/// From so many rows on, a thread for each keeps a GPU busy.
const MANY_ROWS: usize = 8192;
/// Fewer rows do not keep it busy even with many threads for each.
const FEW_ROWS: usize = 256;
/// Elements that many threads fold at least.
const LONG_CHUNK: usize = 8192;

pub(super) fn lost() -> Error {
    Error::invalid("device", "a value left the GPU")
}

pub(super) fn counted(len: usize) -> Result<usize> {
    if len <= MOST {
        return Ok(len);
    }
    Err(Error::invalid("device", format!("{len} elements at once, a GPU takes {MOST} at most")))
}

/// A region's axes, those along which all operands step alike as one.
struct Merged {
    shape: Vec<usize>,
    strides: Vec<Vec<isize>>,
}

impl Merged {
    fn new(shape: &[usize], operands: &[Operand], steps: &[Step]) -> Self {
        let all: Vec<Vec<isize>> = operands.iter().map(|operand| operand.strides.clone()).collect();
        if steps.iter().any(|step| matches!(step, Step::Place(_))) {
            return Self { shape: shape.to_vec(), strides: all };
        }
        let mut merged = Self { shape: vec![], strides: vec![vec![]; operands.len()] };
        for axis in (0..shape.len()).filter(|&axis| shape[axis] != 1) {
            merged.push(shape[axis], all.iter().map(|strides| strides[axis]));
        }
        merged
    }

    /// The axes of a fold: those kept and those folded are merged apart.
    fn whole(shape: &[usize], operands: &[Operand], steps: &[Step], kept: usize) -> Self {
        let part = |axes: std::ops::Range<usize>| {
            let inner: Vec<Operand> = operands
                .iter()
                .map(|operand| Operand { strides: operand.strides[axes.clone()].to_vec(), ..operand.clone() })
                .collect();
            Self::new(&shape[axes.clone()], &inner, steps)
        };
        let (mut rows, folded) = (part(0..kept), part(kept..shape.len()));
        rows.shape.extend(folded.shape);
        rows.strides.iter_mut().zip(folded.strides).for_each(|(all, more)| all.extend(more));
        rows
    }

    /// The layout that a kernel reads, and the region.
    fn region(&self, work: &Work<'_>, head: [usize; 4]) -> (Vec<u32>, Region) {
        let mut layout: Vec<u32> = head.iter().chain(&[0]).chain(&self.shape).map(|&length| length as u32).collect();
        let mut reads = Vec::with_capacity(work.operands.len());
        let mut strided = 0;
        for (operand, strides) in work.operands.iter().zip(&self.strides) {
            reads.push(read(operand.start, strides, &self.shape).unwrap_or_else(|| {
                layout.push(operand.start as u32);
                // Steps back wrap around.
                layout.extend(strides.iter().map(|&stride| stride as u32));
                strided += 1;
                Read::Strided(strided - 1)
            }));
        }
        let (steps, results) = (work.adapter.steps(&work.steps), work.results.clone());
        (layout, Region { reads, steps, results, write: Write::Each, rank: self.shape.len() })
    }

    /// Adds an inner axis, to the last one where that steps over all of it.
    fn push(&mut self, length: usize, strides: impl Iterator<Item = isize> + Clone) {
        let joins = |(have, step): (&Vec<isize>, isize)| have.last() == Some(&(step * length as isize));
        if !self.shape.is_empty() && self.strides.iter().zip(strides.clone()).all(joins) {
            *self.shape.last_mut().unwrap_or(&mut 0) *= length;
            self.strides.iter_mut().zip(strides).for_each(|(have, step)| {
                have.pop();
                have.push(step);
            });
        } else {
            self.shape.push(length);
            self.strides.iter_mut().zip(strides).for_each(|(have, step)| have.push(step));
        }
    }
}

/// A tensor's memory as a kernel takes it.
pub(crate) fn buffer(tensor: &CubeTensor) -> BufferArg {
    let len = tensor.meta.shape().iter().product::<usize>().max(1);
    // SAFETY: the buffer holds the words of the tensor's shape.
    unsafe { BufferArg::from_raw_parts(tensor.handle.clone(), len) }
}
