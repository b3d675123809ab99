//! Triangular systems on a GPU. Large ones are halved, so that most of the work is one product of matrices.

use burn_cubecl::cubecl::calculate_cube_count_elemwise;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::tensor::CubeTensor;

use super::formula::Formula;
use super::kernel::triangular::{self as kernel, COLUMNS, ROWS};
use super::launch::{Operand, Work, buffer, counted, lost};
use super::reduce::settled;
use super::step::{Fold, Step, Two};
use super::tiled::Product;
use super::transfer::{download, empty, from_cube};
use super::{Adapter, cast, layouts};
use crate::error::Result;
use crate::ops::Call;
use crate::program::{TransformA, TriangularSolve};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// Unknowns that a block of threads finds one after the other; more are found in halves.
const TOGETHER: usize = 256;
/// Fewer right-hand sides are summed up by threads that share a row.
const FEW: usize = 4;

/// The solution; `None` where the CPU has to say what is wrong, or for types without a kernel.
pub(super) fn solve(attrs: &TriangularSolve, call: &Call<'_>, adapter: Adapter) -> Result<Option<Value>> {
    let ([a, b], out) = (call.inputs.as_slice(), call.out()?) else { return Ok(None) };
    let Some(system) = System::of(attrs, a, b) else { return Ok(None) };
    if a.is_empty() || b.is_empty() || out.shape != b.shape() || !out.dtype.is_float() || out.dtype.bits() < 16 {
        return Ok(None);
    }
    let (Some(a), Some(b)) = (cast(a, Type::F32, adapter)?, cast(b, Type::F32, adapter)?) else { return Ok(None) };
    let (Some(a), Some(b)) = (a.cube(), b.cube()) else { return Ok(None) };
    if system.is_singular(a, adapter)? {
        return Ok(None);
    }
    let x = empty(&TensorType::new(Type::F32, out.shape.clone()), adapter)?;
    Solver { system: &system, a, x: &x, adapter }.solve(0, system.unknowns, b, system.sides_lie)?;
    settled(from_cube(out.dtype, x), out, adapter).map(Some)
}

/// How a tensor lies: its first element, and the steps of matrices, of unknowns, and of equations or right-hand sides.
#[derive(Clone, Copy, Debug)]
struct Lie {
    start: usize,
    steps: [isize; 3],
}

impl Lie {
    /// From an unknown on.
    fn from(self, unknown: usize) -> Self {
        Self { start: self.start.wrapping_add_signed(unknown as isize * self.steps[1]), ..self }
    }

    fn words(&self) -> [u32; 4] {
        // Steps back wrap around.
        let [matrix, unknown, other] = self.steps.map(|step| step as u32);
        [self.start as u32, matrix, unknown, other]
    }
}

/// Lower triangular systems, which others are by another order of their rows and columns.
struct System {
    matrices: usize,
    unknowns: usize,
    sides: usize,
    matrix_lies: Lie,
    sides_lie: Lie,
}

impl System {
    /// `None` where the operands do not fit.
    fn of(attrs: &TriangularSolve, a: &Value, b: &Value) -> Option<Self> {
        let (shape, sides_shape) = (a.shape(), b.shape());
        let [batch @ .., n, columns] = &shape[..] else { return None };
        let (n, is_square) = (*n, n == columns);
        let (left, [rows, sides]) = match *sides_shape.strip_prefix(batch)? {
            [rows] => (true, [rows, 1]),
            [rows, sides] if attrs.left_side => (true, [rows, sides]),
            [sides, rows] => (false, [rows, sides]),
            _ => return None,
        };
        if !is_square || rows != n {
            return None;
        }
        let transposed = (attrs.transform_a == TransformA::Transpose) == attrs.left_side;
        let lower = attrs.lower != transposed;
        let [step, one] = [n as isize, 1];
        let [unknown, equation] = if transposed { [step, one] } else { [one, step] };
        let [row, side] = if left { [sides as isize, 1] } else { [1, n as isize] };
        let mut matrix_lies = Lie { start: 0, steps: [step * step, unknown, equation] };
        let mut sides_lie = Lie { start: 0, steps: [step * sides as isize, row, side] };
        if !lower {
            matrix_lies = Lie { start: n * n - 1, steps: [step * step, -unknown, -equation] };
            sides_lie = Lie { start: (n - 1) * row as usize, steps: [sides_lie.steps[0], -row, side] };
        }
        Some(Self { matrices: batch.iter().product(), unknowns: n, sides, matrix_lies, sides_lie })
    }

    /// Whether there is a zero on a diagonal.
    fn is_singular(&self, a: &CubeTensor, adapter: Adapter) -> Result<bool> {
        let Lie { start, steps: [matrix, unknown, equation] } = self.matrix_lies;
        let operand = Operand { tensor: a.clone(), start, strides: vec![matrix, unknown + equation] };
        let mut formula = Formula::new(1);
        let zero = formula.literal(0);
        let answer = formula.two(Two::EqualF, 0, zero);
        let types = [TensorType::new(Type::U32, [])];
        let (shape, steps) = (vec![self.matrices, self.unknowns], formula.steps);
        let work = Work { adapter, shape, operands: vec![operand], steps, results: vec![answer], types: &types };
        Ok(download(work.fold(Fold { function: Two::Or, identity: 0 }, 0)?)?.to_f64()? != 0.0)
    }
}

struct Solver<'a> {
    system: &'a System,
    a: &'a CubeTensor,
    x: &'a CubeTensor,
    adapter: Adapter,
}

impl Solver<'_> {
    /// Finds `count` unknowns from `first` on, where those before are known and `b` is what they left of the right-hand sides.
    fn solve(&self, first: usize, count: usize, b: &CubeTensor, lies: Lie) -> Result<()> {
        if count <= TOGETHER {
            return self.launch(first, count, b, lies);
        }
        let half = (count / 2).next_multiple_of(ROWS);
        self.solve(first, half, b, lies)?;
        let (rest, lies) = self.rest(first, half, count - half, b, lies.from(half))?;
        self.solve(first + half, count - half, &rest, lies)
    }

    fn launch(&self, first: usize, count: usize, b: &CubeTensor, lies: Lie) -> Result<()> {
        let System { matrices, sides, matrix_lies, sides_lie, .. } = self.system;
        let groups = sides.div_ceil(COLUMNS);
        let cubes = matrices * groups;
        let threads = counted(cubes * ROWS * COLUMNS)?;
        let head = [count, *sides, groups, cubes].map(|number| number as u32);
        let lie = [self.block(*matrix_lies, first, first), lies, sides_lie.from(first)].map(|lie| lie.words());
        let layout = [head, lie[0], lie[1], lie[2]].concat();
        let client = self.adapter.client()?;
        let dim = CubeDim::new_1d((ROWS * COLUMNS) as u32);
        // SAFETY: a block of threads reads its matrix and its sides, and writes its sides, which are no other's.
        unsafe {
            kernel::solve::launch_unchecked(
                client,
                calculate_cube_count_elemwise(client, threads, dim),
                dim,
                buffer(self.a),
                buffer(b),
                buffer(self.x),
                layouts::words(self.adapter, &layout)?,
            )
        };
        Ok(())
    }

    /// The matrix from an equation and an unknown on.
    fn block(&self, lies: Lie, equation: usize, unknown: usize) -> Lie {
        let lies = lies.from(unknown);
        Lie { start: lies.start.wrapping_add_signed(equation as isize * lies.steps[2]), ..lies }
    }

    /// What `half` unknowns from `first` on leave of the right-hand sides of the `count` equations after them.
    fn rest(&self, first: usize, half: usize, count: usize, b: &CubeTensor, lies: Lie) -> Result<(CubeTensor, Lie)> {
        let System { matrices, sides, matrix_lies, sides_lie, .. } = *self.system;
        let below = self.block(matrix_lies, first + half, first);
        let known = sides_lie.from(first);
        let shape = [matrices, count, sides];
        let product = match self.product(below, known, [matrices, count, half, sides])? {
            Some(product) => product,
            None => self.summed(below, known, [matrices, count, sides, half])?,
        };
        let types = [TensorType::new(Type::F32, shape)];
        let steps = [(count * sides) as isize, sides as isize, 1];
        let operands = vec![
            Operand { tensor: b.clone(), start: lies.start, strides: lies.steps.to_vec() },
            Operand { tensor: product, start: 0, strides: steps.to_vec() },
        ];
        let difference = vec![Step::Two(Two::SubtractF, 0, 1)];
        let rest = self.work(shape.to_vec(), operands, difference, 2, &types).run()?.pop();
        let rest = rest.and_then(|value| value.cube().cloned());
        Ok((rest.ok_or_else(lost)?, Lie { start: 0, steps }))
    }

    /// The product of a block of the matrix and known unknowns; `None` where it is better summed.
    fn product(
        &self,
        below: Lie,
        known: Lie,
        [matrices, count, half, sides]: [usize; 4],
    ) -> Result<Option<CubeTensor>> {
        if sides < FEW {
            return Ok(None);
        }
        let [matrix, unknown, equation] = below.steps;
        let below = self.copy(self.a, below.start, [matrix, equation, unknown], [matrices, count, half])?;
        let known = self.copy(self.x, known.start, known.steps, [matrices, half, sides])?;
        let (lhs_steps, rhs_steps) = ([count * half, 0, half, 1], [half * sides, 0, 1, sides]);
        let sizes = [matrices, 1, count, half, sides];
        let product = Product::new(self.adapter, [&below, &known], sizes, [lhs_steps, rhs_steps]);
        Ok(product.run(&[matrices, count, sides])?.cube().cloned())
    }

    /// The same as a fold of products.
    fn summed(&self, below: Lie, known: Lie, [matrices, count, sides, half]: [usize; 4]) -> Result<CubeTensor> {
        let ([matrix, unknown, equation], [other, row, side]) = (below.steps, known.steps);
        let operands = vec![
            Operand { tensor: self.a.clone(), start: below.start, strides: vec![matrix, equation, 0, unknown] },
            Operand { tensor: self.x.clone(), start: known.start, strides: vec![other, 0, side, row] },
        ];
        let types = [TensorType::new(Type::F32, [matrices, count, sides])];
        let steps = vec![Step::Two(Two::MultiplyF, 0, 1)];
        let work = self.work(vec![matrices, count, sides, half], operands, steps, 2, &types);
        let sum = work.fold(Fold { function: Two::AddF, identity: 0 }, 3)?;
        sum.cube().cloned().ok_or_else(lost)
    }

    fn copy(&self, tensor: &CubeTensor, start: usize, steps: [isize; 3], shape: [usize; 3]) -> Result<CubeTensor> {
        let types = [TensorType::new(Type::F32, shape)];
        let operands = vec![Operand { tensor: tensor.clone(), start, strides: steps.to_vec() }];
        let copy = self.work(shape.to_vec(), operands, vec![], 0, &types).run()?.pop();
        copy.and_then(|value| value.cube().cloned()).ok_or_else(lost)
    }

    fn work<'a>(
        &self,
        shape: Vec<usize>,
        operands: Vec<Operand>,
        steps: Vec<Step>,
        result: usize,
        types: &'a [TensorType],
    ) -> Work<'a> {
        Work { adapter: self.adapter, shape, operands, steps, results: vec![result], types }
    }
}
