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
    /// What a window is made of that lies inside of the image whole.
    pub(super) runs: Vec<Run>,
    /// The same as single elements of the image, where runs are so short that it takes longer to copy them.
    pub(super) elements: Vec<usize>,
}

/// Runs of fewer elements are copied by single elements.
const SHORT: usize = 16;

/// Neighbouring elements of a window that neighbour each other in the image too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The first of them in the window.
    pub(super) to: usize,
    /// The first of them in the image, counted from the window's first element.
    pub(super) from: usize,
    pub(super) length: usize,
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
    /// The places of windows that lie inside of the image whole.
    whole: Range<usize>,
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
            let steps = Steps { axis, place: image, tap: window, window: windows, whole: axis.whole() };
            image *= axis.length;
            window *= axis.size;
            windows *= axis.count;
            steps
        };
        let mut axes: Vec<Steps> = spatial.into_iter().rev().map(steps).collect();
        axes.reverse();
        let runs = runs(&axes, groups == 1, group_channels);
        let short = runs.iter().filter(|run| run.length < SHORT);
        let elements = short.flat_map(|run| run.from..run.from + run.length).collect();
        Self { batch, groups, group_channels, group_outputs, image, windows, window, axes, runs, elements }
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

    /// Whether few windows hold many elements each, as where a kernel's gradient is written as a convolution.
    pub(crate) fn is_long(&self) -> bool {
        self.groups == 1 && self.window > self.batch * self.windows && !self.is_pointwise()
    }

    /// The convolution whose kernel has this one's result as its gradient: what this one's kernel and result are along an
    /// axis changes places, as batch and channels of the images do.
    pub(super) fn exchanged(&self) -> Self {
        let spatial = self.axes.iter().map(|steps| steps.axis.exchanged()).collect();
        let images = self.group_channels;
        Self::new(images, spatial, 1, self.batch, self.group_outputs)
    }

    /// Whether each window is one pixel, so that the images already are a matrix of windows.
    pub(super) fn is_pointwise(&self) -> bool {
        self.groups == 1 && self.axes.iter().all(|steps| steps.axis.is_identity())
    }

    /// The first element of window `window`, how many windows from it on, side by side, lie inside of the image whole, and
    /// how far apart those begin. `None` when it does not.
    pub(super) fn whole(&self, window: usize) -> Option<(usize, usize, usize)> {
        let (mut first, mut rest, mut last) = (0, window, (1, 0));
        for steps in &self.axes {
            let number = rest / steps.window;
            rest %= steps.window;
            if !steps.whole.contains(&number) {
                return None;
            }
            let place = (number * steps.axis.stride) as i64 - steps.axis.low;
            first += usize::try_from(place).ok()? * steps.place;
            last = (steps.whole.end - number, steps.axis.stride * steps.place);
        }
        Some((first, last.0, last.1))
    }

    /// Calls `visit(window element, image element, length)` for the runs that make up window `window` of group `group`, in
    /// order; runs outside of the image have no image element.
    pub(super) fn visit(&self, window: usize, group: usize, visit: &mut impl FnMut(usize, Option<usize>, usize)) {
        let channel = group * self.group_channels;
        match self.whole(window) {
            Some((first, ..)) => {
                self.runs.iter().for_each(|run| visit(run.to, Some(first + channel + run.from), run.length));
            }
            None => self.visit_axis(0, window, (0, channel), visit),
        }
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

/// What windows are made of that lie inside of the image whole. With one group, neighbours on the last axis lie side by
/// side.
fn runs(axes: &[Steps], is_one_group: bool, channels: usize) -> Vec<Run> {
    let (axes, length) = match axes.split_last() {
        Some((last, outer)) if is_one_group && last.axis.is_dense() => (outer, last.axis.size * channels),
        _ => (axes, channels),
    };
    let mut runs = vec![Run { to: 0, from: 0, length }];
    for Steps { axis, place, tap, .. } in axes {
        let along = |run: Run| {
            (0..axis.size).map(move |number| Run {
                to: run.to + number * tap,
                from: run.from + number * axis.dilation * place,
                length,
            })
        };
        runs = runs.into_iter().flat_map(along).collect();
    }
    runs
}
