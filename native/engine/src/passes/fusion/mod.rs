//! Fuses elementwise operations, and folds over the last axes, that read each other's results.
//!
//! A region is a set of instructions over one shape. It may hold values of this shape and, where it folds, values of one
//! element for each row. No path leaves a region and comes back, so all of it can run at one point.

mod cluster;
mod clusters;
mod late;
mod numbers;
mod paths;
mod region;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use clusters::Clusters;

use super::dead;
use super::writer::Writer;
use crate::program::Program;

/// The program with regions as single operations.
pub(super) fn fuse(program: &Program) -> Program {
    let mut clusters = Clusters::find(program);
    clusters.move_late();
    clusters.move_numbers();
    let mut writer = Writer::new(&program.inputs);
    let mut ids: Vec<Option<usize>> = (0..program.inputs.len()).map(Some).collect();
    ids.resize(program.value_types().len(), None);
    for members in order(program, &clusters) {
        region::write(program, &clusters, &members, &mut ids, &mut writer);
    }
    let fused = writer.finish(program.outputs.iter().map(|&id| region::known(&ids, id)).collect());
    // Regions hold constants of their own, and broadcast by themselves.
    dead::remove(&fused)
}

/// The instructions of each cluster, in an order in which they can run; calls into the host stay in the order of the program.
fn order(program: &Program, clusters: &Clusters) -> Vec<Vec<usize>> {
    let count = program.instructions.len();
    let mut members: Vec<Vec<usize>> = vec![vec![]; count];
    (0..count).for_each(|i| members[clusters.of(i)].push(i));
    let mut after: Vec<Vec<usize>> = vec![vec![]; count];
    let mut waits_for = vec![0; count];
    let mut last_effect = None;
    for (i, instruction) in program.instructions.iter().enumerate() {
        let effect = if instruction.op.has_effect() { last_effect.replace(i) } else { None };
        for before in clusters.producers(i).chain(effect).map(|p| clusters.of(p)) {
            if before != clusters.of(i) {
                after[before].push(clusters.of(i));
                waits_for[clusters.of(i)] += 1;
            }
        }
    }
    let is_ready = |waits_for: &[usize], c: usize| waits_for[c] == 0 && !members[c].is_empty();
    let mut ready: BinaryHeap<Reverse<usize>> = (0..count).filter(|&c| is_ready(&waits_for, c)).map(Reverse).collect();
    let mut order = Vec::new();
    while let Some(Reverse(cluster)) = ready.pop() {
        for &next in &after[cluster] {
            waits_for[next] -= 1;
            if waits_for[next] == 0 {
                ready.push(Reverse(next));
            }
        }
        order.push(members[cluster].clone());
    }
    order
}
