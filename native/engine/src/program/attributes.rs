//! What operations know besides their operands.
//!
//! Shapes are those Nx has already inferred and checked; axes are non-negative and in the order Nx gives them.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::{Pattern, Program};
use crate::types::Type;

/// Elementwise functions of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs)]
pub enum Unary {
    Abs,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    BitwiseNot,
    Cbrt,
    Ceil,
    Conjugate,
    Cos,
    Cosh,
    CountLeadingZeros,
    Erf,
    ErfInv,
    Erfc,
    Exp,
    Expm1,
    Floor,
    Imag,
    IsInfinity,
    IsNan,
    Log,
    Log1p,
    LogicalNot,
    Negate,
    Phase,
    PopulationCount,
    Real,
    Round,
    Rsqrt,
    Sigmoid,
    Sign,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
}

/// Elementwise functions of two operands, which broadcast against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Atan2,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    Divide,
    Equal,
    Greater,
    GreaterEqual,
    LeftShift,
    Less,
    LessEqual,
    LogicalAnd,
    LogicalOr,
    LogicalXor,
    Max,
    Min,
    Multiply,
    NotEqual,
    Pow,
    Quotient,
    Remainder,
    RightShift,
    Subtract,
}

impl Binary {
    /// Comparisons and logical connectives: computed in the operands' type, answered as 0 or 1.
    pub fn is_predicate(self) -> bool {
        use Binary::*;
        matches!(
            self,
            Equal | NotEqual | Greater | GreaterEqual | Less | LessEqual | LogicalAnd | LogicalOr | LogicalXor
        )
    }

    /// Whether there are operands of which the function that answers `out` raises. Integers above zero on the right are none.
    pub fn can_fail(self, out: Type) -> bool {
        use Binary::*;
        match self {
            Quotient | Remainder | Pow | LeftShift | RightShift => out.is_int(),
            Atan2 => out.is_complex(),
            _ => false,
        }
    }
}

/// What a reduction, scan or window folds with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs)]
pub enum Fold {
    All,
    Any,
    Sum,
    Product,
    Max,
    Min,
}

/// The larger or the smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs)]
pub enum Extremum {
    Max,
    Min,
}

/// Order of a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Direction {
    Asc,
    Desc,
}

/// Which of several equal elements an arg-reduction answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum TieBreak {
    Low,
    High,
}

/// One discrete Fourier transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs)]
pub enum Transform {
    Fft,
    Ifft,
    Rfft,
    Irfft,
}

/// Axes of the operand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axes {
    /// Axis numbers.
    pub axes: Vec<usize>,
}

/// One axis of the operand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Axis number.
    pub axis: usize,
}

/// One element, as the little-endian bytes of the instruction's output type, repeated over its shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Constant {
    /// The element's bytes.
    pub bytes: Vec<u8>,
}

/// Counts 0, 1, 2 … along one axis, or over all elements in row-major order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Iota {
    /// Axis to count along; `None` counts over all elements.
    pub axis: Option<usize>,
}

/// Padding of each axis; negative edges crop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pad {
    /// `[low, high, interior]` for each axis.
    pub config: Vec<[i64; 3]>,
}

/// A slice at fixed positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// First index of each axis.
    pub starts: Vec<usize>,
    /// Length of the strided range of each axis before striding.
    pub lengths: Vec<usize>,
    /// Step of each axis.
    pub strides: Vec<usize>,
}

/// A slice whose starts are further operands, one scalar for each axis, clamped into range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DynamicSlice {
    /// Length of each axis before striding.
    pub lengths: Vec<usize>,
    /// Step of each axis.
    pub strides: Vec<usize>,
}

/// A tensor contraction. The output's axes are the batch axes, the left's free axes, the right's free axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dot {
    /// Contracted axes of the left operand; paired with `rhs_contract` in order.
    pub lhs_contract: Vec<usize>,
    /// Batch axes of the left operand.
    pub lhs_batch: Vec<usize>,
    /// Contracted axes of the right operand.
    pub rhs_contract: Vec<usize>,
    /// Batch axes of the right operand.
    pub rhs_batch: Vec<usize>,
}

/// A convolution, with Nx's meaning of each option.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conv {
    /// Step of each spatial axis.
    pub strides: Vec<usize>,
    /// `[low, high]` of each spatial axis of the dilated input; may be negative.
    pub padding: Vec<[i64; 2]>,
    /// Spread of the input on each spatial axis.
    pub input_dilation: Vec<usize>,
    /// Spread of the kernel on each spatial axis.
    pub kernel_dilation: Vec<usize>,
    /// Groups of input channels.
    pub feature_group_size: usize,
    /// Groups of the batch.
    pub batch_group_size: usize,
    /// Axes that bring the input to batch, channels, spatial.
    pub input_permutation: Vec<usize>,
    /// Axes that bring the kernel to output channels, input channels, spatial.
    pub kernel_permutation: Vec<usize>,
    /// Where batch, channels, spatial are found in the output.
    pub output_permutation: Vec<usize>,
}

impl Conv {
    /// Nx's defaults for so many spatial axes: channels first, no padding, steps of 1, one group.
    pub fn plain(spatial: usize) -> Self {
        let order: Vec<usize> = (0..spatial + 2).collect();
        Self {
            strides: vec![1; spatial],
            padding: vec![[0, 0]; spatial],
            input_dilation: vec![1; spatial],
            kernel_dilation: vec![1; spatial],
            feature_group_size: 1,
            batch_group_size: 1,
            input_permutation: order.clone(),
            kernel_permutation: order.clone(),
            output_permutation: order,
        }
    }
}

/// A reduction over axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reduce {
    /// The fold.
    pub fold: Fold,
    /// Axes reduced; all of them when `None`.
    pub axes: Option<Vec<usize>>,
    /// Whether reduced axes stay with length 1.
    pub keep_axes: bool,
}

/// Index of the largest or smallest element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArgReduce {
    /// Largest or smallest.
    pub extremum: Extremum,
    /// Axis searched; the flattened tensor when `None`.
    pub axis: Option<usize>,
    /// Whether the axis stays with length 1.
    pub keep_axis: bool,
    /// Which of equal elements.
    pub tie_break: TieBreak,
}

/// A running fold along an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cumulative {
    /// The fold: sum, product, max or min.
    pub fold: Fold,
    /// Axis it runs along.
    pub axis: usize,
    /// From the end to the start.
    pub reverse: bool,
}

/// A sort or argsort along an axis; always stable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sort {
    /// Axis sorted.
    pub axis: usize,
    /// Order; NaN is last ascending and first descending.
    pub direction: Direction,
}

/// The `k` largest along the last axis, with their `s32` indices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopK {
    /// How many.
    pub k: usize,
}

/// The windows a tensor is cut into.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Windows {
    /// Window length on each axis.
    pub dimensions: Vec<usize>,
    /// `[low, high]` padding of each axis; may be negative.
    pub padding: Vec<[i64; 2]>,
    /// Step of each axis.
    pub strides: Vec<usize>,
    /// Spread of the window on each axis.
    pub dilations: Vec<usize>,
}

/// A fold over windows. Padding holds the fold's identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowReduce {
    /// The fold: sum, product, max or min.
    pub fold: Fold,
    /// The windows.
    pub windows: Windows,
}

/// Adds each source element at the place of its window's extremum. Operands: tensor, source, initial value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowScatter {
    /// Largest or smallest.
    pub extremum: Extremum,
    /// The windows; `dilations` are 1.
    pub windows: Windows,
}

/// A left fold by a program of two scalars `(element, accumulator)`. Operands: tensor, initial value, captures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CustomReduce {
    /// Axes reduced; all of them when `None`.
    pub axes: Option<Vec<usize>>,
    /// Whether reduced axes stay with length 1.
    pub keep_axes: bool,
    /// The fold.
    pub body: Program,
}

/// [`CustomReduce`] over windows; padding holds the initial value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CustomWindowReduce {
    /// The windows.
    pub windows: Windows,
    /// The fold.
    pub body: Program,
}

/// A discrete Fourier transform along one axis. Parts at most `eps` become zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fft {
    /// Which transform.
    pub transform: Transform,
    /// Threshold.
    pub eps: f64,
    /// Length of the transform; the operand is cut or zero-padded to it.
    pub length: usize,
    /// Axis transformed.
    pub axis: usize,
}

/// A two-dimensional transform: [`Fft`] along two axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fft2 {
    /// `Fft` or `Ifft`.
    pub transform: Transform,
    /// Threshold.
    pub eps: f64,
    /// Length along each axis.
    pub lengths: [usize; 2],
    /// The two axes.
    pub axes: [usize; 2],
}

/// Whether two tensors are close: `|a - b| <= atol + rtol * |b|` everywhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllClose {
    /// Whether NaN equals NaN.
    pub equal_nan: bool,
    /// Relative tolerance.
    pub rtol: f64,
    /// Absolute tolerance.
    pub atol: f64,
}

/// What is done to the matrix of a triangular system first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum TransformA {
    None,
    Transpose,
    Conjugate,
}

/// Solution of a triangular system. Operands: matrix, right-hand side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriangularSolve {
    /// Which triangle of the matrix is read: the lower or the upper.
    pub lower: bool,
    /// `op(a) x = b`, else `x op(a) = b`.
    pub left_side: bool,
    /// `op`.
    pub transform_a: TransformA,
}

/// Shape of the factors of a QR decomposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum QrMode {
    Reduced,
    Complete,
}

/// A QR decomposition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Qr {
    /// Shape of the factors.
    pub mode: QrMode,
    /// Elements of at most this magnitude become zero.
    pub eps: f64,
}

/// An eigendecomposition of a Hermitian matrix. Both options steer the iteration of small `f32` matrices alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Eigh {
    /// Most rounds of rotations.
    pub max_iter: usize,
    /// Tolerance.
    pub eps: f64,
}

/// A singular value decomposition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Svd {
    /// Whether `u` and `vt` are square.
    pub full_matrices: bool,
    /// Most iterations, for small `f32` matrices alone.
    pub max_iter: usize,
}

/// Dense linear algebra over the last two axes, batched over the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Linalg {
    /// Lower Cholesky factor.
    Cholesky,
    /// Solution of `a x = b`.
    Solve,
    /// Determinant.
    Determinant,
    /// `{q, r}`.
    Qr(Qr),
    /// `{p, l, u}`.
    Lu,
    /// `{eigenvalues, eigenvectors}` of a Hermitian matrix.
    Eigh(Eigh),
    /// `{u, s, vt}`.
    Svd(Svd),
}

/// Runs `body` while `condition` holds. Operands: the state, then captures both programs read.
/// Both programs take the state and the captures; `condition` answers one scalar, `body` the next state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct While {
    /// Answers a scalar; the loop ends when it is zero.
    pub condition: Program,
    /// Answers the next state.
    pub body: Program,
}

/// Runs the branch of the first predicate that is not zero, else the last branch. Operands: captures, which all programs
/// take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cond {
    /// Tried in order; each answers one scalar.
    pub predicates: Vec<Program>,
    /// One for each predicate, and one for when none holds.
    pub branches: Vec<Program>,
}

/// The first operand, with the gradient of the next `inputs` operands given by a program.
/// Operands: value, inputs, captures. `backward` takes the upstream gradient and the captures and answers one gradient per input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CustomGrad {
    /// Number of operands that receive a gradient.
    pub inputs: usize,
    /// Upstream gradient and captures to the gradient of each input.
    pub backward: Program,
}

/// A call into the host in the middle of a run, with the operands as arguments. The host knows the function by `id`.
/// A hook makes no results; a runtime call makes those that it declares. Calls run in the order of the instructions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Callback {
    /// Number the host gave to the function.
    pub id: u64,
}

/// How many elements a value of a fused region has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// As many as the region.
    Whole,
    /// One for each row.
    Row,
    /// One in all.
    One,
}

/// A region together with what makes its operand or reads its result, run as one: block by block, so that nothing between them
/// is ever whole. Operands: those of the body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blocked {
    /// `dot`, `conv` or `take`, and `fused`; or `fused` and `take_along_axis`; or `dot`, `fused` and `dot`. Each reads the
    /// result before it.
    pub body: Program,
}

/// A program whose results' rows depend on the same rows of its operands alone. It runs by blocks of rows, each from its start to
/// its end on one core. Operands: those of the programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    /// The axis of each operand along which its rows lie; `None` where each block reads all of it.
    pub operands: Vec<Option<usize>>,
    /// The axis of each result along which its rows lie; `None` where each block answers the same.
    pub results: Vec<Option<usize>>,
    /// How many blocks there are.
    pub blocks: usize,
    /// The program for all rows at once, for values that can't be cut for nothing.
    pub whole: Program,
    /// The program for the rows of a block.
    pub block: Program,
}

/// Elementwise operations, and folds of rows, that run as one. Operands: those of the body, which broadcast to the region
/// as their extents say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fused {
    /// Length of each axis of the region.
    pub shape: Vec<usize>,
    /// How many of the last axes make a row; 0 where nothing is folded.
    pub row_axes: usize,
    /// How many elements each operand has.
    pub extents: Vec<Extent>,
    /// What the region computes, where it is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<Pattern>,
    /// The operations.
    pub body: Program,
}
