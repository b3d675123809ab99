//! Products of one matrix with several that are brought together from parts, and sums of their rows: the product with, and the
//! sums of, one that is brought together from all these parts.

use std::collections::BTreeMap;

use super::{concatenate, copy};
use crate::passes::writer::{Writer, makers, reads, results};
use crate::program::{Axis, Fold, Instruction, Op, Program, Reduce, Slice};
use crate::types::{TensorType, Type};

/// The program with fewer and larger products.
pub(super) fn join(program: &Program) -> Program {
    let wide = Wide::of(program);
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.value_types().len()).collect();
    let mut next = program.inputs.len();
    for (i, instruction) in program.instructions.iter().enumerate() {
        wide.groups.iter().filter(|group| group.due == i).for_each(|group| wide.write(group, &mut writer, &mut ids));
        if !wide.is_member(i) {
            let first = copy(&mut writer, instruction, &ids);
            (0..instruction.outputs.len()).for_each(|number| ids[next + number] = first + number);
        }
        next += instruction.outputs.len();
    }
    let end = program.instructions.len();
    wide.groups.iter().filter(|group| group.due == end).for_each(|group| wide.write(group, &mut writer, &mut ids));
    writer.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}

/// Instructions with the matrix that each reads.
type Members = Vec<(usize, usize)>;

/// Instructions that become one.
struct Group {
    members: Members,
    /// The first instruction that reads a result.
    due: usize,
}

struct Wide<'a> {
    program: &'a Program,
    types: Vec<&'a TensorType>,
    makers: Vec<Option<usize>>,
    reads: Vec<usize>,
    /// The id of the first result of each instruction.
    results: Vec<usize>,
    groups: Vec<Group>,
}

impl<'a> Wide<'a> {
    fn of(program: &'a Program) -> Self {
        let (makers, reads, results) = (makers(program), reads(program), results(program));
        let mut wide = Self { program, types: program.value_types(), makers, reads, results, groups: vec![] };
        wide.groups = wide.found();
        wide
    }

    /// Products of one matrix with several, and the sums of these, where nothing else reads them, so that they need not be brought
    /// together one by one as well.
    fn found(&self) -> Vec<Group> {
        let mut by_left: BTreeMap<usize, Members> = BTreeMap::new();
        let mut sums: BTreeMap<usize, usize> = BTreeMap::new();
        for (i, instruction) in self.program.instructions.iter().enumerate() {
            match self.reader(instruction) {
                Some((Some(left), matrix)) => by_left.entry(left).or_default().push((i, matrix)),
                Some((None, matrix)) => {
                    sums.insert(matrix, i);
                }
                None => (),
            }
        }
        let mut by_matrices: BTreeMap<Vec<usize>, Vec<Members>> = BTreeMap::new();
        for mut members in by_left.into_values() {
            members.sort_unstable_by_key(|&(_, matrix)| matrix);
            by_matrices.entry(members.iter().map(|&(_, matrix)| matrix).collect()).or_default().push(members);
        }
        for (matrices, all) in &mut by_matrices {
            let own: Members = matrices.iter().filter_map(|&matrix| Some((*sums.get(&matrix)?, matrix))).collect();
            if own.len() == matrices.len() {
                all.push(own);
            }
        }
        let good = by_matrices.into_iter().filter(|(matrices, all)| self.are_alike(matrices, all.len()));
        let groups = good.map(|(_, all)| all.into_iter().map(|members| self.group(members)).collect::<Vec<_>>());
        groups.filter(|groups| groups.iter().all(|group| self.are_there(group))).flatten().collect()
    }

    /// Whether several matrices are of one type and number of parts, and each is read so often.
    fn are_alike(&self, matrices: &[usize], readers: usize) -> bool {
        let kind = |id: usize| (self.types[id], self.parts(id).map(<[usize]>::len));
        let alike = |&id: &usize| kind(id) == kind(matrices[0]) && self.reads[id] == readers;
        matrices.len() > 1 && matrices.iter().all(alike)
    }

    fn group(&self, members: Members) -> Group {
        let due = members.iter().map(|&(i, _)| self.first_reader(self.results[i])).min().unwrap_or_default();
        Group { members, due }
    }

    /// Whether all parts are made before the first result is read.
    fn are_there(&self, group: &Group) -> bool {
        group.members.iter().all(|&(_, matrix)| self.makers[matrix].is_some_and(|made| made < group.due))
    }

    /// The matrix that an instruction multiplies one with that is brought together from parts, or none where it sums the rows of
    /// such a one, and which one that is.
    fn reader(&self, instruction: &Instruction) -> Option<(Option<usize>, usize)> {
        let (left, matrix) = match (&instruction.op, &instruction.inputs[..]) {
            (Op::Dot(dot), &[left, right]) => {
                let along_rows = dot.lhs_contract == [0] && dot.rhs_contract == [0] && dot.lhs_batch.is_empty();
                (along_rows && self.types[left].shape.len() == 2).then_some((Some(left), right))?
            }
            (Op::Reduce(Reduce { fold: Fold::Sum, axes: Some(axes), keep_axes: false }), &[matrix]) => {
                (*axes == [0]).then_some((None, matrix))?
            }
            _ => return None,
        };
        let dtype = instruction.outputs[0].dtype;
        let fits = matches!(dtype, Type::F32 | Type::F64) && self.types[matrix].dtype == dtype;
        (fits && self.parts(matrix).is_some()).then_some((left, matrix))
    }

    /// The steps that [`sums`](super::sums) has brought together for a matrix.
    fn parts(&self, id: usize) -> Option<&'a [usize]> {
        let maker = |id: usize| self.makers[id].map(|i| &self.program.instructions[i]);
        let reshape = maker(id).filter(|maker| maker.op == Op::Reshape)?;
        let joined = maker(reshape.inputs[0]).filter(|maker| maker.op == Op::Concatenate(Axis { axis: 1 }))?;
        let part = self.types[joined.inputs[0]];
        let [rows, columns] = part.shape[..] else { return None };
        let same = joined.inputs.iter().all(|&id| self.types[id] == part);
        (same && self.types[id].shape == [rows * joined.inputs.len(), columns]).then_some(&joined.inputs[..])
    }

    fn first_reader(&self, id: usize) -> usize {
        let reads = |instruction: &Instruction| instruction.inputs.contains(&id);
        let found = self.program.instructions.iter().position(reads);
        found.unwrap_or(self.program.instructions.len())
    }

    fn is_member(&self, i: usize) -> bool {
        self.groups.iter().any(|group| group.members.iter().any(|&(member, _)| member == i))
    }

    fn write(&self, group: &Group, writer: &mut Writer, ids: &mut [usize]) {
        let parts: Vec<&[usize]> = group.members.iter().filter_map(|&(_, matrix)| self.parts(matrix)).collect();
        let of_step = |step: usize| parts.iter().map(move |parts| parts[step]);
        let all = (0..parts[0].len()).flat_map(of_step).map(|id| ids[id]).collect();
        let joined = concatenate(writer, all, 1);
        let narrow = self.types[group.members[0].1];
        let (rows, columns) = (narrow.shape[0], narrow.shape[1]);
        let width = columns * parts.len();
        let wide = writer.one(Op::Reshape, vec![joined], &TensorType::new(narrow.dtype, [rows, width]));
        let Instruction { op, inputs, outputs } = &self.program.instructions[group.members[0].0];
        let inputs = if inputs.len() == 2 { vec![ids[inputs[0]], wide] } else { vec![wide] };
        let mut out = outputs[0].clone();
        let last = out.shape.len() - 1;
        out.shape[last] = width;
        let whole = writer.one(op.clone(), inputs, &out);
        for (number, &(member, _)) in group.members.iter().enumerate() {
            let mut starts = vec![0; last + 1];
            starts[last] = number * columns;
            let cut = Slice { starts, lengths: outputs[0].shape.clone(), strides: vec![1; last + 1] };
            ids[self.results[member]] = writer.one(Op::Slice(cut), vec![whole], &outputs[0]);
        }
    }
}
