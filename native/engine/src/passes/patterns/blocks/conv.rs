//! Convolutions with a region.

use super::Region;
use crate::program::{Op, Pattern};

/// Fewest channels of the result: the lines of fewer are so short that what comes once for each takes as long as memory.
const CHANNELS: usize = 8;

/// A convolution and its region.
pub(super) fn conv(region: &Region<'_>) -> Option<Vec<usize>> {
    let (number, instruction) = region.before().find(|(_, instruction)| matches!(instruction.op, Op::Conv(_)))?;
    let Op::Conv(attrs) = &instruction.op else { return None };
    let &channels = attrs.output_permutation.get(1)?;
    // Blocks are of windows with all their channels.
    let (shape, row_axes) = (&region.fused.shape, region.fused.row_axes);
    let comes_by_rows = row_axes == 0 || row_axes == 1 && channels + 1 == shape.len();
    // A kernel that is larger than what it makes is summed by parts of the windows.
    let is_small = region.graph.len(instruction.inputs[1]) <= shape.iter().product();
    let is_worth = region.fused.patterns.contains(&Pattern::Conv) && shape[channels] >= CHANNELS;
    (is_worth && comes_by_rows && is_small && region.is_plain(instruction)).then(|| vec![number, region.number])
}
