//! Where the elements of each window are found.

use std::ops::Range;

use crate::cpu::WindowAxis;

/// The sizes of a convolution with channels last, and the places of its windows.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(super) batch: usize,
    pub(super) groups: usize,
    /// Input channels of one group.
    pub(super) group_channels: usize,
    /// Output channels of one group.
    pub(super) group_outputs: usize,
    /// Elements of one image with all its channels.
    pub(super) image: usize,
    /// Windows of one image.
    pub(super) windows: usize,
    /// Elements of one window, with the channels of one group.
    pub(super) window: usize,
    axes: Vec<Steps>,
}

/// A spatial axis.
#[derive(Clone, Debug)]
struct Steps {
    axis: WindowAxis,
    /// Elements of an image from one place of this axis to the next.
    place: usize,
    /// Elements of a window, with the channels of one group, from one place of this axis to the next.
    tap: usize,
    /// Windows from one place of this axis to the next.
    window: usize,
}

impl Geometry {
    /// The convolution of `batch` images; `spatial` are their axes but channels.
    pub(crate) fn new(
        batch: usize,
        spatial: Vec<WindowAxis>,
        groups: usize,
        group_channels: usize,
        group_outputs: usize,
    ) -> Self {
        let (mut image, mut window, mut windows) = (groups * group_channels, group_channels, 1);
        let steps = |axis: WindowAxis| {
            let steps = Steps { axis, place: image, tap: window, window: windows };
            image *= axis.length;
            window *= axis.size;
            windows *= axis.count;
            steps
        };
        let mut axes: Vec<Steps> = spatial.into_iter().rev().map(steps).collect();
        axes.reverse();
        Self { batch, groups, group_channels, group_outputs, image, windows, window, axes }
    }

    pub(super) fn channels(&self) -> usize {
        self.groups * self.group_channels
    }

    pub(super) fn outputs(&self) -> usize {
        self.groups * self.group_outputs
    }

    /// Shape of the result as batch, spatial, channels.
    pub(crate) fn output_shape(&self) -> Vec<usize> {
        let counts = self.axes.iter().map(|steps| steps.axis.count);
        [self.batch].into_iter().chain(counts).chain([self.outputs()]).collect()
    }

    /// Whether each window is one pixel, so that the images already are a matrix of windows.
    pub(super) fn is_pointwise(&self) -> bool {
        self.groups == 1 && self.axes.iter().all(|steps| steps.axis.is_identity())
    }

    /// Calls `visit(window element, image element, length)` for the runs that make up window `window` of group `group`, in
    /// order; runs outside of the image have no image element.
    pub(super) fn visit(&self, window: usize, group: usize, visit: &mut impl FnMut(usize, Option<usize>, usize)) {
        self.visit_axis(0, window, (0, group * self.group_channels), visit);
    }

    fn visit_axis(
        &self,
        depth: usize,
        window: usize,
        (to, from): (usize, usize),
        visit: &mut impl FnMut(usize, Option<usize>, usize),
    ) {
        let Some(steps) = self.axes.get(depth) else { return visit(to, Some(from), self.group_channels) };
        let (number, rest) = (window / steps.window, window % steps.window);
        if depth + 1 == self.axes.len() && self.groups == 1 && steps.axis.is_dense() {
            return steps.visit_run(number, (to, from), visit);
        }
        for tap in 0..steps.axis.size {
            let to = to + tap * steps.tap;
            match steps.axis.place(number, tap) {
                Some(place) => self.visit_axis(depth + 1, rest, (to, from + place * steps.place), visit),
                None => visit(to, None, steps.tap),
            }
        }
    }
}

impl Steps {
    /// Neighbours on the last axis lie side by side: at most one run of them is inside of the image.
    fn visit_run(
        &self,
        window: usize,
        (to, from): (usize, usize),
        visit: &mut impl FnMut(usize, Option<usize>, usize),
    ) {
        let Range { start, end } = self.axis.existing(window);
        let place = self.axis.place(window, start).filter(|_| start < end);
        let runs = [
            (0..start, None),
            (start..end, place.map(|place| from + place * self.place)),
            (end.max(start)..self.axis.size, None),
        ];
        for (taps, from) in runs.into_iter().filter(|(taps, _)| !taps.is_empty()) {
            visit(to + taps.start * self.tap, from, taps.len() * self.tap);
        }
    }
}
