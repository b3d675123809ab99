//! Integers that only one region reads, as the keys of a generator of random bits that change from round to round, are computed in
//! it, for each block anew: that takes less than an instruction of their own, and on a GPU less than a kernel.

use super::cluster::LARGEST;
use super::clusters::Clusters;
use crate::ops::fused::kernel;
use crate::types::Type;

impl Clusters<'_> {
    /// Moves single integers to the regions that read them.
    pub(super) fn move_numbers(&mut self) {
        for i in (0..self.program.instructions.len()).rev() {
            let Some(to) = self.only_region(i) else { continue };
            let from = self.of[i];
            self.clusters[from].members.retain(|&member| member != i);
            self.clusters[to].members.push(i);
            self.of[i] = to;
        }
    }

    /// The region without rows that all readers of an integer are in, where it has room.
    fn only_region(&self, i: usize) -> Option<usize> {
        if !self.is_number(i) || self.is_output(self.result(i)) {
            return None;
        }
        let readers = self.readers(self.result(i));
        let to = self.of(*readers.first()?);
        let alone = readers.iter().all(|&reader| self.of(reader) == to);
        let has_room = self.clusters[to].members.len() < LARGEST;
        (alone && has_room && self.is_elementwise(to)).then_some(to)
    }

    /// Whether an instruction makes a single integer of others.
    fn is_number(&self, i: usize) -> bool {
        let instruction = &self.program.instructions[i];
        let [out] = &instruction.outputs[..] else { return false };
        let operands: Vec<Type> = instruction.inputs.iter().map(|&id| self.ty(id).dtype).collect();
        let is_single = out.shape.is_empty() && instruction.inputs.iter().all(|&id| self.ty(id).shape.is_empty());
        let are_integers = operands.iter().chain([&out.dtype]).all(|dtype| dtype.is_int());
        is_single && are_integers && !operands.is_empty() && kernel(&instruction.op, &operands, out.dtype).is_some()
    }
}
