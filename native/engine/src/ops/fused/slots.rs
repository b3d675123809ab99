//! Buffers for the values of a tape: two values share one when the first is not read any more.

use crate::cpu::tape::{Place, Step};

/// Gives values, which the steps name by number as [`Place::Slot`], buffers; answers how many there are.
///
/// Values with numbers in `fixed` keep a buffer of their own, in that order, from the first on.
pub(super) fn assign(steps: &mut [Step], fixed: &[usize]) -> usize {
    let values = steps.iter().flat_map(|step| step.from.iter().chain([&step.to])).filter_map(slot).max();
    let mut last_read = vec![0; values.map_or(0, |last| last + 1).max(fixed.iter().max().map_or(0, |last| last + 1))];
    for (at, step) in steps.iter().enumerate() {
        step.from.iter().filter_map(slot).for_each(|value| last_read[value] = at);
    }
    let mut buffers: Vec<Option<usize>> = vec![None; last_read.len()];
    fixed.iter().enumerate().for_each(|(buffer, &value)| buffers[value] = Some(buffer));
    let (mut free, mut count) = (Vec::new(), fixed.len());
    for (at, step) in steps.iter_mut().enumerate() {
        // Before its operands are given back, so that it is none of them.
        if let Some(value) = slot(&step.to) {
            let buffer = free.pop().unwrap_or_else(|| {
                count += 1;
                count - 1
            });
            buffers[value] = Some(buffer);
            step.to = Place::Slot(buffer);
        }
        let mut given_back: Vec<usize> = Vec::new();
        for place in &mut step.from {
            let Some(value) = slot(place) else { continue };
            if last_read[value] == at && !fixed.contains(&value) && !given_back.contains(&value) {
                given_back.push(value);
            }
            *place = Place::Slot(buffers[value].unwrap_or_default());
        }
        free.extend(given_back.into_iter().filter_map(|value| buffers[value]));
    }
    count
}

fn slot(place: &Place) -> Option<usize> {
    match place {
        Place::Slot(value) => Some(*value),
        _ => None,
    }
}
