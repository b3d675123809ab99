//! Lines of a tensor along an axis as rows of 32-bit words, for kernels that work on lines; and keys that order as numbers do.

use burn_cubecl::cubecl;
use burn_cubecl::tensor::CubeTensor;
use cubecl::calculate_cube_count_elemwise;
use cubecl::client::Client;
use cubecl::prelude::{CubeCount, CubeDim};

use super::formula::Formula;
use super::launch::{Operand, Work, counted};
use super::movement::strides;
use super::step::{One, Step, Two};
use super::{Adapter, transfer};
use crate::error::Result;
use crate::types::{Class, TensorType, Type};
use crate::value::Value;

/// The lines along an axis of a tensor, each in order or from its end.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pub(super) rows: usize,
    pub(super) len: usize,
    shape: Vec<usize>,
    /// The axes, that of the lines last.
    order: Vec<usize>,
    backwards: bool,
}

impl Lines {
    /// The lines along `axis`; a scalar is one line.
    pub(super) fn new(shape: &[usize], axis: usize, backwards: bool) -> Self {
        let shape = if shape.is_empty() { vec![1] } else { shape.to_vec() };
        let order: Vec<usize> = (0..shape.len()).filter(|&other| other != axis).chain([axis]).collect();
        let len = shape[axis];
        let rows = order[..order.len() - 1].iter().map(|&other| shape[other]).product();
        Self { rows, len, shape, order, backwards }
    }

    fn axis(&self) -> usize {
        self.order[self.order.len() - 1]
    }

    /// Lengths of the axes in their order here.
    fn lengths(&self) -> Vec<usize> {
        self.order.iter().map(|&axis| self.shape[axis]).collect()
    }

    /// Where the first element lies, and how far apart others are along the axes in their order here.
    fn steps(&self) -> (usize, Vec<isize>) {
        let own = strides(&self.shape);
        let mut steps: Vec<isize> = self.order.iter().map(|&axis| own[axis]).collect();
        let start = if self.backwards { (self.len - 1) * own[self.axis()] as usize } else { 0 };
        if self.backwards {
            steps.iter_mut().rev().take(1).for_each(|step| *step = -*step);
        }
        (start, steps)
    }

    /// What `steps` make of each element of `x`, which is operand 0, as rows of words.
    pub(super) fn read(
        &self,
        x: &Value,
        formula: Formula,
        result: usize,
        adapter: Adapter,
    ) -> Result<Option<CubeTensor>> {
        let Some(tensor) = x.cube().cloned() else { return Ok(None) };
        let (start, strides) = self.steps();
        let types = [words(&[self.rows, self.len])];
        let operands = vec![Operand { tensor, start, strides }];
        let shape = self.lengths();
        let work = Work { adapter, shape, operands, steps: formula.steps, results: vec![result], types: &types };
        Ok(work.run()?.pop().and_then(|value| value.cube().cloned()))
    }

    /// A tensor of `out`, which is as these but for the length of the lines, of what `steps` make of the words at the beginnings of
    /// `rows`, which are operand 0.
    pub(super) fn write(
        &self,
        rows: &CubeTensor,
        others: Vec<Operand>,
        (steps, result): (Vec<Step>, usize),
        out: &TensorType,
        adapter: Adapter,
    ) -> Result<Value> {
        let from = strides(&self.lengths());
        let shape = if out.shape.is_empty() { vec![1] } else { out.shape.clone() };
        let to = Lines { shape, len: 0, ..self.clone() };
        let to = Lines { len: to.shape[to.axis()], ..to };
        let tensor = transfer::empty(out, adapter)?;
        let mut operands = vec![Operand { tensor: rows.clone(), start: 0, strides: from }];
        operands.extend(others);
        let types = std::slice::from_ref(out);
        let work = Work { adapter, shape: to.lengths(), operands, steps, results: vec![result], types };
        if !out.shape.contains(&0) {
            let (start, strides) = to.steps();
            work.write(super::launch::Target::Strided(start, strides), &tensor)?;
        }
        Ok(transfer::from_cube(out.dtype, tensor))
    }

    /// The steps that find the place in the tensor of an element of a line whose number is value 0, as an address in operand 1.
    pub(super) fn element(&self, formula: &mut Formula) -> usize {
        let own = strides(&self.shape);
        let rank = self.order.len();
        let mut at = formula.scaled(0, own[self.axis()] as i64);
        for (number, &axis) in self.order[..rank - 1].iter().enumerate() {
            let place = formula.place(number);
            let step = formula.scaled(place, own[axis] as i64);
            at = formula.plus(Some(at), step);
        }
        formula.load(1, at)
    }
}

/// The type of words of a shape.
pub(super) fn words(shape: &[usize]) -> TensorType {
    TensorType::new(Type::U32, shape)
}

/// How keys order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// The largest number has the smallest key.
    pub(super) descending: bool,
    /// The key of NaN.
    pub(super) nan: u32,
}

/// The steps that make a key of value `x` of `dtype`: an unsigned integer that orders as the numbers do, both zeros alike.
pub(super) fn key(formula: &mut Formula, x: usize, dtype: Type, order: Order) -> usize {
    let sign = formula.literal(0x8000_0000);
    let rank = match dtype.class() {
        Class::Unsigned => x,
        Class::Signed => formula.two(Two::Xor, x, sign),
        _ => {
            let size = formula.literal(0x7fff_ffff);
            let size = formula.two(Two::And, x, size);
            let places = formula.literal(31);
            let negative = formula.two(Two::ShiftRightS, x, places);
            let size = formula.two(Two::Xor, size, negative);
            let size = formula.two(Two::SubtractI, size, negative);
            formula.two(Two::AddI, size, sign)
        }
    };
    let key = if order.descending { formula.one(One::Not, rank) } else { rank };
    if !dtype.is_float() {
        return key;
    }
    let (is_nan, nan) = (formula.one(One::IsNan, x), formula.literal(order.nan.into()));
    formula.select(is_nan, nan, key)
}

/// So many threads of the GPU.
pub(super) fn threads(adapter: Adapter, count: usize) -> Result<(&'static Client, CubeCount, CubeDim)> {
    let client = adapter.client()?;
    let dim = CubeDim::new(client, counted(count)?);
    Ok((client, calculate_cube_count_elemwise(client, count, dim), dim))
}
