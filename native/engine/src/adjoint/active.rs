//! Which values have a gradient.

use crate::passes::writer::Writer;
use crate::program::{Cond, Op, Program, Unary, While};
use crate::types::Type;

/// Whether gradients are computed in a type.
pub(super) fn is_followed(dtype: Type) -> bool {
    matches!(dtype, Type::BF16 | Type::F16 | Type::F32 | Type::F64)
}

/// Which values have a gradient where these inputs have one: floats that lead to one of those outputs that `outputs` names and
/// depend on those inputs through operations that pass it on. `None` where one becomes a number that no gradient passes through.
pub(super) fn active(program: &Program, inputs: &[bool], outputs: &[bool]) -> Option<Vec<bool>> {
    let active = reached(program, inputs, &leading(program, outputs));
    let results = active.iter().zip(program.value_types()).skip(inputs.len());
    let is_whole = results.into_iter().all(|(&is_active, ty)| !is_active || is_followed(ty.dtype));
    is_whole.then_some(active)
}

/// The first operation on the way from those inputs that `inputs` names to those outputs that `outputs` names whose result no
/// gradient passes through, and the type of that.
pub(crate) fn obstacle(program: &Program, inputs: &[bool], outputs: &[bool]) -> Option<(String, Type)> {
    let leads = leading(program, outputs);
    let reached = reached(program, inputs, &leads);
    let mut first = program.inputs.len();
    program.instructions.iter().find_map(|instruction| {
        let results = first..first + instruction.outputs.len();
        first = results.end;
        let operands = of(&instruction.inputs, &reached);
        let own = instruction.outputs.iter().zip(results.clone());
        let own = own.filter(|&(ty, id)| reached[id] && !is_followed(ty.dtype)).map(|(ty, _)| ty.dtype).next();
        let inside = obstacle_inside(&instruction.op, &operands, &leads[results]);
        inside.or_else(|| own.map(|dtype| (instruction.op.name(), dtype)))
    })
}

fn obstacle_inside(op: &Op, operands: &[bool], leads: &[bool]) -> Option<(String, Type)> {
    match op {
        Op::Cond(attrs) => attrs.branches.iter().find_map(|branch| obstacle(branch, operands, leads)),
        Op::While(attrs) => {
            let state = &leading_in_loop(attrs, leads)[..leads.len()];
            obstacle(&attrs.body, &steady(attrs, operands, leads.len()), state)
        }
        _ => None,
    }
}

/// For each value whether it may depend, in a way that has a gradient, on one of those inputs that `inputs` names.
pub(crate) fn dependent(program: &Program, inputs: &[bool]) -> Vec<bool> {
    let types = program.value_types();
    let reached = reached(program, inputs, &vec![true; types.len()]);
    reached.into_iter().zip(types).map(|(reached, ty)| reached && is_followed(ty.dtype)).collect()
}

/// `program` for one who follows it as it runs: what leads to none of those outputs that `outputs` names is cut off from what
/// does. `None` where all does.
pub(crate) fn cut_off(program: &Program, outputs: &[bool]) -> Option<Program> {
    let (types, leads) = (program.value_types(), leading(program, outputs));
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<usize> = (0..program.inputs.len()).collect();
    let mut is_tracked = vec![true; ids.len()];
    let mut is_cut = false;
    for instruction in &program.instructions {
        let results = &leads[ids.len()..][..instruction.outputs.len()];
        let is_led = results.contains(&true) && !stops(&instruction.op);
        let read = |&id: &usize| {
            if is_led || instruction.op == Op::StopGrad || !is_tracked[id] || !is_followed(types[id].dtype) {
                return ids[id];
            }
            is_cut = true;
            writer.one(Op::StopGrad, vec![ids[id]], types[id])
        };
        let inputs = instruction.inputs.iter().map(read).collect();
        let inside = if is_led { cut_inside(&instruction.op, results) } else { None };
        is_cut |= inside.is_some();
        let op = inside.unwrap_or_else(|| instruction.op.clone());
        let at = writer.emit(op, inputs, instruction.outputs.clone());
        ids.extend(at..at + results.len());
        is_tracked.resize(ids.len(), is_led);
    }
    is_cut.then(|| writer.finish(program.outputs.iter().map(|&id| ids[id]).collect()))
}

/// An operation whose programs are cut off, of whose results those lead on that `leads` names.
fn cut_inside(op: &Op, leads: &[bool]) -> Option<Op> {
    match op {
        Op::Cond(attrs) => {
            let cut: Vec<Option<Program>> = attrs.branches.iter().map(|branch| cut_off(branch, leads)).collect();
            let branch = |(cut, whole): (Option<Program>, &Program)| cut.unwrap_or_else(|| whole.clone());
            cut.iter().any(Option::is_some).then(|| {
                let branches = cut.into_iter().zip(&attrs.branches).map(branch).collect();
                Op::Cond(Cond { branches, predicates: attrs.predicates.clone() })
            })
        }
        Op::While(attrs) => {
            let body = cut_off(&attrs.body, &leading_in_loop(attrs, leads)[..leads.len()])?;
            Some(Op::While(While { body, condition: attrs.condition.clone() }))
        }
        _ => None,
    }
}

/// Which values depend on one of those inputs that `inputs` names, through operations that pass a gradient on, of values that
/// `leads` names.
fn reached(program: &Program, inputs: &[bool], leads: &[bool]) -> Vec<bool> {
    let mut reached = inputs.to_vec();
    for instruction in &program.instructions {
        let leads = &leads[reached.len()..][..instruction.outputs.len()];
        let passes = forth(&instruction.op, &of(&instruction.inputs, &reached), leads);
        let results = instruction.outputs.iter().zip(passes).zip(leads);
        reached.extend(results.map(|((ty, passes), &leads)| passes && leads && !ty.dtype.is_int()));
    }
    reached
}

/// Which results of an operation depend on those operands that `operands` names. Those that lead on are in `leads`.
fn forth(op: &Op, operands: &[bool], leads: &[bool]) -> Vec<bool> {
    let through = |program: &Program| of(&program.outputs, &reached(program, operands, &leading(program, leads)));
    match op {
        _ if stops(op) || !operands.contains(&true) => vec![false; leads.len()],
        Op::While(attrs) => steady(attrs, operands, leads.len())[..leads.len()].to_vec(),
        Op::Cond(attrs) => any(attrs.branches.iter().map(through), leads.len()),
        Op::CustomGrad(attrs) => vec![operands[1..=attrs.inputs].contains(&true)],
        Op::Fused(_) | Op::Blocked(_) | Op::Rows(_) => through(op.nested()[0]),
        _ => vec![true; leads.len()],
    }
}

/// Which inputs of a loop's body, the first `states` of which are its state, have a gradient in some iteration.
pub(crate) fn steady(attrs: &While, operands: &[bool], states: usize) -> Vec<bool> {
    let leads = leading(&attrs.body, &vec![true; states]);
    settled(operands, states, |inputs| of(&attrs.body.outputs, &reached(&attrs.body, inputs, &leads)))
}

/// Which values lead to one of those outputs that `outputs` names through operations that pass a gradient on.
fn leading(program: &Program, outputs: &[bool]) -> Vec<bool> {
    let types = program.value_types();
    let mut leads = vec![false; types.len()];
    mark(&mut leads, &program.outputs, outputs);
    let mut first = types.len();
    for instruction in program.instructions.iter().rev() {
        first -= instruction.outputs.len();
        let results = leads[first..].iter().zip(&instruction.outputs).map(|(&leads, ty)| leads && !ty.dtype.is_int());
        let operands = back(&instruction.op, &results.collect::<Vec<_>>(), instruction.inputs.len());
        mark(&mut leads, &instruction.inputs, &operands);
    }
    leads
}

/// Which of so many operands of an operation lead to those results that `results` names.
fn back(op: &Op, results: &[bool], operands: usize) -> Vec<bool> {
    let through = |program: &Program| leading(program, results)[..operands].to_vec();
    match op {
        _ if stops(op) || !results.contains(&true) => vec![false; operands],
        Op::While(attrs) => leading_in_loop(attrs, results),
        Op::Cond(attrs) => any(attrs.branches.iter().map(through), operands),
        // What it answers has no gradient, and captures have none.
        Op::CustomGrad(attrs) => (0..operands).map(|operand| (1..=attrs.inputs).contains(&operand)).collect(),
        Op::Fused(_) | Op::Blocked(_) | Op::Rows(_) => through(op.nested()[0]),
        _ => vec![true; operands],
    }
}

/// Which inputs of a loop's body lead, in this iteration or a later one, to those parts of the last state that `state` names.
/// Behind the last iteration a part is a result itself, whether the body reads it or not.
fn leading_in_loop(attrs: &While, state: &[bool]) -> Vec<bool> {
    let inputs = |state: &[bool]| leading(&attrs.body, state)[..attrs.body.inputs.len()].to_vec();
    let state = settled(state, state.len(), inputs);
    let mut leads = inputs(&state);
    leads.iter_mut().zip(state).for_each(|(leads, is_result)| *leads |= is_result);
    leads
}

/// `flags`, of which the first are of `states`, with those that `step` adds to these until it adds none.
fn settled(flags: &[bool], states: usize, step: impl Fn(&[bool]) -> Vec<bool>) -> Vec<bool> {
    let mut flags = flags.to_vec();
    loop {
        let next = step(&flags);
        let new: Vec<usize> = (0..states).filter(|&state| next[state] && !flags[state]).collect();
        if new.is_empty() {
            return flags;
        }
        new.into_iter().for_each(|state| flags[state] = true);
    }
}

/// The flags of these values.
fn of(ids: &[usize], flags: &[bool]) -> Vec<bool> {
    ids.iter().map(|&id| flags[id]).collect()
}

/// Adds `new`, the flags of `ids`.
fn mark(flags: &mut [bool], ids: &[usize], new: &[bool]) {
    ids.iter().zip(new).for_each(|(&id, &new)| flags[id] |= new);
}

/// Whether one of several lists of `len` flags has a flag.
fn any(lists: impl Iterator<Item = Vec<bool>>, len: usize) -> Vec<bool> {
    lists.fold(vec![false; len], |any, list| any.iter().zip(list).map(|(&any, flag)| any || flag).collect())
}

/// Whether the gradient of an operation's operands is zero or none, whatever that of its result.
fn stops(op: &Op) -> bool {
    matches!(op, Op::StopGrad | Op::Unary(Unary::Floor | Unary::Ceil | Unary::Round | Unary::Sign | Unary::Phase))
}
