//! Elements of neighbouring windows, worked on side by side.

/// Windows that are worked on side by side.
pub(super) const LANES: usize = 16;

/// The step of a loop whose steps have no length of their own in the compiled code.
pub(super) const ANY: usize = 0;

/// `LANES` elements that lie `step` apart, from element `at` on, out of as many that [there must be](reach). `STEP` is
/// `step` or [`ANY`]: for known steps, elements are read as vectors.
#[inline(always)]
pub(super) fn pick<T: Copy, const STEP: usize>(x: &[T], at: usize, step: usize) -> [T; LANES] {
    match STEP {
        1 => std::array::from_fn(|k| x[at..at + LANES][k]),
        2 => std::array::from_fn(|k| x[at..at + 2 * LANES][2 * k]),
        _ => std::array::from_fn(|k| x[at..at + LANES * step][k * step]),
    }
}

/// Elements that [`pick`] must find from its first one on. Not all of them need to belong to windows: what is made of
/// those past the end of a row is thrown away.
pub(super) fn reach(step: usize) -> usize {
    LANES * step
}
