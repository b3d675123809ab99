//! The steps of a region: what one thread of the GPU does for one element.
//!
//! A value is 32 bits, which a step reads as an `f32`, an `i32` or a `u32`, as its function says. Steps are known when a kernel
//! is made, so that a kernel has none of this left but straight code.

use super::small::Small;

/// A function of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum One {
    AbsF,
    AbsS,
    Acos,
    Asin,
    Atan,
    Cbrt,
    Ceil,
    Cos,
    Cosh,
    CountOnes,
    Erf,
    ErfInv,
    Erfc,
    Exp,
    Expm1,
    /// f32 to an integer of 32 bits: truncated, saturated at the given bits of the extremes, wrapped in between.
    FloatToInt {
        low: u32,
        high: u32,
    },
    Floor,
    IsInfinity,
    IsNan,
    /// Leading zeros of an integer of so many bits.
    LeadingZeros(u32),
    Log,
    Log1p,
    /// The root and its inverse rounded to the nearest number, where the device promises less.
    NearestRsqrt,
    NearestSqrt,
    NegateF,
    NegateI,
    Not,
    Round,
    /// To the nearest number of a narrower float.
    RoundBf16,
    RoundSmall(Small),
    /// The bits of a number of a narrower float, and the number of such bits.
    Encode(Small),
    Decode(Small),
    Rsqrt,
    Sigmoid,
    /// The low bits, filled up with the sign.
    SignExtend(u32),
    SignF,
    SignS,
    Sin,
    Sinh,
    SintToFloat,
    SintToOdd,
    Sqrt,
    Tan,
    Tanh,
    /// 1 for what is not zero, of integers and of floats.
    TruthF,
    TruthI,
    UintToFloat,
    UintToOdd,
    /// The low bits alone.
    ZeroExtend(u32),
}

/// A function of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Two {
    AddF,
    AddI,
    And,
    Atan2,
    DivideF,
    /// By a number that is not zero.
    DivideS,
    DivideU,
    EqualF,
    EqualI,
    LessF,
    LessS,
    LessU,
    LessEqualF,
    LessEqualS,
    LessEqualU,
    MaxF,
    MaxS,
    MaxU,
    MinF,
    MinS,
    MinU,
    MultiplyF,
    MultiplyI,
    /// The quotient rounded to the nearest number, where the device promises less.
    NearestDivideF,
    Or,
    ShiftLeft,
    ShiftRightS,
    ShiftRightU,
    Pow,
    /// By an exponent without a sign.
    PowI,
    RemainderF,
    RemainderS,
    RemainderU,
    SubtractF,
    SubtractI,
    Xor,
}

/// A step, which reads values by their numbers: the operands come first, then the results of the steps before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// The same for all elements.
    Literal(u32),
    /// The place along an axis of the region.
    Place(usize),
    /// The number of the element.
    Number,
    One(One, usize),
    Two(Two, usize, usize),
    /// The second where the first is not zero, else the third.
    Select(usize, usize, usize),
    /// The element of an operand at a place that is a value.
    Load(usize, usize),
}

impl Step {
    /// The step with other numbers for the values that it reads.
    pub(crate) fn renumbered(self, number: impl Fn(usize) -> usize) -> Self {
        match self {
            Step::Literal(_) | Step::Place(_) | Step::Number => self,
            Step::One(function, x) => Step::One(function, number(x)),
            Step::Two(function, x, y) => Step::Two(function, number(x), number(y)),
            Step::Select(condition, x, y) => Step::Select(number(condition), number(x), number(y)),
            Step::Load(from, at) => Step::Load(from, number(at)),
        }
    }
}

/// How an operand is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Read {
    /// An element for each of the region.
    Each,
    /// One element for all.
    Same,
    /// By strides: the operand's number among those read so.
    Strided(usize),
    /// By steps alone.
    Loaded,
}

/// Where a result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Write {
    /// An element for each of the region, in order.
    Each,
    /// By strides, which come after those of so many operands.
    Strided(usize),
    /// At the place that a value is.
    At(usize),
}

/// A region: elementwise steps from operands to results of one shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Region {
    pub(crate) reads: Vec<Read>,
    pub(crate) steps: Vec<Step>,
    pub(crate) results: Vec<usize>,
    pub(crate) write: Write,
    /// Axes that strides count along.
    pub(crate) rank: usize,
}

impl Region {
    /// Whether an element needs to know its place along the axes.
    pub(crate) fn asks_places(&self) -> bool {
        let strided = self.reads.iter().any(|read| matches!(read, Read::Strided(_)));
        let scattered = matches!(self.write, Write::Strided(_));
        strided || scattered || self.steps.iter().any(|step| matches!(step, Step::Place(_)))
    }
}

/// What values are folded with, from which start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fold {
    pub(crate) function: Two,
    /// The bits of the value that changes nothing.
    pub(crate) identity: u32,
}

impl Fold {
    /// Whether what rounding loses is kept.
    pub(crate) fn compensates(&self) -> bool {
        self.function == Two::AddF
    }
}

/// What a row of an operand has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Width {
    Whole,
    One,
}

/// How an operand is read by a region that folds its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RowRead {
    /// An element for each of the region.
    Whole,
    /// An element for each of a row, the same ones for all rows.
    Column,
    /// An element for each row.
    Row,
    /// Rows that repeat, or an element for each of these: so many rows share one, there are so many of them, and after so many
    /// come others, say the three words of the layout from this one on.
    Repeated(usize, Width),
    /// One element for all.
    One,
}

/// Steps to some results. The operands come first, then the folds of the region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub(crate) steps: Vec<Step>,
    pub(crate) results: Vec<usize>,
}

/// A region that folds its rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rows {
    pub(crate) reads: Vec<RowRead>,
    /// What each fold folds, which reads those before it alone.
    pub(crate) folds: Vec<(Part, Fold)>,
    /// The results.
    pub(crate) last: Part,
    /// Whether each result has an element for each of the region, and not one for each row.
    pub(crate) whole: Vec<bool>,
}

/// How a product's operand lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Strip {
    /// Contracted elements are neighbours.
    AlongInner,
    /// Lines are: the rows of the left operand, the columns of the right one.
    AlongLines,
    /// Neither are.
    Apart,
    /// The right one's columns are windows of an input with so many axes, perhaps with gaps between its elements.
    Windows { axes: usize, gaps: bool },
}

impl Strip {
    /// How many axes windows have; 0 where there are none.
    pub(crate) fn axes(self) -> usize {
        match self {
            Strip::Windows { axes, .. } => axes,
            _ => 0,
        }
    }

    pub(crate) fn has_gaps(self) -> bool {
        matches!(self, Strip::Windows { gaps: true, .. })
    }
}

/// The part of a product that a block of threads makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    /// Squares of four by four elements that a thread makes, one below the other.
    pub(crate) rows: usize,
    /// And side by side.
    pub(crate) columns: usize,
    /// Contracted elements of a strip.
    pub(crate) inner: usize,
    pub(crate) lhs: Strip,
    pub(crate) rhs: Strip,
}

impl Tile {
    /// The elements along an edge of so many squares.
    pub(crate) fn edge(&self, squares: usize) -> usize {
        squares * 4 * super::kernel::tiled::EDGE
    }
}
