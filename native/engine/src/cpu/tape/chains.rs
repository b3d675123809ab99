//! Chains of functions on the blocks of a tape.

use std::mem::MaybeUninit;

use bytemuck::cast_slice;

use super::run::Block;
use super::worker::Worker;
use super::{Joint, Read, Step};
use crate::cpu::chain::{Beside, LINKS, Linked, chain};
use crate::cpu::kernel::places;
use crate::cpu::{Divisor, Link};
use crate::program::Extent;

/// Elements of a block that are computed at once.
#[derive(Clone, Copy)]
struct Part {
    block: Block,
    /// The number of the row within the block.
    row: usize,
    len: usize,
}

impl Worker<'_> {
    /// Runs a chain, row by row where operands are one element for each row.
    pub(super) fn chain(&mut self, joints: &[Joint], step: &Step, block: Block) {
        let by_rows = joints.iter().flat_map(Joint::reads).any(|(_, extent)| extent == Extent::Row);
        let len = if by_rows { block.len / block.rows } else { block.len };
        let out: &mut [MaybeUninit<f32>] = places(self.places(step.to, block, block.len * size_of::<f32>()));
        for (row, out) in out.chunks_exact_mut(len).enumerate() {
            let part = Part { block, row, len };
            let mut links = [Linked::NONE; LINKS];
            for (linked, joint) in links.iter_mut().zip(joints) {
                *linked = Linked { link: joint.link, beside: self.beside(joint, step, part), turned: joint.turned };
            }
            chain(self.numbers(step, (0, Extent::Whole), part), &links[..joints.len()], out);
        }
    }

    fn beside<'b>(&mut self, joint: &Joint, step: &Step, part: Part) -> Beside<'b> {
        let Some(read) = joint.beside else { return Beside::Same };
        let numbers = self.numbers(step, read, part);
        match (joint.times, read) {
            (Some(times), _) => Beside::Times(numbers, self.numbers(step, times, part)[0]),
            (None, (_, Extent::Whole)) => Beside::Many(numbers),
            (None, _) if joint.link == Link::Divide && !joint.turned => {
                Divisor::new(numbers[0]).map_or(Beside::One(numbers[0]), Beside::By)
            }
            (None, _) => Beside::One(numbers[0]),
        }
    }

    /// The elements of an operand that belong to a part of a block.
    fn numbers<'b>(&mut self, step: &Step, (operand, extent): Read, part: Part) -> &'b [f32] {
        let Part { block, row, len } = part;
        let (first, len, all) = match extent {
            Extent::Whole => (row * len, len, block.len),
            Extent::Row => (row, 1, block.rows),
            Extent::One => (0, 1, 1),
        };
        &cast_slice(self.operand(step.from[operand], block, all * size_of::<f32>()))[first..first + len]
    }
}
