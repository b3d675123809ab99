//! The text form of a program, for people and for tests of passes.

use std::fmt::{self, Display, Formatter};

use serde_json::Value as Json;

use super::{Constant, Instruction, Op, Pattern, Program};
use crate::types::{TensorType, Type};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_program(f, self, 0, &|_| vec![])
    }
}

/// A program with names at its instructions.
pub(crate) struct Named<'a> {
    pub(crate) program: &'a Program,
    /// The names that the instructions of a program get besides those that they have.
    pub(crate) names: &'a Names<'a>,
}

type Names<'a> = dyn Fn(&Program) -> Vec<Vec<Pattern>> + 'a;

impl Display for Named<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_program(f, self.program, 0, self.names)
    }
}

fn write_program(f: &mut Formatter<'_>, program: &Program, indent: usize, names: &Names<'_>) -> fmt::Result {
    let pad = "  ".repeat(indent);
    let inputs = list(program.inputs.iter().enumerate().map(|(id, t)| format!("%{id}: {t}")));
    writeln!(f, "{pad}program({inputs})")?;
    let mut next = program.inputs.len();
    let mut named = names(program).into_iter();
    for instruction in &program.instructions {
        write_instruction(f, instruction, next, indent + 1, &named.next().unwrap_or_default())?;
        let nested = instruction.op.nested();
        nested.into_iter().try_for_each(|nested| write_program(f, nested, indent + 2, names))?;
        next += instruction.outputs.len();
    }
    writeln!(f, "{pad}  return {}", list(program.outputs.iter().map(|id| format!("%{id}"))))
}

fn write_instruction(
    f: &mut Formatter<'_>,
    instruction: &Instruction,
    first: usize,
    indent: usize,
    names: &[Pattern],
) -> fmt::Result {
    let pad = "  ".repeat(indent);
    let results = list(instruction.outputs.iter().enumerate().map(|(i, t)| format!("%{}: {t}", first + i)));
    let operands = list(instruction.inputs.iter().map(|id| format!("%{id}")));
    let equals = if results.is_empty() { "" } else { " = " };
    write!(f, "{pad}{results}{equals}{}({operands})", instruction.op.name())?;
    let mut text = attributes(&instruction.op, instruction.outputs.first());
    if !names.is_empty() {
        let names = list(names.iter().map(|pattern| pattern.name().to_string()));
        let comma = if text.is_empty() { "" } else { ", " };
        text += &format!("{comma}patterns: [{names}]");
    }
    if text.is_empty() { writeln!(f) } else { writeln!(f, " {{{text}}}") }
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

fn attributes(op: &Op, output: Option<&TensorType>) -> String {
    if let (Op::Constant(constant), Some(output)) = (op, output) {
        return element_text(output.dtype, constant);
    }
    match serde_json::to_value(op) {
        Ok(Json::Object(tagged)) => tagged.into_iter().map(|(_, payload)| fields(payload)).collect(),
        _ => String::new(),
    }
}

/// `name: value` of each attribute that is not a nested program and not already in the operation's name.
fn fields(payload: Json) -> String {
    let Json::Object(named) = payload else { return String::new() };
    let shown = named.into_iter().filter(|(key, value)| {
        let programs = matches!(key.as_str(), "predicates" | "branches") || value.get("instructions").is_some();
        !matches!(key.as_str(), "fold" | "extremum" | "transform") && !programs
    });
    list(shown.map(|(key, value)| match value {
        Json::Object(_) => fields(value),
        other => format!("{key}: {}", other.to_string().replace('"', "")),
    }))
}

/// The element a constant repeats, as a number where it is one.
fn element_text(dtype: Type, constant: &Constant) -> String {
    crate::scalar::text(dtype, &constant.bytes).unwrap_or_else(|| format!("bytes: {:?}", constant.bytes))
}
