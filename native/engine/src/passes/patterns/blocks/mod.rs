//! Joins regions with what makes their operand or reads their result.

mod conv;
mod product;
mod table;

use std::collections::HashMap;

use super::graph::Graph;
use crate::ops::fused::compile;
use crate::passes::writer::Writer;
use crate::program::{Blocked, Extent, Fused, Instruction, Op, Pattern, Program};
use crate::types::{TensorType, Type};

/// A region that instructions may run together with.
struct Region<'a> {
    graph: &'a Graph<'a>,
    number: usize,
    fused: &'a Fused,
    /// Patterns that are switched off.
    off: &'a [Pattern],
}

/// A way to run with others: the instructions that run as one, in order.
type Way = fn(&Region<'_>) -> Option<Vec<usize>>;

const WAYS: &[Way] =
    &[product::attention, product::linear, product::sum, conv::conv, table::cross_entropy, table::embedding];

/// The program with regions and others as one where there is a way to run them by blocks.
pub(super) fn join(program: &Program, off: &[Pattern]) -> Program {
    join_chains(program, |graph, number| chain(graph, number, off))
}

/// The program with elementwise regions and the products of `f32` before them as one: a GPU has a kernel for both.
#[cfg(feature = "gpu")]
pub(super) fn join_products(program: &Program) -> Program {
    join_chains(program, |graph, number| {
        let Op::Fused(fused) = &graph.instruction(number).op else { return None };
        let region = Region { graph, number, fused, off: &[] };
        let folds = fused.body.instructions.iter().any(|instruction| matches!(instruction.op, Op::Reduce(_)));
        let single = |instruction: &Instruction| instruction.outputs.iter().map(|out| out.dtype).eq([Type::F32]);
        let is_product = |instruction: &Instruction| matches!(instruction.op, Op::Dot(_)) && single(instruction);
        let (product, _) = region.before().find(|(_, instruction)| is_product(instruction))?;
        (!folds && single(graph.instruction(number))).then_some(vec![product, number])
    })
}

/// The program with instructions as one that `chain` names by the number of a region.
fn join_chains(program: &Program, chain: impl Fn(&Graph<'_>, usize) -> Option<Vec<usize>>) -> Program {
    let graph = Graph::new(program);
    let chains = chains(&graph, chain);
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.inputs.len()).collect();
    for ((i, instruction), chain) in program.instructions.iter().enumerate().zip(&chains.of) {
        let count = instruction.outputs.len();
        let first = match chain.map(|number| &chains.all[number]) {
            Some(chain) if chain.last() == Some(&i) => emit_blocked(&graph, chain, &ids, &mut writer),
            // Nobody else reads what is within.
            Some(_) => 0,
            None => {
                let inputs = instruction.inputs.iter().map(|&id| ids[id]).collect();
                writer.emit(instruction.op.clone(), inputs, instruction.outputs.clone())
            }
        };
        ids.extend(first..first + count);
    }
    writer.finish(program.outputs.iter().map(|&id| ids[id]).collect())
}

/// Writes a chain as one operation; answers the id of its first result.
fn emit_blocked(graph: &Graph<'_>, chain: &[usize], ids: &[usize], writer: &mut Writer) -> usize {
    let operands = operands(graph, chain);
    let types: Vec<TensorType> = operands.iter().map(|&id| graph.ty(id).clone()).collect();
    let mut body = Writer::new(&types);
    let mut known: HashMap<usize, usize> = operands.iter().copied().zip(0..).collect();
    let mut results = Vec::new();
    for &i in chain {
        let member = graph.instruction(i);
        let inputs = member.inputs.iter().map(|id| known[id]).collect();
        let first = body.emit(member.op.clone(), inputs, member.outputs.clone());
        results = (first..first + member.outputs.len()).collect();
        known.extend(graph.results(i).zip(first..));
    }
    let outputs = chain.last().map_or(vec![], |&last| graph.instruction(last).outputs.clone());
    let inputs = operands.iter().map(|&id| ids[id]).collect();
    writer.emit(Op::Blocked(Blocked { body: body.finish(results) }), inputs, outputs)
}

/// The values that come from outside of a chain.
fn operands(graph: &Graph<'_>, chain: &[usize]) -> Vec<usize> {
    let is_within = |id: usize| chain.iter().any(|&i| graph.results(i).contains(&id));
    let mut operands: Vec<usize> = Vec::new();
    for &id in chain.iter().flat_map(|&i| &graph.instruction(i).inputs) {
        if !is_within(id) && !operands.contains(&id) {
            operands.push(id);
        }
    }
    operands
}

/// The instructions that run together, each in one chain at most.
struct Chains {
    all: Vec<Vec<usize>>,
    /// The number of the chain of each instruction.
    of: Vec<Option<usize>>,
}

fn chains(graph: &Graph<'_>, chain: impl Fn(&Graph<'_>, usize) -> Option<Vec<usize>>) -> Chains {
    let count = graph.instructions().len();
    let mut chains = Chains { all: vec![], of: vec![None; count] };
    for chain in (0..count).filter_map(|i| chain(graph, i)) {
        if chain.iter().all(|&i| chains.of[i].is_none()) {
            chain.iter().for_each(|&i| chains.of[i] = Some(chains.all.len()));
            chains.all.push(chain);
        }
    }
    chains
}

/// The instructions that run together with a region.
fn chain(graph: &Graph<'_>, number: usize, off: &[Pattern]) -> Option<Vec<usize>> {
    let Op::Fused(fused) = &graph.instruction(number).op else { return None };
    let region = Region { graph, number, fused, off };
    let chain = WAYS.iter().find_map(|way| way(&region))?;
    compile(fused).is_some_and(|tape| !tape.may_decline()).then_some(chain)
}

impl<'a> Region<'a> {
    /// The instructions whose result the region, and nobody else, reads as a whole, with their numbers.
    fn before(&self) -> impl Iterator<Item = (usize, &'a Instruction)> {
        let (graph, fused) = (self.graph, self.fused);
        let operands = graph.instruction(self.number).inputs.iter().zip(&fused.extents);
        let whole = operands.filter(move |(id, extent)| {
            let is_whole = **extent == Extent::Whole && graph.ty(**id).shape == fused.shape;
            is_whole && graph.is_read_once(**id)
        });
        whole.filter_map(move |(&id, _)| graph.made_by(id))
    }

    fn is_on(&self, pattern: Pattern) -> bool {
        !self.off.contains(&pattern)
    }

    /// Whether an instruction is of floats of one type that are computed as they are.
    fn is_plain(&self, instruction: &Instruction) -> bool {
        self.is_of(&[Type::F32, Type::F64], instruction)
    }

    /// Whether operands and result of an instruction are of one of these types.
    fn is_of(&self, types: &[Type], instruction: &Instruction) -> bool {
        let out = instruction.outputs[0].dtype;
        types.contains(&out) && instruction.inputs.iter().all(|&id| self.graph.ty(id).dtype == out)
    }
}
