//! Where a step program is cut so that its backward pass needs less memory.

use crate::program::{Instruction, Op, Program};
use crate::types::TensorType;

/// Ends of the segments of `every` instructions.
pub(super) fn every(instructions: usize, every: usize) -> Vec<usize> {
    (1..=instructions.div_ceil(every)).map(|number| instructions.min(number * every)).collect()
}

/// Ends of the segments for which a backward pass needs the least memory: what lies between segments is kept, and of one
/// segment at a time all that it computes.
pub(super) fn balanced(program: &Program) -> Vec<usize> {
    let weights: Vec<usize> = program.instructions.iter().map(weight).collect();
    let living = living(program);
    let whole = (weights.iter().sum(), vec![weights.len()]);
    let parts = (1..).map(|power| 1 << power).take_while(|&parts| parts <= weights.len());
    let candidates = parts.map(|parts| {
        let ends = even(&weights, &living, parts);
        (memory(&weights, &living, &ends), ends)
    });
    candidates.fold(whole, |best, next| if next.0 < best.0 { next } else { best }).1
}

/// Bytes that a tape may keep of an instruction.
fn weight(instruction: &Instruction) -> usize {
    let inside = match &instruction.op {
        Op::Fused(_) | Op::Blocked(_) => instruction.op.nested(),
        Op::Rows(rows) => vec![&rows.whole],
        _ => vec![],
    };
    let inside = inside.into_iter().flat_map(|program| &program.instructions).map(weight).sum::<usize>();
    instruction.outputs.iter().map(bytes).sum::<usize>() + inside
}

fn bytes(ty: &TensorType) -> usize {
    ty.shape.iter().fold(ty.dtype.size(), |n, &length| n.saturating_mul(length))
}

/// For each instruction: bytes that are made up to it and read behind it. The program's own inputs are there anyway.
fn living(program: &Program) -> Vec<usize> {
    let count = program.instructions.len();
    let (types, last) = (program.value_types(), last_reads(program));
    let mut change = vec![0isize; count + 1];
    let mut id = program.inputs.len();
    for (number, instruction) in program.instructions.iter().enumerate() {
        for _ in &instruction.outputs {
            let end = last[id].map_or(number, |last| last.min(count));
            let size = bytes(types[id]).min(isize::MAX as usize) as isize;
            change[number] = change[number].saturating_add(size);
            change[end] = change[end].saturating_sub(size);
            id += 1;
        }
    }
    let sums = change.iter().take(count).scan(0isize, |sum, change| {
        *sum = sum.saturating_add(*change);
        Some(usize::try_from(*sum).unwrap_or(0))
    });
    sums.collect()
}

/// For each value: the last instruction that reads it; the number of instructions when the program answers it.
pub(super) fn last_reads(program: &Program) -> Vec<Option<usize>> {
    let mut last = vec![None; program.value_types().len()];
    for (number, instruction) in program.instructions.iter().enumerate() {
        instruction.inputs.iter().for_each(|&id| last[id] = Some(number));
    }
    program.outputs.iter().for_each(|&id| last[id] = Some(program.instructions.len()));
    last
}

/// Ends of about so many `parts` of equal weight, each moved to where the least is alive.
fn even(weights: &[usize], living: &[usize], parts: usize) -> Vec<usize> {
    let part = weights.iter().sum::<usize>() / parts;
    let (mut ends, mut sum) = (vec![], 0);
    let mut best: Option<(usize, usize)> = None;
    for (number, weight) in weights.iter().enumerate() {
        sum += weight;
        if sum >= part / 2 && best.is_none_or(|(at, _)| living[number] <= living[at]) {
            best = Some((number, sum));
        }
        if let Some((at, until)) = best.filter(|_| sum >= part + part / 2) {
            ends.push(at + 1);
            sum -= until;
            best = None;
        }
    }
    ends.retain(|&end| end < weights.len());
    ends.push(weights.len());
    ends
}

fn memory(weights: &[usize], living: &[usize], ends: &[usize]) -> usize {
    let starts = [0].into_iter().chain(ends.iter().copied());
    let largest = starts.zip(ends).map(|(start, &end)| weights[start..end].iter().sum::<usize>()).max();
    let kept = ends[..ends.len() - 1].iter().map(|&end| living[end - 1]).sum::<usize>();
    largest.unwrap_or(0).saturating_add(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Binary, Unary};
    use crate::types::Type;

    /// A chain of `length` roots of 100 numbers, each pair of which passes through one of 1 number.
    fn chain(length: usize) -> Program {
        let (wide, thin) = (TensorType::new(Type::F32, [100]), TensorType::new(Type::F32, [1]));
        let root = |id, ty: &TensorType| Instruction {
            op: Op::Unary(Unary::Sqrt),
            inputs: vec![id],
            outputs: vec![ty.clone()],
        };
        let instructions = (0..length).map(|id| root(id, if id % 3 == 2 { &thin } else { &wide })).collect::<Vec<_>>();
        Program { inputs: vec![wide.clone()], instructions, outputs: vec![length] }
    }

    #[test]
    fn segments_of_a_number_of_instructions_end_with_the_program() {
        assert_eq!(every(7, 3), [3, 6, 7]);
        assert_eq!(every(6, 3), [3, 6]);
        assert_eq!(every(2, 3), [2]);
        assert_eq!(every(0, 3), [0; 0]);
    }

    #[test]
    fn balanced_segments_end_where_little_is_alive() {
        let ends = balanced(&chain(48));
        assert!(ends.len() > 3 && ends.last() == Some(&48), "{ends:?}");
        assert!(ends.iter().all(|end| end % 3 == 0), "{ends:?}");
    }

    #[test]
    fn what_is_alive_is_made_before_and_read_behind() {
        let ty = TensorType::new(Type::F32, [2]);
        let add = |inputs| Instruction { op: Op::Binary(Binary::Add), inputs, outputs: vec![ty.clone()] };
        // 1 = 0 + 0, 2 = 1 + 0, 3 = 2 + 1
        let instructions = vec![add(vec![0, 0]), add(vec![1, 0]), add(vec![2, 1])];
        let program = Program { inputs: vec![ty.clone()], instructions, outputs: vec![3] };
        assert_eq!(living(&program), [8, 16, 8]);
    }
}
