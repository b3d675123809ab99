//! The instructions of a program, with those that the way back needs.

use std::collections::HashMap;

use super::builder::Builder;
use super::loops::{self, Trace};
use crate::program::{Op, Program};

/// A program that a builder has taken up.
pub(super) struct Forward {
    /// Its values among those of the builder.
    pub(super) ids: Vec<usize>,
    /// What its loops keep, by the id of their first result.
    pub(super) traces: HashMap<usize, Trace>,
}

impl Forward {
    /// Adds `program`, whose inputs are `ids`. Results that are `known` already, by their ids, are not computed again.
    pub(super) fn of(
        b: &mut Builder,
        program: &Program,
        ids: Vec<usize>,
        is_active: &[bool],
        known: &[(usize, usize)],
    ) -> Self {
        let known: HashMap<usize, usize> = known.iter().copied().collect();
        let mut forward = Self { ids, traces: HashMap::new() };
        for instruction in &program.instructions {
            let first = forward.ids.len();
            let results = first..first + instruction.outputs.len();
            let given: Option<Vec<usize>> = results.clone().map(|id| known.get(&id).copied()).collect();
            if let Some(ids) = given.filter(|ids| !ids.is_empty()) {
                forward.ids.extend(ids);
                continue;
            }
            let operands: Vec<usize> = instruction.inputs.iter().map(|&id| forward.ids[id]).collect();
            let at = match &instruction.op {
                // They are for whoever differentiates, which this is.
                Op::StopGrad | Op::CustomGrad(_) => Some(operands[0]),
                Op::While(attrs) if is_active[results.clone()].contains(&true) => {
                    let active: Vec<bool> = instruction.inputs.iter().map(|&id| is_active[id]).collect();
                    loops::record(b, attrs, &operands, &active, results.len()).map(|(at, trace)| {
                        forward.traces.insert(first, trace);
                        at
                    })
                }
                _ => None,
            };
            let at = at.unwrap_or_else(|| b.emit_all(instruction.op.clone(), operands, instruction.outputs.clone()));
            forward.ids.extend(at..at + results.len());
        }
        forward
    }
}
