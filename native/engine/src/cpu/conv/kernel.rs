//! Convolution of images with channels last, in the memory of the CPU.
//!
//! Windows are copied side by side into a small matrix that stays in cache, which is multiplied by the kernel.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::Geometry;
use crate::cpu::block::{put_all, zeros};
use crate::cpu::crew::threads;
use crate::cpu::product::{Matrix, Real, multiply};
use crate::cpu::tasks::chunks;
use crate::cpu::{memory, value};
use crate::error::Result;
use crate::value::Value;

/// Elements of a matrix of windows.
const TILE: usize = 1 << 16;

/// Products of two numbers that are worth a task of their own.
const GRAIN: usize = 1 << 18;

/// Partial sums of the kernel's gradient, added in order so that the result does not depend on the threads.
const PARTS: usize = 8;

/// The images `x` `[batch, spatial.., channels]` with the kernel `k` `[spatial.., channels of a group, outputs]`.
pub(crate) fn convolve<T: Real>(geometry: &Geometry, x: &Value, k: &Value) -> Result<Value> {
    if geometry.is_long() {
        return convolve_long::<T>(geometry, x, k);
    }
    let [x, k] = [x.clone().contiguous(), k.clone().contiguous()];
    let y = geometry.forward::<T>(memory(&x)?.storage(), memory(&k)?.storage());
    Ok(value(&geometry.output_shape(), y))
}

/// [`convolve`] as the gradient of a kernel: a long sum of products of short windows, which all cores share.
fn convolve_long<T: Real>(geometry: &Geometry, x: &Value, k: &Value) -> Result<Value> {
    let last = x.rank() - 1;
    let by_channel: Vec<usize> = [last].into_iter().chain(1..last).chain([0]).collect();
    let taps_inside: Vec<usize> = [last - 1].into_iter().chain(0..last - 1).chain([last]).collect();
    let [x, k] = [x.clone().permute(&by_channel).contiguous(), k.clone().permute(&taps_inside).contiguous()];
    let y = geometry.exchanged().kernel_gradient::<T>(memory(&x)?.storage(), memory(&k)?.storage());
    let mut shape = geometry.output_shape();
    shape[..last].rotate_left(1);
    Ok(value(&shape, y).permute(&taps_inside))
}

/// The gradient of the images from the gradient `g` of the result.
pub(crate) fn images_gradient<T: Real>(geometry: &Geometry, x: &Value, k: &Value, g: &Value) -> Result<Value> {
    let [k, g] = [k.clone().contiguous(), g.clone().contiguous()];
    let gradient = geometry.images_gradient::<T>(memory(&g)?.storage(), memory(&k)?.storage());
    Ok(value(&x.shape(), gradient))
}

/// The gradient of the kernel from the gradient `g` of the result.
pub(crate) fn kernel_gradient<T: Real>(geometry: &Geometry, x: &Value, k: &Value, g: &Value) -> Result<Value> {
    let [x, g] = [x.clone().contiguous(), g.clone().contiguous()];
    let gradient = geometry.kernel_gradient::<T>(memory(&x)?.storage(), memory(&g)?.storage());
    Ok(value(&k.shape(), gradient))
}

impl Geometry {
    pub(super) fn rows(&self) -> usize {
        self.batch * self.windows
    }

    /// Rows of a matrix of windows.
    pub(super) fn tile(&self) -> usize {
        let products = self.window * self.outputs();
        (TILE / self.window).clamp(16, 1024).max(GRAIN / products)
    }

    /// Rows of a task: several tiles share a buffer, but each core has some.
    pub(super) fn task(&self) -> usize {
        let tile = self.tile();
        tile * (self.rows() / tile / (8 * threads())).max(1)
    }

    pub(super) fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.group_channels == 1 && self.group_outputs == 1
    }

    fn forward<T: Real>(&self, x: &[T], k: &[T]) -> Vec<T> {
        let (outputs, tile, task) = (self.outputs(), self.tile(), self.task());
        let mut y = zeros::<T>(self.rows() * outputs);
        chunks(&mut y, task * outputs, &|part, y| {
            let mut buffer = vec![];
            for (i, y) in y.chunks_mut(tile * outputs).enumerate() {
                let first = part * task + i * tile;
                self.forward_tile(x, k, first..first + y.len() / outputs, y, &mut buffer);
            }
        });
        y
    }

    /// [`Self::forward`] of the windows `rows`.
    pub(super) fn forward_tile<T: Real>(&self, x: &[T], k: &[T], rows: Range<usize>, y: &mut [T], buffer: &mut Vec<T>) {
        let outputs = self.outputs();
        if self.is_depthwise() {
            return self.depthwise(x, rows.clone(), |row, tap, pixel| {
                multiply_add(&mut y[(row - rows.start) * outputs..][..outputs], pixel, &k[tap * outputs..]);
            });
        }
        for group in 0..self.groups {
            let windows = self.gather(x, rows.clone(), group, buffer);
            multiply(&mut y[group * self.group_outputs..], outputs, windows, self.kernel(k, group), false);
        }
    }

    /// The gradient of the images from the gradient `dy` of the result.
    fn images_gradient<T: Real>(&self, dy: &[T], k: &[T]) -> Vec<T> {
        let mut dx = zeros::<T>(self.batch * self.image);
        let images = (GRAIN / (self.windows * self.window * self.outputs())).max(1);
        chunks(&mut dx, images * self.image, &|part, dx| {
            for (i, image) in dx.chunks_exact_mut(self.image).enumerate() {
                self.image_gradient((part * images + i) * self.windows, image, dy, k);
            }
        });
        dx
    }

    /// [`Self::images_gradient`] of the image whose first window is row `first`.
    fn image_gradient<T: Real>(&self, first: usize, image: &mut [T], dy: &[T], k: &[T]) {
        let outputs = self.outputs();
        if self.is_depthwise() {
            return (0..self.windows).for_each(|window| {
                let dy = &dy[(first + window) * outputs..][..outputs];
                self.visit(window, 0, &mut |tap, pixel, _| {
                    let Some(pixel) = pixel else { return };
                    multiply_add(&mut image[pixel..][..outputs], dy, &k[tap * outputs..]);
                });
            });
        }
        let mut buffer = vec![T::zero(); self.tile().min(self.windows) * self.window];
        for start in (0..self.windows).step_by(self.tile()) {
            let rows = start..self.windows.min(start + self.tile());
            for group in 0..self.groups {
                let dy = &dy[(first + start) * outputs + group * self.group_outputs..];
                let dy = Matrix::new(dy, rows.len(), self.group_outputs, outputs);
                self.scatter(dy, self.kernel(k, group).transposed(), rows.clone(), group, (image, &mut buffer));
            }
        }
    }

    /// Adds the gradients `dy * kernel` of the windows `rows` to the pixels they came from.
    fn scatter<T: Real>(
        &self,
        dy: Matrix<'_, T>,
        kernel: Matrix<'_, T>,
        rows: Range<usize>,
        group: usize,
        (image, buffer): (&mut [T], &mut [T]),
    ) {
        if self.is_pointwise() {
            let channels = self.channels();
            return multiply(&mut image[rows.start * channels..], channels, dy, kernel, false);
        }
        multiply(buffer, self.window, dy, kernel, false);
        for (row, window) in rows.zip(buffer.chunks_exact(self.window)) {
            self.visit(row, group, &mut |from, to, length| {
                let Some(to) = to else { return };
                image[to..][..length].iter_mut().zip(&window[from..]).for_each(|(x, &w)| *x = *x + w);
            });
        }
    }

    /// The gradient of the kernel from the gradient `dy` of the result.
    fn kernel_gradient<T: Real>(&self, x: &[T], dy: &[T]) -> Vec<T> {
        let parts = self.rows().div_ceil(self.tile()).min(PARTS);
        let rows = self.rows().div_ceil(parts);
        let part = |part: usize| {
            let mut dk = bytemuck::zeroed_vec::<T>(self.window * self.outputs());
            self.add_kernel_gradient(part * rows..self.rows().min((part + 1) * rows), &mut dk, x, dy);
            dk
        };
        let mut sums = vec![vec![]; parts];
        chunks(&mut sums, 1, &|i, sums| sums.iter_mut().for_each(|sum| *sum = part(i)));
        let add = |mut sum: Vec<T>, part: Vec<T>| {
            sum.iter_mut().zip(part).for_each(|(sum, part)| *sum = *sum + part);
            sum
        };
        sums.into_iter().reduce(add).unwrap_or_default()
    }

    fn add_kernel_gradient<T: Real>(&self, rows: Range<usize>, dk: &mut [T], x: &[T], dy: &[T]) {
        let outputs = self.outputs();
        if self.is_depthwise() {
            return self.depthwise(x, rows, |row, tap, pixel| {
                multiply_add(&mut dk[tap * outputs..][..outputs], pixel, &dy[row * outputs..]);
            });
        }
        let mut buffer = vec![];
        for start in rows.clone().step_by(self.tile()) {
            let tile = start..rows.end.min(start + self.tile());
            for group in 0..self.groups {
                let windows = self.gather(x, tile.clone(), group, &mut buffer).transposed();
                let dy = &dy[start * outputs + group * self.group_outputs..];
                let dy = Matrix::new(dy, tile.len(), self.group_outputs, outputs);
                multiply(&mut dk[group * self.group_outputs..], outputs, windows, dy, true);
            }
        }
    }

    /// The kernel of one group.
    fn kernel<'a, T>(&self, k: &'a [T], group: usize) -> Matrix<'a, T> {
        Matrix::new(&k[group * self.group_outputs..], self.window, self.group_outputs, self.outputs())
    }

    /// The windows `rows`, counted over all images, side by side.
    fn gather<'a, T: Real>(
        &self,
        x: &'a [T],
        rows: Range<usize>,
        group: usize,
        buffer: &'a mut Vec<T>,
    ) -> Matrix<'a, T> {
        if self.is_pointwise() {
            let channels = self.channels();
            return Matrix::new(&x[rows.start * channels..], rows.len(), channels, channels);
        }
        let len = rows.len() * self.window;
        buffer.clear();
        buffer.reserve(len);
        self.copy_windows(x, rows.clone(), group, &mut buffer.spare_capacity_mut()[..len]);
        // SAFETY: each element of each window has been written above.
        unsafe { buffer.set_len(len) };
        Matrix::new(buffer, rows.len(), self.window, self.window)
    }

    /// Writes the windows `rows`, all elements of each.
    fn copy_windows<T: Real>(&self, x: &[T], rows: Range<usize>, group: usize, windows: &mut [MaybeUninit<T>]) {
        let (mut row, channel) = (rows.start, group * self.group_channels);
        let mut windows = windows.chunks_exact_mut(self.window);
        while row < rows.end {
            let image = &x[row / self.windows * self.image..][..self.image];
            let whole = self.whole(row % self.windows);
            let count = whole.map_or(1, |(_, count, _)| count.min(rows.end - row));
            for (i, window) in windows.by_ref().take(count).enumerate() {
                match whole {
                    Some((first, _, step)) => self.copy_whole(&image[first + channel + i * step..], window),
                    None => self.copy_part(image, row % self.windows, group, window),
                }
            }
            row += count;
        }
    }

    /// Copies a window that lies inside of the image whole, which goes on from the window's first element.
    fn copy_whole<T: Real>(&self, image: &[T], window: &mut [MaybeUninit<T>]) {
        if self.elements.is_empty() {
            self.runs.iter().for_each(|run| {
                put_all(&mut window[run.to..][..run.length], &image[run.from..][..run.length]);
            });
        }
        window.iter_mut().zip(&self.elements).for_each(|(to, &from)| *to = MaybeUninit::new(image[from]));
    }

    /// Copies window `number`, with zeros for what is not in the image.
    fn copy_part<T: Real>(&self, image: &[T], number: usize, group: usize, window: &mut [MaybeUninit<T>]) {
        self.visit(number, group, &mut |to, from, length| match from {
            Some(from) => put_all(&mut window[to..][..length], &image[from..][..length]),
            None => window[to..][..length].fill(MaybeUninit::new(T::zero())),
        });
    }

    /// Calls `visit(row, element of the window, pixel)` for the pixels of each window, with all their channels.
    fn depthwise<T: Real>(&self, x: &[T], rows: Range<usize>, mut visit: impl FnMut(usize, usize, &[T])) {
        for row in rows {
            let image = &x[row / self.windows * self.image..][..self.image];
            self.visit(row % self.windows, 0, &mut |tap, pixel, _| {
                if let Some(pixel) = pixel {
                    visit(row, tap, &image[pixel..][..self.groups]);
                }
            });
        }
    }
}

fn multiply_add<T: Real>(sums: &mut [T], a: &[T], b: &[T]) {
    sums.iter_mut().zip(a).zip(b).for_each(|((sum, &a), &b)| *sum = *sum + a * b);
}
