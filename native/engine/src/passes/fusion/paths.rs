//! Which clusters run before which, and how two become one.

use std::collections::HashSet;

use super::clusters::Clusters;

/// Most clusters that are looked at before two are joined. Where these are not enough to know that no path leads back, as in
/// a program of tens of thousands of operations that all read what was made first, they stay two.
const MOST_SEEN: usize = 4096;

impl Clusters<'_> {
    /// Whether the deeper one of two clusters depends on what reads the other one and is in neither.
    ///
    /// Every step of a path leads deeper, so none goes from the deeper one to the other, and what is on one lies between them.
    pub(super) fn leads_back(&self, [a, b]: [usize; 2]) -> bool {
        let depth = |c: usize| self.clusters[c].depth;
        let (start, end) = if depth(a) < depth(b) { (a, b) } else { (b, a) };
        let is_between = |c: usize| depth(c) > depth(start);
        let mut stack: Vec<usize> = self.around(end).filter(|&c| c != end && is_between(c)).collect();
        let mut seen = HashSet::new();
        while let Some(cluster) = stack.pop() {
            if seen.len() == MOST_SEEN || self.around(cluster).any(|c| c == start) {
                return true;
            }
            if seen.insert(cluster) {
                stack.extend(self.around(cluster).filter(|&c| c != cluster && is_between(c)));
            }
        }
        false
    }

    /// The clusters that must run before a cluster, and itself where its instructions read each other.
    fn around(&self, cluster: usize) -> impl Iterator<Item = usize> + '_ {
        self.clusters[cluster].members.iter().flat_map(|&i| self.before(i))
    }

    /// The clusters that must run before an instruction, or its own.
    pub(super) fn before(&self, instruction: usize) -> impl Iterator<Item = usize> + '_ {
        self.producers(instruction).chain(self.effects[instruction]).map(|i| self.of[i])
    }

    /// The clusters that must run after an instruction, or its own, of those that are known.
    fn after(&self, instruction: usize) -> impl Iterator<Item = usize> + '_ {
        let results = (self.results[instruction]..).take(self.program.instructions[instruction].outputs.len());
        let readers = results.flat_map(|id| &self.readers[id]).copied();
        readers.chain(self.later_effects[instruction]).map(|i| self.of[i])
    }

    /// Makes two clusters one, which keeps the number of the first.
    pub(super) fn join(&mut self, a: usize, b: usize) {
        let depth = self.joint_depth([a, b]);
        let from = std::mem::take(&mut self.clusters[b]);
        from.members.iter().for_each(|&i| self.of[i] = a);
        let into = &mut self.clusters[a];
        into.members.extend(from.members);
        into.row_axes = into.row_axes.max(from.row_axes);
        into.depth = depth;
        self.sink(a);
    }

    /// The depth of two clusters as one.
    fn joint_depth(&self, both: [usize; 2]) -> usize {
        let others = both.iter().flat_map(|&c| self.around(c)).filter(|c| !both.contains(c));
        others.map(|c| self.clusters[c].depth + 1).max().unwrap_or(0)
    }

    /// Makes those that run after a cluster deeper than it is.
    fn sink(&mut self, cluster: usize) {
        let mut stack = vec![cluster];
        while let Some(above) = stack.pop() {
            let depth = self.clusters[above].depth + 1;
            let below = self.clusters[above].members.iter().flat_map(|&i| self.after(i));
            let below: Vec<usize> = below.filter(|&c| c != above && self.clusters[c].depth < depth).collect();
            for c in below {
                self.clusters[c].depth = depth;
                stack.push(c);
            }
        }
    }
}
