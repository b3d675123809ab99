//! Orders of a line of elements. Equal elements keep their order; NaN is above all numbers.

use std::cmp::Ordering;

use super::Number;

/// Sorts a line.
pub(crate) fn sort<T: Number>(line: &mut [T], descending: bool) {
    line.sort_by(|&a, &b| compare(a, b, descending));
}

/// The places of the elements of a line in their order.
pub(crate) fn argsort<T: Number>(line: &[T], descending: bool) -> Vec<usize> {
    let mut places: Vec<usize> = (0..line.len()).collect();
    places.sort_by(|&a, &b| compare(line[a], line[b], descending));
    places
}

fn compare<T: Number>(a: T, b: T, descending: bool) -> Ordering {
    let order = a.partial_cmp(&b).unwrap_or_else(|| a.is_unordered().cmp(&b.is_unordered()));
    if descending { order.reverse() } else { order }
}
