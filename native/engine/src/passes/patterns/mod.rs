//! Names what regions compute, by the structure of what is in them and of what they read and feed.
//!
//! Names change no result. The regions of a pattern that is switched off are taken apart again.

mod activation;
mod blocks;
mod graph;
mod loss;
mod norm;
mod product;
mod unfuse;
mod update;

use graph::Graph;

use crate::program::{Instruction, Named, Op, Pattern, Program};
use crate::types::TensorType;

/// A pattern: its name and the function that recognises it.
type Row = (Pattern, fn(&Site<'_>) -> bool);

/// The patterns, in the order in which a region names them.
const PATTERNS: &[Row] = &[
    (Pattern::Attention, product::attention),
    (Pattern::CrossEntropy, loss::cross_entropy),
    (Pattern::Softmax, norm::softmax),
    (Pattern::LogSoftmax, norm::log_softmax),
    (Pattern::LayerNorm, norm::layer_norm),
    (Pattern::RmsNorm, norm::rms_norm),
    (Pattern::Linear, product::linear),
    (Pattern::Conv, product::conv),
    (Pattern::Gelu, activation::gelu),
    (Pattern::Silu, activation::silu),
    (Pattern::Sigmoid, activation::sigmoid),
    (Pattern::Tanh, activation::tanh),
    (Pattern::Relu, activation::relu),
    (Pattern::Sgd, update::sgd),
    (Pattern::Adam, update::adam),
    (Pattern::Adamw, update::adamw),
    (Pattern::Rmsprop, update::rmsprop),
    (Pattern::Adagrad, update::adagrad),
    (Pattern::Embedding, loss::embedding),
];

/// Patterns of which the region is one part only: without them it runs as one nevertheless.
const WIDER: &[Pattern] = &[Pattern::Attention, Pattern::Linear, Pattern::Conv, Pattern::Embedding];

/// An instruction that is looked at.
struct Site<'a> {
    outer: &'a Graph<'a>,
    /// Its number in the program around it.
    number: usize,
    /// Its region; empty for other operations.
    body: &'a Graph<'a>,
}

/// The names of all patterns.
///
/// ```
/// assert!(ex_burn_engine::passes::patterns::names().any(|name| name == "softmax"));
/// ```
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(Pattern::name)
}

fn all() -> impl Iterator<Item = Pattern> {
    PATTERNS.iter().map(|(pattern, _)| *pattern).chain([Pattern::Elementwise])
}

/// The pattern that `pattern:name` switches off.
pub(super) fn by_switch(name: &str) -> Option<Pattern> {
    let name = name.strip_prefix("pattern:")?;
    all().find(|pattern| pattern.name() == name)
}

/// The patterns among the names of what is switched off.
pub(super) fn disabled(names: &[String]) -> Vec<Pattern> {
    names.iter().filter_map(|name| by_switch(name)).collect()
}

/// The program with names at its regions, joined with the products next to them, and without regions that compute what is in
/// `off`.
pub(super) fn name(program: &Program, off: &[Pattern]) -> Program {
    let mut named = program.clone();
    let graph = Graph::new(program);
    for (number, instruction) in named.instructions.iter_mut().enumerate() {
        let found = found_at(&graph, number);
        if let Op::Fused(fused) = &mut instruction.op {
            fused.patterns = found;
        }
    }
    let named = if off.is_empty() { named } else { unfuse::without(named, off) };
    blocks::join(&named, off)
}

/// The program with products joined with what is done to their elements.
#[cfg(feature = "gpu")]
pub(super) fn join_products(program: &Program) -> Program {
    blocks::join_products(program)
}

/// What one instruction computes, in the order of the table.
fn found_at(outer: &Graph<'_>, number: usize) -> Vec<Pattern> {
    let (nothing, op) = (Program::default(), &outer.instruction(number).op);
    let body = if let Op::Fused(fused) = op { &fused.body } else { &nothing };
    if !matches!(op, Op::Fused(_) | Op::Take(_) | Op::Gather(_)) {
        return vec![];
    }
    let site = Site { outer, number, body: &Graph::new(body) };
    let mut found: Vec<Pattern> =
        PATTERNS.iter().filter(|(_, matches)| matches(&site)).map(|(pattern, _)| *pattern).collect();
    if found.is_empty() && matches!(op, Op::Fused(_)) {
        found.push(Pattern::Elementwise);
    }
    found
}

/// The text of a program, with the names of what is a pattern without being fused, but for those that are switched off in
/// `disabled`, which [`optimise`](super::optimise) takes.
///
/// ```
/// use ex_burn_engine::{passes, program::Program};
///
/// assert_eq!(passes::patterns::text(&Program::default(), &[]), Program::default().to_string());
/// ```
pub fn text(program: &Program, disabled: &[String]) -> String {
    let (is_off, off) = (disabled.iter().any(|name| name == super::PATTERNS), self::disabled(disabled));
    let names = |program: &Program| if is_off { vec![] } else { unfused(program, &off) };
    Named { program, names: &names }.to_string()
}

/// For each instruction, what it computes without being fused.
fn unfused(program: &Program, off: &[Pattern]) -> Vec<Vec<Pattern>> {
    let graph = Graph::new(program);
    let names = |(number, instruction): (usize, &Instruction)| match instruction.op {
        Op::Fused(_) => vec![],
        _ => found_at(&graph, number).into_iter().filter(|pattern| !off.contains(pattern)).collect(),
    };
    program.instructions.iter().enumerate().map(names).collect()
}

/// What was found in a program and in those inside its loops and branches: each pattern with the type of the result there.
///
/// ```
/// use ex_burn_engine::{passes, program::Program};
///
/// assert!(passes::patterns::found(&Program::default()).is_empty());
/// ```
pub fn found(program: &Program) -> Vec<(Pattern, TensorType)> {
    let graph = Graph::new(program);
    let mut all = Vec::new();
    for (number, instruction) in program.instructions.iter().enumerate() {
        let patterns = match &instruction.op {
            Op::Fused(fused) => fused.patterns.clone(),
            op => {
                op.nested().into_iter().for_each(|nested| all.extend(found(nested)));
                found_at(&graph, number)
            }
        };
        let ty = instruction.outputs.first();
        all.extend(ty.into_iter().flat_map(|ty| patterns.iter().map(move |&pattern| (pattern, ty.clone()))));
    }
    all
}
