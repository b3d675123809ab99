//! Where in each window the extremum is.

use super::WindowAxis;
use crate::cpu::tasks::{CHUNK, chunks};
use crate::cpu::{Number, View, value};
use crate::error::Result;
use crate::value::Value;

/// The row-major position, as s64, of the element that each window of `x` chooses: it starts from its first element and
/// goes on to each one that `wins` over the one chosen so far. All elements of the windows exist.
pub(crate) fn extrema<T: Number>(x: &Value, axes: &[WindowAxis], wins: fn(T, T) -> bool) -> Result<Value> {
    let counts: Vec<usize> = axes.iter().map(|axis| axis.count).collect();
    let x = x.clone().contiguous();
    let x = View::<T>::new(&x)?;
    let firsts = Offsets::new(axes, |axis| (axis.count, axis.stride));
    let taps = Offsets::new(axes, |axis| (axis.size, axis.dilation)).all();
    let mut places = vec![0; firsts.len()];
    let windows = (CHUNK / taps.len().max(1)).max(1);
    chunks(&mut places, windows, &|part, places: &mut [i64]| {
        for (window, place) in (part * windows..).zip(places) {
            let first = firsts.at(window);
            *place = taps.iter().fold(first, |best, tap| if wins(x[first + tap], x[best]) { first + tap } else { best })
                as i64;
        }
    });
    Ok(value(&counts, places))
}

/// Row-major positions of a grid of elements: for each axis, how many there are and how far apart in memory.
struct Offsets(Vec<(usize, usize)>);

impl Offsets {
    fn new(axes: &[WindowAxis], of: impl Fn(&WindowAxis) -> (usize, usize)) -> Self {
        let mut step = 1;
        let mut grid: Vec<_> = axes
            .iter()
            .rev()
            .map(|axis| {
                let (count, apart) = of(axis);
                let own = (count, apart * step);
                step *= axis.length;
                own
            })
            .collect();
        grid.reverse();
        Self(grid)
    }

    fn len(&self) -> usize {
        self.0.iter().map(|(count, _)| count).product()
    }

    fn at(&self, mut number: usize) -> usize {
        let mut offset = 0;
        for (count, step) in self.0.iter().rev() {
            offset += number % count * step;
            number /= count;
        }
        offset
    }

    fn all(&self) -> Vec<usize> {
        (0..self.len()).map(|number| self.at(number)).collect()
    }
}
