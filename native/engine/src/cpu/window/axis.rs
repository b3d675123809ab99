//! Windows along one axis.

use std::ops::Range;

/// The windows along one axis of `length` elements, which lie `spread` apart. Window `o` holds the elements at
/// `o * stride + k * dilation - low` for `k < size`, those that exist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowAxis {
    /// Elements on the axis.
    pub(crate) length: usize,
    /// Distance of neighbouring elements.
    pub(crate) spread: usize,
    /// Elements of a window, with those that do not exist.
    pub(crate) size: usize,
    /// Distance of neighbouring windows.
    pub(crate) stride: usize,
    /// Distance of neighbouring elements of a window.
    pub(crate) dilation: usize,
    /// Places before the first element.
    pub(crate) low: i64,
    /// Number of windows.
    pub(crate) count: usize,
}

impl WindowAxis {
    /// The windows that fit, `None` when not even one does or numbers overflow. No argument but `length` is 0.
    pub(crate) fn new(
        (length, spread): (usize, usize),
        (size, dilation): (usize, usize),
        [low, high]: [i64; 2],
        stride: usize,
    ) -> Option<Self> {
        let extent = |count: usize, step: usize| match count.checked_sub(1) {
            Some(gaps) => i64::try_from(gaps.checked_mul(step)?).ok()?.checked_add(1),
            None => Some(0),
        };
        let padded = extent(length, spread)?.checked_add(low)?.checked_add(high)?;
        let room = usize::try_from(padded.checked_sub(extent(size, dilation)?)?).ok()?;
        Some(Self { length, spread, size, stride, dilation, low, count: room / stride + 1 })
    }

    /// The axis where numbers of windows and of elements in a window have changed places.
    pub(crate) fn exchanged(self) -> Self {
        let Self { size, stride, dilation, count, .. } = self;
        Self { size: count, stride: dilation, dilation: stride, count: size, ..self }
    }

    /// Whether each window is one element and each element one window.
    pub(crate) fn is_identity(&self) -> bool {
        self.size == 1 && self.stride == 1 && self.spread == 1 && self.low == 0 && self.count == self.length
    }

    /// The number of element `tap` of window `window`, if it exists.
    #[inline(always)]
    pub(crate) fn place(&self, window: usize, tap: usize) -> Option<usize> {
        let at = usize::try_from((window * self.stride + tap * self.dilation) as i64 - self.low).ok()?;
        let place = match self.spread {
            1 => at,
            spread if at.is_multiple_of(spread) => at / spread,
            _ => return None,
        };
        (place < self.length).then_some(place)
    }

    /// The numbers of the elements of window `window`.
    pub(crate) fn places(&self, window: usize) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.size).filter_map(move |tap| self.place(window, tap))
    }

    /// Whether the elements of a window neighbour each other.
    pub(crate) fn is_dense(&self) -> bool {
        self.dilation == 1 && self.spread == 1
    }

    /// Which elements of window `window` exist, when [they neighbour each other](Self::is_dense).
    pub(crate) fn existing(&self, window: usize) -> Range<usize> {
        let first = (window * self.stride) as i64 - self.low;
        let clip = |tap: i64| tap.clamp(0, self.size as i64) as usize;
        clip(-first)..clip(self.length as i64 - first)
    }

    /// The windows all of whose elements exist, when no two neighbours [lie apart](Self::spread).
    pub(crate) fn whole(&self) -> Range<usize> {
        let extent = ((self.size - 1) * self.dilation) as i64;
        let before = |place: i64| usize::try_from(place).map_or(0, |place| place / self.stride + 1).min(self.count);
        let end = if self.spread == 1 { before(self.length as i64 - 1 + self.low - extent) } else { 0 };
        before(self.low - 1).min(end)..end
    }

    /// Which elements of window `window` exist, when no two neighbours [lie apart](Self::spread).
    pub(crate) fn taps(&self, window: usize) -> Range<usize> {
        let first = (window * self.stride) as i64 - self.low;
        let before = |place: i64| usize::try_from(place).map_or(0, |place| place / self.dilation + 1).min(self.size);
        let end = before(self.length as i64 - 1 - first);
        before(-first - 1).min(end)..end
    }
}
