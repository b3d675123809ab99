//! From the instructions of a cluster to one operation.

use std::collections::HashMap;

use super::cluster::is_view;
use super::clusters::Clusters;
use crate::ops::fused::compile;
use crate::passes::writer::Writer;
use crate::program::{Axes, Extent, Fused, Op, Program};
use crate::types::TensorType;

/// Writes the instructions of a cluster, as one operation where it is worth it. `ids` are the new ids of values.
pub(super) fn write(
    program: &Program,
    clusters: &Clusters<'_>,
    members: &[usize],
    ids: &mut [Option<usize>],
    writer: &mut Writer,
) {
    let works = members.iter().filter(|&&i| !is_view(&program.instructions[i].op)).count();
    if works < fewest(program, clusters, members) || !write_fused(program, clusters, members, ids, writer) {
        members.iter().for_each(|&i| write_alone(program, clusters, i, ids, writer));
    }
}

/// Fewest operations that are worth a region: one is where it may run on the blocks of what it reads.
fn fewest(program: &Program, clusters: &Clusters<'_>, members: &[usize]) -> usize {
    let comes_in_blocks = |i: usize| matches!(program.instructions[i].op, Op::Conv(_) | Op::Take(_));
    let is_next = members.iter().flat_map(|&i| clusters.producers(i)).any(comes_in_blocks);
    if is_next && clusters.is_elementwise(clusters.of(members[0])) { 1 } else { 2 }
}

fn write_alone(program: &Program, clusters: &Clusters<'_>, i: usize, ids: &mut [Option<usize>], writer: &mut Writer) {
    let instruction = &program.instructions[i];
    let inputs = instruction.inputs.iter().map(|&id| known(ids, id)).collect();
    let first = writer.emit(instruction.op.clone(), inputs, instruction.outputs.clone());
    (0..instruction.outputs.len()).for_each(|k| ids[clusters.result(i) + k] = Some(first + k));
}

fn write_fused(
    program: &Program,
    clusters: &Clusters<'_>,
    members: &[usize],
    ids: &mut [Option<usize>],
    writer: &mut Writer,
) -> bool {
    let region = Region::new(program, clusters, members);
    let escaping = region.escaping();
    let (attrs, operands) = region.attributes(&escaping);
    if compile(&attrs).is_none() {
        return false;
    }
    let outputs: Vec<TensorType> = escaping.iter().map(|&id| clusters.ty(id).clone()).collect();
    let inputs = operands.iter().map(|&id| known(ids, id)).collect();
    let first = writer.emit(Op::Fused(attrs), inputs, outputs);
    escaping.iter().enumerate().for_each(|(k, &id)| ids[id] = Some(first + k));
    // Changes of shape that others read are made again outside.
    for i in region.views_outside() {
        write_alone(program, clusters, i, ids, writer);
    }
    true
}

/// The new id of a value.
///
/// # Panics
///
/// When it has none yet, which is a mistake of this pass: another value would be read instead.
pub(super) fn known(ids: &[Option<usize>], id: usize) -> usize {
    ids[id].expect("a value is made before it is read")
}

struct Region<'a> {
    program: &'a Program,
    clusters: &'a Clusters<'a>,
    members: &'a [usize],
}

impl<'a> Region<'a> {
    fn new(program: &'a Program, clusters: &'a Clusters<'a>, members: &'a [usize]) -> Self {
        Self { program, clusters, members }
    }

    fn is_member(&self, id: usize) -> bool {
        self.clusters.maker(id).is_some_and(|i| self.clusters.of(i) == self.clusters.of(self.members[0]))
    }

    fn is_read_outside(&self, id: usize) -> bool {
        let own = self.clusters.of(self.members[0]);
        let others = self.clusters.readers(id).iter().any(|&i| self.clusters.of(i) != own);
        others || self.clusters.is_output(id)
    }

    /// Results that are read outside, themselves or in another shape.
    fn escaping(&self) -> Vec<usize> {
        let mut escaping = Vec::new();
        for &i in self.members {
            let id = self.clusters.result(i);
            if !self.is_read_outside(id) {
                continue;
            }
            let id = self.source(id);
            if !escaping.contains(&id) {
                escaping.push(id);
            }
        }
        escaping
    }

    /// The changes of shape whose results are read outside, or by such as are.
    fn views_outside(&self) -> Vec<usize> {
        let mut views: Vec<usize> = Vec::new();
        for &i in self.members.iter().rev().filter(|&&i| is_view(&self.program.instructions[i].op)) {
            let id = self.clusters.result(i);
            let read_by_view = views.iter().any(|&view| self.program.instructions[view].inputs.contains(&id));
            if read_by_view || self.is_read_outside(id) {
                views.push(i);
            }
        }
        views.reverse();
        views
    }

    /// What a value was before its shape was changed within the region.
    fn source(&self, mut id: usize) -> usize {
        while let Some(i) = self.clusters.maker(id).filter(|_| self.is_member(id)) {
            let instruction = &self.program.instructions[i];
            match is_view(&instruction.op) {
                true => id = instruction.inputs[0],
                false => break,
            }
        }
        id
    }

    /// The operation and the values that it reads.
    fn attributes(&self, outputs: &[usize]) -> (Fused, Vec<usize>) {
        let (operands, constants) = self.operands();
        let inputs: Vec<TensorType> = operands.iter().map(|&(id, _)| self.clusters.ty(id).clone()).collect();
        let mut body = Writer::new(&inputs);
        let outside = operands.iter().map(|&(id, extent)| (id, Some(extent)));
        let mut ids: HashMap<Key, usize> = outside.enumerate().map(|(k, key)| (key, k)).collect();
        for &i in constants.iter().chain(self.members) {
            let instruction = &self.program.instructions[i];
            let mut inputs: Vec<usize> = instruction.inputs.iter().map(|&id| ids[&self.key(i, id)]).collect();
            if !matches!(instruction.op, Op::Reduce(_)) && !is_view(&instruction.op) {
                spread(&mut body, &mut inputs, &instruction.outputs[0]);
            }
            let first = body.emit(instruction.op.clone(), inputs, instruction.outputs.clone());
            ids.insert((self.clusters.result(i), None), first);
        }
        let body = body.finish(outputs.iter().map(|&id| ids[&(id, None)]).collect());
        let (shape, row_axes) = self.region();
        let extents = operands.iter().map(|&(_, extent)| extent).collect();
        (
            Fused { shape: shape.to_vec(), row_axes, extents, patterns: vec![], body },
            operands.into_iter().map(|(id, _)| id).collect(),
        )
    }

    fn region(&self) -> (&[usize], usize) {
        self.clusters.region(self.clusters.of(self.members[0]))
    }

    /// The values that come from outside with their extents, and the constants among them as instructions.
    fn operands(&self) -> (Vec<(usize, Extent)>, Vec<usize>) {
        let (mut operands, mut constants) = (Vec::new(), Vec::new());
        let read =
            self.members.iter().flat_map(|&i| self.program.instructions[i].inputs.iter().map(move |&id| (i, id)));
        for (id, extent) in read.map(|(i, id)| self.key(i, id)) {
            match extent {
                Some(extent) if !operands.contains(&(id, extent)) => operands.push((id, extent)),
                None if !self.is_member(id) => {
                    constants.extend(self.clusters.maker(id).filter(|i| !constants.contains(i)))
                }
                _ => (),
            }
        }
        (operands, constants)
    }

    /// How the region knows the operand `id` of its instruction `i`.
    fn key(&self, i: usize, id: usize) -> Key {
        if self.is_member(id) {
            return (id, None);
        }
        let in_rows =
            self.clusters.extent(i) == Extent::Row && !matches!(self.program.instructions[i].op, Op::Reduce(_));
        let id = if in_rows { id } else { self.implied(id) };
        if self.clusters.maker(id).is_some_and(|i| matches!(self.program.instructions[i].op, Op::Constant(_))) {
            return (id, None);
        }
        let (shape, row_axes) = self.region();
        let operand = &self.clusters.ty(id).shape;
        let extent = if in_rows && operand.iter().product::<usize>() > 1 {
            Extent::Row
        } else {
            extent(operand, shape, row_axes)
        };
        (id, Some(extent))
    }

    /// What a value from outside was before it was broadcast, where elementwise operations broadcast it in the same way.
    fn implied(&self, id: usize) -> usize {
        let Some(i) = self.clusters.maker(id).filter(|_| !self.is_member(id)) else { return id };
        let instruction = &self.program.instructions[i];
        let Op::Broadcast(attrs) = &instruction.op else { return id };
        let source = instruction.inputs[0];
        let (from, to) = (self.clusters.ty(source), self.clusters.ty(id));
        let is_aligned = attrs.axes.iter().copied().eq(to.shape.len() - from.shape.len()..to.shape.len());
        if is_aligned && to.shape == self.region().0 && !self.is_member(source) { self.implied(source) } else { id }
    }
}

/// Broadcasts the first operand of an elementwise operation, where all of them together are smaller than its result.
fn spread(body: &mut Writer, inputs: &mut [usize], out: &TensorType) {
    let rank = out.shape.len();
    let is_filled = |axis: usize| {
        inputs
            .iter()
            .map(|&id| &body.ty(id).shape)
            .any(|shape| (axis + shape.len()).checked_sub(rank).is_some_and(|place| shape[place] == out.shape[axis]))
    };
    let Some(&first) = inputs.first().filter(|&&id| body.ty(id).shape.len() <= rank) else { return };
    if (0..rank).all(is_filled) {
        return;
    }
    let axes = (rank - body.ty(first).shape.len()..rank).collect();
    let out = TensorType::new(body.ty(first).dtype, out.shape.clone());
    inputs[0] = body.one(Op::Broadcast(Axes { axes }), vec![first], &out);
}

/// A value as a region knows it: one from outside comes with its extent there.
type Key = (usize, Option<Extent>);

/// How many elements an operand has in a region.
fn extent(operand: &[usize], shape: &[usize], row_axes: usize) -> Extent {
    let outer = &shape[..shape.len() - row_axes];
    let in_rows = || row_axes > 0 && operand.len() == shape.len() && operand[..outer.len()] == *outer;
    if operand.iter().product::<usize>() == 1 {
        Extent::One
    } else if in_rows() && operand[outer.len()..].iter().all(|&len| len == 1) {
        Extent::Row
    } else {
        Extent::Whole
    }
}
