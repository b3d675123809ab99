//! Regions whose results have an element for each of theirs.

use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::calculate_cube_count_elemwise;
use cubecl::prelude::*;

use super::kernel::region::map_region;
use super::known::Known;
use super::launch::buffer;
use super::layouts::words;
use super::step::Region;
use super::{Adapter, transfer};
use crate::error::Result;
use crate::types::TensorType;
use crate::value::Value;

/// The kernel of a region, whose operands are tensors of other places in memory each time.
#[derive(Debug)]
pub(crate) struct Mapped {
    /// Elements of the region.
    pub(super) len: usize,
    pub(super) layout: Vec<u32>,
    pub(super) region: Known<Region>,
}

impl Mapped {
    /// Results of these types.
    pub(crate) fn run(&self, operands: &[&CubeTensor], types: &[TensorType], adapter: Adapter) -> Result<Vec<Value>> {
        let outputs: Vec<CubeTensor> = types.iter().map(|ty| transfer::empty(ty, adapter)).collect::<Result<_>>()?;
        if self.len > 0 {
            self.launch(operands, &outputs, adapter)?;
        }
        Ok(outputs.into_iter().zip(types).map(|(tensor, ty)| transfer::from_cube(ty.dtype, tensor)).collect())
    }

    pub(super) fn launch(&self, operands: &[&CubeTensor], outputs: &[CubeTensor], adapter: Adapter) -> Result<()> {
        let client = adapter.client()?;
        let dim = CubeDim::new(client, self.len);
        let count = calculate_cube_count_elemwise(client, self.len, dim);
        let inputs = operands.iter().copied().map(buffer).collect();
        let results = outputs.iter().map(buffer).collect();
        let (layout, region) = (words(adapter, &self.layout)?, self.region.clone());
        // SAFETY: the kernel reads and writes inside of the buffers: addresses come from their shapes, and their number from the
        // results'.
        unsafe { map_region::launch_unchecked(client, count, dim, inputs, results, layout, region) };
        Ok(())
    }
}
