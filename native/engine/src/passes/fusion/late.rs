//! What is soon computed again from what is kept anyway is computed where it is read: a step of a recurrent layer would keep for
//! its way back not just a function, but also what it is multiplied by there.

use super::cluster::LARGEST;
use super::clusters::Clusters;
use crate::program::{Binary, Op, Unary};
use crate::types::Type;

/// Most instructions that move together.
const MOST: usize = 4;

impl Clusters<'_> {
    /// Moves what another region alone reads to that region, where it comes from values that this region reads anyway, or from a
    /// single one, that are kept.
    pub(super) fn move_late(&mut self) {
        for root in (0..self.program.instructions.len()).rev() {
            let Some(to) = self.only_reader(root) else { continue };
            let mut moved = vec![root];
            let room = LARGEST.saturating_sub(self.clusters[to].members.len());
            if self.gather(root, to, &mut moved) && moved.len() <= room && self.reads_no_more(&moved, to) {
                let from = self.of[root];
                self.clusters[from].members.retain(|i| !moved.contains(i));
                self.clusters[to].members.extend(&moved);
                moved.iter().for_each(|&i| self.of[i] = to);
            }
        }
    }

    /// The region of the same shape that reads a simple function's result, where no other one does.
    fn only_reader(&self, i: usize) -> Option<usize> {
        if !self.is_simple(i) {
            return None;
        }
        let id = self.result(i);
        let to = self.of(*self.readers(id).first()?);
        let alone = !self.is_output(id) && self.readers(id).iter().all(|&reader| self.of(reader) == to);
        let (from, fits) = (self.of(i), |cluster| self.is_elementwise(cluster));
        let same = from != to && fits(from) && fits(to) && self.region(from) == self.region(to);
        (alone && same).then_some(to)
    }

    /// Adds to `moved` what has to move with `i`; false where it comes from what is neither kept nor simple.
    fn gather(&self, i: usize, to: usize, moved: &mut Vec<usize>) -> bool {
        let makers: Vec<usize> = self.producers(i).filter(|&maker| self.of(maker) == self.of(i)).collect();
        makers.into_iter().all(|maker| {
            if moved.contains(&maker) || self.is_kept(maker, moved) {
                return true;
            }
            let readers = self.readers(self.result(maker));
            let follows = readers.iter().all(|reader| moved.contains(reader) || self.of(*reader) == to);
            if !follows || !self.is_simple(maker) || moved.len() == MOST {
                return false;
            }
            moved.push(maker);
            self.gather(maker, to, moved)
        })
    }

    /// Whether others read the result of an instruction than its own region, and what is moved.
    fn is_kept(&self, i: usize, moved: &[usize]) -> bool {
        let id = self.result(i);
        let is_outside = |reader: &usize| self.of(*reader) != self.of(i) && !moved.contains(reader);
        self.is_output(id) || self.readers(id).iter().any(is_outside)
    }

    /// Whether a region that gets these instructions has no more operands than before.
    fn reads_no_more(&self, moved: &[usize], to: usize) -> bool {
        let mut from: Vec<usize> = vec![];
        for &i in moved {
            let inputs = &self.program.instructions[i].inputs;
            let is_inside = |id: usize| self.maker(id).is_some_and(|maker| moved.contains(&maker));
            let is_constant = |id: usize| {
                let maker = self.maker(id).map(|maker| &self.program.instructions[maker].op);
                matches!(maker, Some(Op::Constant(_)))
            };
            from.extend(inputs.iter().filter(|&&id| !is_inside(id) && !is_constant(id)));
        }
        from.sort_unstable();
        from.dedup();
        let is_read = |id: usize| self.readers(id).iter().any(|&i| self.of(i) == to);
        from.iter().filter(|&&id| !is_read(id)).count() <= 1
    }

    /// Whether an instruction takes no longer than to read its result from memory, and needs nothing but whole operands.
    fn is_simple(&self, i: usize) -> bool {
        let instruction = &self.program.instructions[i];
        let [out] = &instruction.outputs[..] else { return false };
        let is_function = match &instruction.op {
            Op::Binary(op) => matches!(op, Binary::Add | Binary::Subtract | Binary::Multiply),
            Op::Unary(op) => *op == Unary::Negate,
            _ => false,
        };
        let plain = matches!(out.dtype, Type::F32 | Type::F64);
        is_function && plain && instruction.inputs.iter().all(|&id| self.ty(id).dtype == out.dtype)
    }
}
