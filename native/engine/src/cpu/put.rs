//! A part of a tensor replaced where it lies.

use burn_flex::Layout;

use super::block::own;
use super::nest::Nest;
use super::{Number, View, for_number};
use crate::error::Result;
use crate::value::Value;

/// Writes `part` into a tensor that is alone in its memory, from `starts` on, where it fits. `false` where elements of these
/// types, or tensors that lie like these, are not written so; then nothing is.
pub(crate) fn put(into: &mut Value, part: &Value, starts: &[usize]) -> bool {
    if into.dtype() != part.dtype() {
        return false;
    }
    let written: Result<bool> = for_number!(part.dtype(), T => Ok(write::<T>(into, part, starts).is_some()));
    written.unwrap_or(false)
}

fn write<T: Number>(into: &mut Value, part: &Value, starts: &[usize]) -> Option<()> {
    let place = place(into.flex()?.layout(), part.flex()?.layout(), starts);
    let source = View::<T>::new(part).ok()?;
    let nest = Nest::new([&place, source.layout()]);
    let steps = nest.step();
    let elements = own::<T>(into)?;
    nest.visit(0..place.num_elements(), &mut |_, count, [to, from]| match steps {
        [1, 1] => elements[to..to + count].copy_from_slice(&source[from..from + count]),
        [to_step, from_step] => (0..count as isize).for_each(|i| {
            elements[to.wrapping_add_signed(i * to_step)] = source[from.wrapping_add_signed(i * from_step)];
        }),
    });
    Some(())
}

/// How a part lies in a tensor from `starts` on.
fn place(into: &Layout, part: &Layout, starts: &[usize]) -> Layout {
    let strides = into.strides();
    let start = starts.iter().zip(strides).map(|(&start, &stride)| start as isize * stride).sum();
    Layout::new(part.shape().clone(), strides.to_vec(), into.start_offset().wrapping_add_signed(start))
}
