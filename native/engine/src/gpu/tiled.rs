//! Products of `f32` on their way to a GPU: the size of the tiles, and in how many parts the contracted axis is cut.

use burn_cubecl::cubecl::{calculate_cube_count_elemwise, prelude::*};
use burn_cubecl::tensor::CubeTensor;

use super::Adapter;
use super::kernel::tiled;
use super::known::Known;
use super::launch::{Operand, Work, buffer, counted, lost};
use super::layouts::words;
use super::step::{Fold, Region, Step, Strip, Tile, Two};
use super::transfer::{empty, from_cube, reshaped};
use crate::error::Result;
use crate::types::{TensorType, Type};
use crate::value::Value;

/// A product `[batch, rows, inner]` by `[batch, inner, columns]`.
#[derive(Debug)]
pub(super) struct Product<'a> {
    pub(super) adapter: Adapter,
    pub(super) lhs: &'a CubeTensor,
    pub(super) rhs: &'a CubeTensor,
    pub(super) batch: usize,
    /// How many of the batches are inner ones of an outer one.
    pub(super) inner_batches: usize,
    pub(super) rows: usize,
    pub(super) inner: usize,
    pub(super) columns: usize,
    /// How many elements of the left operand lie between outer batches, inner ones, rows and contracted elements.
    pub(super) lhs_steps: [usize; 4],
    /// Of the right one between batches, columns and contracted elements; of windows between groups, examples and channels.
    pub(super) rhs_steps: [usize; 4],
    /// The windows that the right one's columns are.
    pub(super) windows: Option<Windows>,
    /// Of the result between batches, rows, blocks of columns and columns.
    pub(super) out_steps: [usize; 4],
    /// Columns of a block.
    pub(super) width: usize,
}

/// What is done to each element of a product, which is the first value; the operands are the next ones.
#[derive(Debug, Default)]
pub(super) struct After {
    pub(super) operands: Vec<Operand>,
    pub(super) steps: Vec<Step>,
    pub(super) result: usize,
}

impl After {
    /// What a kernel of a product of a shape is told of it, and its steps.
    pub(super) fn described(&self, shape: &[usize], adapter: Adapter) -> Result<(Vec<u32>, Known<Region>)> {
        let (operands, steps, results) = (self.operands.clone(), self.steps.clone(), vec![self.result]);
        Work { adapter, shape: shape.to_vec(), operands, steps, results, types: &[] }.described()
    }

    /// The memory of the operands.
    pub(super) fn buffers<T: FromIterator<BufferArg>>(&self) -> T {
        self.operands.iter().map(|operand| buffer(&operand.tensor)).collect()
    }
}

/// Windows of an input.
#[derive(Debug)]
pub(super) struct Windows {
    pub(super) axes: Vec<Axis>,
}

/// An axis of windows.
#[derive(Debug)]
pub(super) struct Axis {
    pub(super) count: usize,
    /// From one window to the next.
    pub(super) stride: usize,
    /// Elements before the input, below zero where some of it is left out.
    pub(super) padding: i64,
    pub(super) length: usize,
    /// From one element of the input to the next in a window, 1 where they are neighbours.
    pub(super) gap: usize,
    /// How many elements lie between two.
    pub(super) step: usize,
    pub(super) kernel: usize,
    /// From one element of the kernel to the next.
    pub(super) dilation: usize,
}

/// Multiprocessors of a GPU that does not say how many it has.
const MULTIPROCESSORS: usize = 64;
/// Contracted elements of a part at least.
const SHORTEST_PART: usize = 128;
const MOST_PARTS: usize = 32;

impl<'a> Product<'a> {
    /// The product of batches of matrices into a contiguous result.
    pub(super) fn new(
        adapter: Adapter,
        [lhs, rhs]: [&'a CubeTensor; 2],
        [outer, inner_batches, rows, inner, columns]: [usize; 5],
        [lhs_steps, rhs_steps]: [[usize; 4]; 2],
    ) -> Self {
        Self {
            adapter,
            lhs,
            rhs,
            batch: outer * inner_batches,
            inner_batches,
            rows,
            inner,
            columns,
            lhs_steps,
            rhs_steps,
            windows: None,
            out_steps: [rows * columns, columns, 0, 1],
            width: columns,
        }
    }

    /// The result, of `shape`.
    pub(super) fn run(self, shape: &[usize]) -> Result<Value> {
        self.then(After::default(), shape)
    }

    /// The result of `after`, of `shape`, where the elements of the product follow each other as those of `shape` do.
    pub(super) fn then(self, after: After, shape: &[usize]) -> Result<Value> {
        let elements = counted(shape.iter().product())?;
        let tile = self.tile()?;
        let tiles = self.tiles(&tile);
        let (parts, part) = self.parts(tiles, tile.inner)?;
        let ty = TensorType::new(Type::F32, shape);
        let out = empty(&TensorType::new(Type::F32, [parts, elements]), self.adapter)?;
        if elements > 0 {
            let after = if parts == 1 { &after } else { &After::default() };
            self.launch(tile, counted(tiles * parts)?, [parts, part, elements], &out, (after, shape))?;
        }
        let product = from_cube(Type::F32, out.clone());
        if parts == 1 {
            return Ok(reshaped(&product, Type::F32, shape).unwrap_or(product));
        }
        let types = std::slice::from_ref(&ty);
        if !after.steps.is_empty() {
            return self.summed(&product, parts, after, types);
        }
        let operand = Operand { tensor: out, start: 0, strides: vec![1, elements as isize] };
        let (shape, operands) = (vec![elements, parts], vec![operand]);
        let work = Work { adapter: self.adapter, shape, operands, steps: vec![], results: vec![0], types };
        work.fold(Fold { function: Two::AddF, identity: 0 }, 1)
    }

    /// The sum of the parts of each element, and what is done to it.
    fn summed(&self, product: &Value, parts: usize, after: After, types: &[TensorType]) -> Result<Value> {
        let shape = types[0].shape.clone();
        let elements = shape.iter().product::<usize>();
        let operands = Operand::loaded(product, shape.len()).into_iter().chain(after.operands).collect::<Vec<_>>();
        let first = operands.len();
        let mut steps = vec![Step::Number, Step::Load(0, first)];
        for part in 1..parts {
            let (sum, at) = (first + steps.len() - 1, first + steps.len());
            let place = Step::Two(Two::AddI, first, at);
            steps.extend([Step::Literal((part * elements) as u32), place, Step::Load(0, at + 1)]);
            steps.push(Step::Two(Two::AddF, sum, at + 2));
        }
        let made = steps.len();
        let number = |value: usize| match value {
            0 => first + made - 1,
            operand if operand < first => operand,
            step => step + made,
        };
        steps.extend(after.steps.iter().map(|step| step.renumbered(number)));
        let results = vec![number(after.result)];
        let values = Work { adapter: self.adapter, shape, operands, steps, results, types }.run()?;
        values.into_iter().next().ok_or_else(lost)
    }

    /// The largest tile of which there are enough for all multiprocessors.
    fn tile(&self) -> Result<Tile> {
        let along = |steps: &[usize; 4]| match steps {
            [_, _, _, 1] => Strip::AlongInner,
            [_, _, 1, _] => Strip::AlongLines,
            _ => Strip::Apart,
        };
        let gaps = |windows: &Windows| windows.axes.iter().any(|axis| axis.gap > 1);
        let rhs = match &self.windows {
            Some(windows) => Strip::Windows { axes: windows.axes.len(), gaps: gaps(windows) },
            None => along(&self.rhs_steps),
        };
        let tile = |(rows, columns, inner)| Tile { rows, columns, inner, lhs: along(&self.lhs_steps), rhs };
        let small = tile((1, 1, 16));
        // Windows take registers that larger tiles need, and are the fastest so.
        if self.windows.is_some() {
            return Ok(small);
        }
        let large = [(2, 2, 8), (2, 1, 8), (1, 2, 8)].map(tile);
        let edge = small.edge(1);
        let multiprocessors = self.multiprocessors()?;
        let fits = |tile: &Tile| {
            let filled = (tile.rows == 1 || self.rows > edge) && (tile.columns == 1 || self.columns > edge);
            filled && self.tiles(tile) >= multiprocessors
        };
        Ok(large.into_iter().find(fits).unwrap_or(small))
    }

    fn multiprocessors(&self) -> Result<usize> {
        let hardware = &self.adapter.client()?.properties().hardware;
        Ok(hardware.num_streaming_multiprocessors.map_or(MULTIPROCESSORS, |count| count as usize))
    }

    fn tiles(&self, tile: &Tile) -> usize {
        self.batch * self.rows.div_ceil(tile.edge(tile.rows)) * self.columns.div_ceil(tile.edge(tile.columns))
    }

    /// In how many parts the contracted axis is cut where there are too few tiles, and how long each is.
    fn parts(&self, tiles: usize, strip: usize) -> Result<(usize, usize)> {
        let most = (self.inner / SHORTEST_PART).min(self.multiprocessors()? / tiles.max(1)).min(MOST_PARTS);
        let part = self.inner.div_ceil(most.max(1)).next_multiple_of(strip);
        Ok((self.inner.div_ceil(part).max(1), part))
    }

    fn launch(
        &self,
        tile: Tile,
        tiles: usize,
        [parts, part, elements]: [usize; 3],
        out: &CubeTensor,
        (after, shape): (&After, &[usize]),
    ) -> Result<()> {
        let client = self.adapter.client()?;
        let [batch, row, block, column] = self.out_steps;
        let (rows, columns) =
            (self.rows.div_ceil(tile.edge(tile.rows)), self.columns.div_ceil(tile.edge(tile.columns)));
        let mut layout = vec![self.rows, self.inner, self.columns, parts, part, rows, columns, tiles];
        layout.extend(self.lhs_steps.iter().chain(&self.rhs_steps));
        layout.extend([self.inner_batches, batch, elements, row, block, column, self.width]);
        let mut layout: Vec<u32> = layout.into_iter().map(|number| number as u32).collect();
        layout.extend(self.windows.iter().flat_map(|windows| &windows.axes).flat_map(Axis::words));
        let dim = CubeDim::new_1d(tiled::UNITS as u32);
        let count = calculate_cube_count_elemwise(client, tiles * tiled::UNITS, dim);
        let layout = words(self.adapter, &layout)?;
        let (after_layout, region) = after.described(shape, self.adapter)?;
        // SAFETY: a thread reads where its line and its contracted element lie inside of the operands, and writes where its row
        // and its column lie inside of the result.
        unsafe {
            tiled::product::launch_unchecked(
                client,
                count,
                dim,
                buffer(self.lhs),
                buffer(self.rhs),
                buffer(out),
                layout,
                after.buffers(),
                words(self.adapter, &after_layout)?,
                tile,
                region,
            )
        };
        Ok(())
    }
}

impl Axis {
    fn words(&self) -> [u32; 8] {
        let length = (self.length - 1) * self.gap + 1;
        let [count, stride, gap, step] = [self.count, self.stride, self.gap, self.step].map(|number| number as u32);
        // Padding below zero wraps around.
        [count, stride, self.padding as u32, length as u32, gap, step, self.kernel as u32, self.dilation as u32]
    }
}
