//! From the rows of one value of a loop to those of all.

use super::axes::{self, Place};
use crate::program::{Instruction, Op, Program};
use crate::types::TensorType;

/// Most elements of what each block computes anew because it does not depend on rows.
const REPEATED: usize = 256;

/// The places of rows in all values of a loop's body, when those of one lie along an axis; `None` where a row depends on
/// others. The first `state` inputs of the body are what it answered in the last iteration.
pub(super) fn solve(body: &Program, (seed, axis): (usize, usize), state: usize) -> Option<Vec<Place>> {
    let types = body.value_types();
    let mut places: Vec<Place> = vec![None; types.len()];
    places[seed] = Some(axis);
    let steps = body.instructions.iter().scan(body.inputs.len(), |next, instruction| {
        let id = *next;
        *next += instruction.outputs.len();
        Some((id, instruction))
    });
    let steps: Vec<(usize, &Instruction)> = steps.collect();
    loop {
        let before = places.clone();
        // To and fro, as rows are passed on from operands to results and from results to operands.
        for (id, instruction) in steps.iter().chain(steps.iter().rev()) {
            step(instruction, *id, &types, &mut places)?;
        }
        for (input, &output) in body.outputs.iter().enumerate().take(state) {
            let place = places[input].or(places[output]);
            place.into_iter().try_for_each(|axis| {
                set(&mut places, input, axis)?;
                set(&mut places, output, axis)
            })?;
        }
        if before == places {
            return repeats_little(body, &places).then_some(places);
        }
    }
}

/// What an instruction says about the rows of its operands and its result.
fn step(instruction: &Instruction, id: usize, types: &[&TensorType], places: &mut [Place]) -> Option<()> {
    for (operand, &from) in instruction.inputs.iter().enumerate() {
        if let Some(place) = places[from] {
            let [_] = instruction.outputs[..] else { return None };
            let axis = places[id].or_else(|| axes::result(instruction, types, operand, place))?;
            set(places, id, axis)?;
        }
    }
    let [Some(axis)] = places[id..id + instruction.outputs.len()] else { return Some(()) };
    for (&from, place) in instruction.inputs.iter().zip(axes::operands(instruction, types, axis)?) {
        match place {
            Some(axis) => set(places, from, axis)?,
            None if places[from].is_some() => return None,
            None => (),
        }
    }
    Some(())
}

/// Rows lie along one axis only.
fn set(places: &mut [Place], id: usize, axis: usize) -> Option<()> {
    (*places[id].get_or_insert(axis) == axis).then_some(())
}

/// Whether all real work is done for rows.
fn repeats_little(body: &Program, places: &[Place]) -> bool {
    let mut id = body.inputs.len();
    body.instructions.iter().all(|instruction| {
        let first = id;
        id += instruction.outputs.len();
        let elements = |ty: &TensorType| ty.shape.iter().product::<usize>();
        let is_small = instruction.outputs.iter().all(|ty| elements(ty) <= REPEATED);
        let is_free = matches!(instruction.op, Op::Constant(_) | Op::Reshape | Op::Broadcast(_) | Op::Transpose(_));
        let is_one = instruction.outputs.len() == 1;
        is_one && (places[first].is_some() || is_small || is_free)
    })
}
