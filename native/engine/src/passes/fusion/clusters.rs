//! Which instructions run together.

use super::cluster::{Cluster, LARGEST, Part, is_view};
use crate::cpu::tape::{LONGEST_ROW, folds};
use crate::ops::fused::kernel;
use crate::program::{Binary, Extent, Fold, Instruction, Op, Program, Reduce};
use crate::types::{TensorType, Type};

/// A partition of a program's instructions.
pub(super) struct Clusters<'a> {
    pub(super) program: &'a Program,
    types: Vec<&'a TensorType>,
    /// The instruction that makes each value; inputs have none.
    makers: Vec<Option<usize>>,
    /// The instructions that read each value.
    pub(super) readers: Vec<Vec<usize>>,
    /// Whether each value is a result of the program.
    is_output: Vec<bool>,
    /// For each instruction the makers of values that it needs as they are outside of a region.
    apart: Vec<Vec<usize>>,
    /// The instruction before each one that must not run after it.
    pub(super) effects: Vec<Option<usize>>,
    /// The instruction after each one that must not run before it.
    pub(super) later_effects: Vec<Option<usize>>,
    /// Id of the first result of each instruction.
    pub(super) results: Vec<usize>,
    /// The cluster of each instruction: the number of one of its instructions.
    pub(super) of: Vec<usize>,
    pub(super) clusters: Vec<Cluster>,
}

impl<'a> Clusters<'a> {
    pub(super) fn find(program: &'a Program) -> Self {
        let count = program.instructions.len();
        let mut found = Self {
            program,
            types: program.value_types(),
            makers: vec![None; program.inputs.len()],
            readers: vec![vec![]; program.value_types().len()],
            is_output: vec![false; program.value_types().len()],
            apart: vec![vec![]; count],
            effects: vec![None; count],
            later_effects: vec![None; count],
            results: vec![],
            of: (0..count).collect(),
            clusters: vec![Cluster::default(); count],
        };
        program.outputs.iter().for_each(|&id| found.is_output[id] = true);
        let mut last_effect = None;
        for (i, instruction) in program.instructions.iter().enumerate() {
            found.results.push(found.makers.len());
            found.makers.extend(instruction.outputs.iter().map(|_| Some(i)));
            instruction.inputs.iter().for_each(|&id| found.readers[id].push(i));
            if instruction.op.has_effect() {
                found.effects[i] = last_effect.replace(i);
                found.effects[i].into_iter().for_each(|before| found.later_effects[before] = Some(i));
            }
            found.add(i, instruction);
        }
        found
    }

    /// The cluster of an instruction.
    pub(super) fn of(&self, instruction: usize) -> usize {
        self.of[instruction]
    }

    /// The shape of a cluster's region and how many of its last axes are folded.
    pub(super) fn region(&self, cluster: usize) -> (&[usize], usize) {
        (&self.clusters[cluster].shape, self.clusters[cluster].row_axes)
    }

    /// Whether a cluster is a region that folds nothing.
    pub(super) fn is_elementwise(&self, cluster: usize) -> bool {
        self.clusters[cluster].is_open && self.clusters[cluster].row_axes == 0
    }

    /// The instructions whose results an instruction reads.
    pub(super) fn producers(&self, instruction: usize) -> impl Iterator<Item = usize> + '_ {
        self.program.instructions[instruction].inputs.iter().filter_map(|&id| self.makers[id])
    }

    /// The instructions that read a value.
    pub(super) fn readers(&self, id: usize) -> &[usize] {
        &self.readers[id]
    }

    /// Whether a value is a result of the program.
    pub(super) fn is_output(&self, id: usize) -> bool {
        self.is_output[id]
    }

    /// The instruction that makes a value.
    pub(super) fn maker(&self, id: usize) -> Option<usize> {
        self.makers[id]
    }

    /// The id of an instruction's first result.
    pub(super) fn result(&self, instruction: usize) -> usize {
        self.results[instruction]
    }

    /// The type of a value.
    pub(super) fn ty(&self, id: usize) -> &TensorType {
        self.types[id]
    }

    /// Puts an instruction in a cluster with what it reads, where it can, else in one of its own.
    fn add(&mut self, i: usize, instruction: &Instruction) {
        let depth = self.before(i).map(|c| self.clusters[c].depth + 1).max().unwrap_or(0);
        self.clusters[i] = Cluster { members: vec![i], depth, ..Cluster::default() };
        let Some(part) = self.part(instruction) else { return };
        let (shape, row_axes) = (part.shape, part.row_axes);
        self.clusters[i] = Cluster { members: vec![i], shape, row_axes, is_open: true, depth };
        self.apart[i] = self.producers(i).filter(|&maker| !part.with.contains(&self.of[maker])).collect();
        for cluster in part.with {
            let (cluster, own) = (self.of[cluster], self.of[i]);
            if cluster != own && self.may_join(cluster, own) {
                self.join(cluster, own);
            }
        }
        // A change of shape is none of a region's business unless it is within one.
        if is_view(&instruction.op) && self.clusters[self.of[i]].members.len() == 1 {
            self.clusters[self.of[i]].is_open = false;
        }
    }

    fn part(&self, instruction: &Instruction) -> Option<Part> {
        let [out] = instruction.outputs.as_slice() else { return None };
        match &instruction.op {
            Op::Reduce(reduce) => self.fold(reduce, instruction, out),
            Op::Reshape | Op::Broadcast(_) => self.view(instruction, out),
            op => {
                let types: Vec<_> = instruction.inputs.iter().map(|&id| self.types[id].dtype).collect();
                let is_clip = matches!(op, Op::Clip) && clips(&types, out.dtype);
                (is_clip || kernel(op, &types, out.dtype).is_some()).then(|| self.elementwise(instruction, out))?
            }
        }
    }

    /// An elementwise instruction: over the region of its operands, or one element for each row of it.
    fn elementwise(&self, instruction: &Instruction, out: &TensorType) -> Option<Part> {
        let operands: Vec<(usize, usize, Extent)> = instruction.inputs.iter().filter_map(|&id| self.open(id)).collect();
        let in_rows = operands.iter().find(|&&(id, c, extent)| {
            let same = |&other: &usize| self.types[other].shape == out.shape || self.is_one(other);
            extent == Extent::Row
                && self.types[id].shape == out.shape
                && self.clusters[c].shape != out.shape
                && instruction.inputs.iter().all(same)
        });
        if let Some(&(_, cluster, _)) = in_rows {
            let region = &self.clusters[cluster];
            let with = operands.iter().filter(|&&(_, c, _)| self.clusters[c].shape == region.shape);
            let with = with.map(|&(_, c, _)| c).collect();
            return Some(Part { shape: region.shape.clone(), row_axes: region.row_axes, with });
        }
        if out.shape.iter().product::<usize>() < 2 {
            return None;
        }
        let with: Vec<usize> = operands
            .iter()
            .filter(|&&(_, c, _)| {
                let region = &self.clusters[c];
                let fits = |&(id, other, extent): &(usize, usize, Extent)| {
                    let shape = &self.types[id].shape;
                    other != c || extent == Extent::Whole || *shape == out.shape || region.spreads(shape)
                };
                region.shape == out.shape && operands.iter().all(fits)
            })
            .map(|&(_, c, _)| c)
            .collect();
        let row_axes = with.iter().map(|&c| self.clusters[c].row_axes).max().unwrap_or(0);
        Some(Part { shape: out.shape.clone(), row_axes, with })
    }

    /// A fold over the last axes.
    fn fold(&self, reduce: &Reduce, instruction: &Instruction, out: &TensorType) -> Option<Part> {
        let id = *instruction.inputs.first()?;
        let operand = self.types[id];
        let rank = operand.shape.len();
        let mut axes = reduce.axes.clone().unwrap_or_else(|| (0..rank).collect());
        axes.sort_unstable();
        let row_axes = axes.len();
        let is_last = axes.iter().copied().eq(rank - row_axes..rank);
        let dtype = if matches!(reduce.fold, Fold::All | Fold::Any) { operand.dtype } else { out.dtype };
        let is_plain = [operand.dtype, out.dtype].iter().all(|dtype| !dtype.is_packed() && !dtype.is_complex());
        if row_axes == 0 || !is_last || operand.shape.iter().product::<usize>() < 2 || !is_plain {
            return None;
        }
        folds(reduce.fold, dtype)?;
        let with = self.open(id).filter(|&(_, c, extent)| {
            let region = &self.clusters[c];
            extent == Extent::Whole && region.shape == operand.shape && [0, row_axes].contains(&region.row_axes)
        });
        let with = with.map(|(_, c, _)| c).into_iter().collect();
        Some(Part { shape: operand.shape.clone(), row_axes, with })
    }

    /// A change of shape of a value of one element for each row.
    fn view(&self, instruction: &Instruction, out: &TensorType) -> Option<Part> {
        let (id, cluster, extent) = self.open(*instruction.inputs.first()?)?;
        let (region, from) = (&self.clusters[cluster], &self.types[id].shape);
        let fits = match &instruction.op {
            Op::Broadcast(attrs) => {
                out.shape == region.shape && region.is_row_shape(from) && attrs.axes.iter().copied().eq(0..from.len())
            }
            _ => region.is_row_shape(&out.shape),
        };
        let fits = fits && extent == Extent::Row;
        fits.then(|| Part { shape: region.shape.clone(), row_axes: region.row_axes, with: vec![cluster] })
    }

    /// The cluster that makes a value, where more may join it, and how many elements the value has there.
    fn open(&self, id: usize) -> Option<(usize, usize, Extent)> {
        let maker = self.makers[id]?;
        let cluster = self.of[maker];
        let region = &self.clusters[cluster];
        if !region.is_open {
            return None;
        }
        let extent = self.extent(maker);
        // What is folded from cut rows is known at the end only.
        let is_known = extent == Extent::Whole || region.row() <= LONGEST_ROW;
        is_known.then_some((id, cluster, extent))
    }

    /// How many elements the result of an instruction has in its region.
    pub(super) fn extent(&self, instruction: usize) -> Extent {
        let region = &self.clusters[self.of[instruction]];
        let step = &self.program.instructions[instruction];
        match &step.op {
            Op::Reduce(_) => Extent::Row,
            Op::Reshape | Op::Broadcast(_) => Extent::Row,
            _ if step.outputs[0].shape == region.shape => Extent::Whole,
            _ => Extent::Row,
        }
    }

    fn is_one(&self, id: usize) -> bool {
        self.types[id].shape.iter().product::<usize>() == 1
    }

    /// Whether two clusters have one region and no path leads out of them and back.
    fn may_join(&self, a: usize, b: usize) -> bool {
        let (one, other) = (&self.clusters[a], &self.clusters[b]);
        let rows = one.row_axes == other.row_axes || one.row_axes == 0 || other.row_axes == 0;
        let fits = one.members.len() + other.members.len() <= LARGEST;
        one.shape == other.shape && rows && fits && !self.are_apart([a, b]) && !self.leads_back([a, b])
    }

    /// Whether one of two clusters needs what the other one makes as it is outside of a region.
    fn are_apart(&self, [a, b]: [usize; 2]) -> bool {
        let needs = |reader: usize, maker: usize| {
            let mut apart = self.clusters[reader].members.iter().flat_map(|&i| &self.apart[i]);
            apart.any(|&i| self.of[i] == maker)
        };
        needs(a, b) || needs(b, a)
    }
}

/// Whether there is a loop that holds an operand between bounds, the first of these types. Floats may have integers as bounds.
fn clips(types: &[Type], out: Type) -> bool {
    let &[x, low, high] = types else { return false };
    let has_loop = |op, operands: &[Type]| kernel(&Op::Binary(op), operands, out).is_some();
    let same = types.iter().all(|dtype| *dtype == out);
    let mixed = || out.is_float() && has_loop(Binary::Max, &[low, x]) && has_loop(Binary::Min, &[high, out]);
    !out.is_complex() && !out.is_packed() && (same || mixed())
}
