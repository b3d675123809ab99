//! The steps of an unrolled loop, and their way back, as one operation on rows.

use std::collections::HashMap;

use super::super::writer::{Writer, reads};
use super::axes::{self, Place};
use super::{block, block_rows, is_product};
use crate::program::{Instruction, Op, Program, Rows};
use crate::types::{TensorType, Type};

/// Fewest products that wait for one another.
const LONGEST: usize = 8;

/// Most chains of a program.
const CHAINS: usize = 64;

/// Most rows: products of more are shared out well one by one.
const MOST: usize = 64;

/// Where a value is made.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// Before the operation, or within each block that reads it.
    Before,
    /// In the operation; its rows lie along this axis, and so many products have led to it.
    Inside(usize, usize),
    /// After the operation, because it reads what that makes as a whole.
    After,
}

/// The program with chains of products of the same rows as single operations.
pub(super) fn join(program: &Program) -> Program {
    if program.has_effect() {
        return program.clone();
    }
    let mut program = program.clone();
    for _ in 0..CHAINS {
        let found = lengths(&program).into_iter().find_map(|rows| Some((rows, Chain::find(&program, rows)?)));
        let Some((rows, chain)) = found else { break };
        program = chain.write(&program, rows);
    }
    program
}

/// The numbers of rows of products.
fn lengths(program: &Program) -> Vec<usize> {
    let types = program.value_types();
    let products = program.instructions.iter().filter_map(|instruction| is_product(instruction, &types));
    let mut lengths: Vec<usize> = products.filter(|&rows| rows <= MOST && block_rows(rows).is_some()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// Where each value of a program is made, and which instruction makes it.
struct Chain {
    at: Vec<At>,
}

impl Chain {
    /// What can run by blocks of so many rows in all, where it is a long chain.
    fn find(program: &Program, rows: usize) -> Option<Self> {
        let types = program.value_types();
        let mut chain = Self { at: vec![At::Before; program.inputs.len()] };
        for instruction in &program.instructions {
            let at = chain.place(instruction, &types, rows);
            chain.at.extend(instruction.outputs.iter().map(|_| at));
        }
        let longest = chain.at.iter().filter_map(|at| if let At::Inside(_, depth) = at { Some(*depth) } else { None });
        (longest.max()? >= LONGEST).then_some(chain)
    }

    fn place(&self, instruction: &Instruction, types: &[&TensorType], rows: usize) -> At {
        let product = is_product(instruction, types) == Some(rows);
        let read = || instruction.inputs.iter().map(|&id| self.at[id]);
        if read().any(|at| at == At::After) {
            return At::After;
        }
        let inside = read().enumerate().find_map(|(operand, at)| match at {
            At::Inside(axis, _) => axes::result(instruction, types, operand, axis),
            _ => None,
        });
        let is_free = !read().any(|at| matches!(at, At::Inside(..)));
        let Some(axis) = inside.or((is_free && product).then_some(0)) else {
            return if is_free { At::Before } else { At::After };
        };
        let Some(places) = axes::operands(instruction, types, axis) else { return At::After };
        let mut depth = usize::from(product);
        for (at, place) in read().zip(places) {
            if let At::Inside(axis, before) = at {
                if place != Some(axis) {
                    return At::After;
                }
                depth = depth.max(before + usize::from(product));
            }
        }
        At::Inside(axis, depth)
    }

    /// The program with the chain as one operation.
    fn write(&self, program: &Program, rows: usize) -> Program {
        let mut parts = Parts::new(program, self);
        parts.all(At::Before);
        parts.chain(rows);
        parts.all(At::After);
        let outputs = program.outputs.iter().map(|&id| parts.ids[id]).collect();
        parts.writer.finish(outputs)
    }
}

/// Whether an operation is a product by a matrix whose rows are its columns.
fn is_turned(op: &Op) -> bool {
    matches!(op, Op::Dot(dot) if dot.rhs_contract == [1])
}

/// A program that is written in three parts.
struct Parts<'a> {
    program: &'a Program,
    chain: &'a Chain,
    types: Vec<&'a TensorType>,
    /// The instruction of each value.
    makers: Vec<Option<&'a Instruction>>,
    /// Whether what is no part of the chain reads a value.
    is_read: Vec<bool>,
    reads: Vec<usize>,
    writer: Writer,
    ids: Vec<usize>,
}

impl<'a> Parts<'a> {
    fn new(program: &'a Program, chain: &'a Chain) -> Self {
        let mut is_read = vec![false; chain.at.len()];
        let mut next = program.inputs.len();
        for instruction in &program.instructions {
            if !matches!(chain.at.get(next), Some(At::Inside(..))) {
                instruction.inputs.iter().for_each(|&id| is_read[id] = true);
            }
            next += instruction.outputs.len();
        }
        program.outputs.iter().for_each(|&id| is_read[id] = true);
        let made = program.instructions.iter().flat_map(|made| made.outputs.iter().map(move |_| Some(made)));
        Self {
            types: program.value_types(),
            makers: program.inputs.iter().map(|_| None).chain(made).collect(),
            is_read,
            reads: reads(program),
            writer: Writer::new(&program.inputs),
            ids: (0..chain.at.len()).collect(),
            program,
            chain,
        }
    }

    /// Instructions with the ids of their first results.
    fn instructions(&self) -> impl Iterator<Item = (usize, &'a Instruction)> + use<'a> {
        self.program.instructions.iter().scan(self.program.inputs.len(), |next, instruction| {
            let id = *next;
            *next += instruction.outputs.len();
            Some((id, instruction))
        })
    }

    /// The instructions before the chain, or those after it.
    fn all(&mut self, part: At) {
        for (id, instruction) in self.instructions() {
            if self.chain.at.get(id) == Some(&part) {
                let inputs = instruction.inputs.iter().map(|&id| self.ids[id]).collect();
                let first = self.writer.emit(instruction.op.clone(), inputs, instruction.outputs.clone());
                (0..instruction.outputs.len()).for_each(|i| self.ids[id + i] = first + i);
            }
        }
    }

    /// The chain as one operation.
    fn chain(&mut self, rows: usize) {
        let inside: Vec<(usize, usize, &Instruction)> = self
            .instructions()
            .filter_map(|(id, made)| match self.chain.at.get(id) {
                Some(&At::Inside(axis, _)) => Some((id, axis, made)),
                _ => None,
            })
            .collect();
        let mut body = Body::default();
        for (id, axis, instruction) in &inside {
            let places = axes::operands(instruction, &self.types, *axis).unwrap_or_default();
            let turned = instruction.inputs.get(1).filter(|_| is_turned(&instruction.op));
            let inputs = instruction.inputs.iter().zip(places).map(|(from, place)| {
                let turned = turned.is_some_and(|matrix| std::ptr::eq(matrix, from));
                body.operand(self, *from, place, turned)
            });
            let inputs = inputs.collect();
            body.add(*id, Instruction { inputs, ..(*instruction).clone() }, Some(*axis));
        }
        let results: Vec<(usize, usize)> =
            inside.iter().filter(|(id, ..)| self.is_read[*id]).map(|&(id, axis, _)| (id, axis)).collect();
        let (op, operands) = body.finish(&results, rows);
        let inputs = operands.iter().map(|&id| self.ids[id]).collect();
        let outputs = results.iter().map(|&(id, _)| self.types[id].clone()).collect();
        let first = self.writer.emit(op, inputs, outputs);
        results.iter().enumerate().for_each(|(number, &(id, _))| self.ids[id] = first + number);
    }
}

/// The operation's program. Operands get their ids at the end, so here they are numbers of entries.
#[derive(Default)]
struct Body {
    entries: Vec<Entry>,
    known: HashMap<(usize, Place, bool), usize>,
}

/// A value of the body.
enum Entry {
    Operand(usize, TensorType, Place),
    Made(Box<Instruction>, Place),
}

impl Body {
    fn add(&mut self, id: usize, instruction: Instruction, place: Place) -> usize {
        self.entries.push(Entry::Made(Box::new(instruction), place));
        self.known.insert((id, place, false), self.entries.len() - 1);
        self.entries.len() - 1
    }

    /// The value whose rows lie there. Constants are made in the operation. A matrix that is read by its columns too is one
    /// operand more, which can have another order in memory.
    fn operand(&mut self, parts: &Parts<'_>, id: usize, place: Place, turned: bool) -> usize {
        let key = (id, place, turned && parts.chain.at[id] == At::Before);
        if let Some(&entry) = self.known.get(&key) {
            return entry;
        }
        // So is what a step alone reads of what was computed for all steps, such as its bias: there it is a part of a region.
        let own = |op: &Op| matches!(op, Op::Binary(_)) && place.is_some() && parts.reads[id] == 1;
        let cheap = parts.makers[id].filter(|made| match &made.op {
            Op::Constant(_) | Op::Broadcast(_) => true,
            op => own(op) && matches!(made.outputs[0].dtype, Type::F32 | Type::F64),
        });
        if let Some(made) = cheap.filter(|_| parts.chain.at[id] == At::Before) {
            let places = match place {
                Some(axis) => axes::operands(made, &parts.types, axis).unwrap_or_default(),
                None => vec![None; made.inputs.len()],
            };
            let inputs = made.inputs.iter().zip(places).map(|(&from, place)| self.operand(parts, from, place, false));
            let inputs = inputs.collect();
            return self.add(id, Instruction { inputs, ..made.clone() }, place);
        }
        self.entries.push(Entry::Operand(id, parts.types[id].clone(), place));
        self.known.insert(key, self.entries.len() - 1);
        self.entries.len() - 1
    }

    /// The operation that answers these values, and what it reads.
    fn finish(self, results: &[(usize, usize)], rows: usize) -> (Op, Vec<usize>) {
        let is_operand = |entry: &&Entry| matches!(entry, Entry::Operand(..));
        let operands = self.entries.iter().filter(is_operand).count();
        let (mut next_operand, mut next_made) = (0, operands);
        let ids = self.entries.iter().map(|entry| {
            let next = if is_operand(&entry) { &mut next_operand } else { &mut next_made };
            *next += 1;
            *next - 1
        });
        let ids: Vec<usize> = ids.collect();
        let (mut whole, mut read) = (Program::default(), vec![]);
        let (mut places, mut made) = (vec![], vec![]);
        for entry in self.entries {
            match entry {
                Entry::Operand(id, ty, place) => {
                    whole.inputs.push(ty);
                    read.push(id);
                    places.push(place);
                }
                Entry::Made(instruction, place) => {
                    let inputs = instruction.inputs.iter().map(|&entry| ids[entry]).collect();
                    whole.instructions.push(Instruction { inputs, ..*instruction });
                    made.push(place);
                }
            }
        }
        whole.outputs = results.iter().map(|&(id, axis)| ids[self.known[&(id, Some(axis), false)]]).collect();
        let size = block_rows(rows).unwrap_or(rows);
        let all: Vec<Place> = places.iter().copied().chain(made).collect();
        let block = block::program(&whole, &all, size);
        let results = results.iter().map(|&(_, axis)| Some(axis)).collect();
        (Op::Rows(Rows { operands: places, results, blocks: rows / size, whole, block }), read)
    }
}
