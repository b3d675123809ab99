//! Convolutions that run together with what is done to their results, while these are in the cache.

use super::Geometry;
use crate::cpu::block::zeros;
use crate::cpu::memory;
use crate::cpu::product::Real;
use crate::cpu::tape::Rows;
use crate::cpu::tasks::chunks;
use crate::error::Result;
use crate::value::Value;

/// The region `rows` of the result of [`convolve`](super::convolve), where it is not long; it makes its results itself.
pub(crate) fn convolve_rows<T: Real>(geometry: &Geometry, x: &Value, k: &Value, rows: &Rows<'_>) -> Result<()> {
    let [x, k] = [x.clone().contiguous(), k.clone().contiguous()];
    geometry.forward_rows::<T>(memory(&x)?.storage(), memory(&k)?.storage(), rows);
    Ok(())
}

impl Geometry {
    /// Tiles are those of a convolution alone, so that each element is summed alike.
    fn forward_rows<T: Real>(&self, x: &[T], k: &[T], rows: &Rows<'_>) {
        let (outputs, tile, task) = (self.outputs(), self.tile(), self.task());
        let mut tasks = vec![(); self.rows().div_ceil(task)];
        chunks(&mut tasks, 1, &|number, _| {
            let windows = number * task..self.rows().min((number + 1) * task);
            let (mut y, mut buffer) = (zeros::<T>(tile.min(windows.len()) * outputs), vec![]);
            for first in windows.clone().step_by(tile) {
                let tile = first..windows.end.min(first + tile);
                let y = &mut y[..tile.len() * outputs];
                if self.is_depthwise() {
                    // It adds to what is there.
                    y.fill(T::zero());
                }
                self.forward_tile(x, k, tile, y, &mut buffer);
                rows.run(first * outputs, y.len(), bytemuck::cast_slice(y), None);
            }
        });
    }
}
