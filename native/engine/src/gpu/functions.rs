//! Which function of a step an operation is.

use super::small::Small;
use super::step::{One, Two};
use crate::program::{Binary, Unary};
use crate::types::{Class, Type};

/// What makes a number of `dtype` of a result in 32 bits.
pub(super) fn narrowing(dtype: Type) -> Option<One> {
    match dtype.class() {
        _ if dtype.bits() == 32 => None,
        Class::Unsigned => Some(One::ZeroExtend(dtype.bits() as u32)),
        Class::Signed => Some(One::SignExtend(dtype.bits() as u32)),
        _ if dtype == Type::BF16 => Some(One::RoundBf16),
        _ => Some(One::RoundSmall(Small::of(dtype)?)),
    }
}

/// A step from a number that is held in 32 bits to one of the same bits in another type of its width.
pub(super) enum Reread {
    One(One),
    /// A shift by 16 bits.
    By16(Two),
}

/// The steps that read the bits of `from` as `to`, of the same width.
pub(super) fn rereading(from: Type, to: Type) -> Vec<Reread> {
    if from.bits() == 32 {
        return vec![];
    }
    let bits = match Small::of(from) {
        Some(small) => Reread::One(One::Encode(small)),
        None if from == Type::BF16 => Reread::By16(Two::ShiftRightU),
        None => Reread::One(One::ZeroExtend(from.bits() as u32)),
    };
    let number = match (Small::of(to), narrowing(to)) {
        (Some(small), _) => Some(Reread::One(One::Decode(small))),
        _ if to == Type::BF16 => Some(Reread::By16(Two::ShiftLeft)),
        (None, extend) => extend.map(Reread::One),
    };
    [bits].into_iter().chain(number).collect()
}

pub(super) fn float_to_int(dtype: Type) -> One {
    let bits = dtype.bits() as u32;
    match dtype.class() {
        Class::Signed => One::FloatToInt { low: (-1i32 << (bits - 1)) as u32, high: (1u32 << (bits - 1)) - 1 },
        _ => One::FloatToInt { low: 0, high: u32::MAX >> (32 - bits) },
    }
}

/// The function of a float.
pub(super) fn float(op: Unary) -> Option<One> {
    Some(match op {
        Unary::Abs => One::AbsF,
        Unary::Acos => One::Acos,
        Unary::Asin => One::Asin,
        Unary::Atan => One::Atan,
        Unary::Cbrt => One::Cbrt,
        Unary::Ceil => One::Ceil,
        Unary::Cos => One::Cos,
        Unary::Cosh => One::Cosh,
        Unary::Erf => One::Erf,
        Unary::ErfInv => One::ErfInv,
        Unary::Erfc => One::Erfc,
        Unary::Exp => One::Exp,
        Unary::Expm1 => One::Expm1,
        Unary::Floor => One::Floor,
        Unary::IsInfinity => One::IsInfinity,
        Unary::IsNan => One::IsNan,
        Unary::Log => One::Log,
        Unary::Log1p => One::Log1p,
        Unary::Negate => One::NegateF,
        Unary::Round => One::Round,
        Unary::Rsqrt => One::Rsqrt,
        Unary::Sigmoid => One::Sigmoid,
        Unary::Sign => One::SignF,
        Unary::Sin => One::Sin,
        Unary::Sinh => One::Sinh,
        Unary::Sqrt => One::Sqrt,
        Unary::Tan => One::Tan,
        Unary::Tanh => One::Tanh,
        _ => return None,
    })
}

/// The function of two operands of a class.
pub(super) fn two(op: Binary, class: Class) -> Option<Two> {
    use Binary::*;
    Some(match (op, class) {
        (Add, Class::Float) => Two::AddF,
        (Add, _) => Two::AddI,
        (Subtract, Class::Float) => Two::SubtractF,
        (Subtract, _) => Two::SubtractI,
        (Multiply, Class::Float) => Two::MultiplyF,
        (Multiply, _) => Two::MultiplyI,
        (Divide, Class::Float) => Two::DivideF,
        (Atan2, Class::Float) => Two::Atan2,
        (Pow, Class::Float) => Two::Pow,
        (Remainder, Class::Float) => Two::RemainderF,
        (Max, Class::Float) => Two::MaxF,
        (Max, Class::Signed) => Two::MaxS,
        (Max, _) => Two::MaxU,
        (Min, Class::Float) => Two::MinF,
        (Min, Class::Signed) => Two::MinS,
        (Min, _) => Two::MinU,
        (Equal | NotEqual, Class::Float) => Two::EqualF,
        (Equal | NotEqual, _) => Two::EqualI,
        (Less | Greater, Class::Float) => Two::LessF,
        (Less | Greater, Class::Signed) => Two::LessS,
        (Less | Greater, _) => Two::LessU,
        (LessEqual | GreaterEqual, Class::Float) => Two::LessEqualF,
        (LessEqual | GreaterEqual, Class::Signed) => Two::LessEqualS,
        (LessEqual | GreaterEqual, _) => Two::LessEqualU,
        (Pow, _) => Two::PowI,
        (Quotient, Class::Signed) => Two::DivideS,
        (Quotient, _) => Two::DivideU,
        (Remainder, Class::Signed) => Two::RemainderS,
        (Remainder, _) => Two::RemainderU,
        (LeftShift, _) => Two::ShiftLeft,
        (RightShift, Class::Signed) => Two::ShiftRightS,
        (RightShift, _) => Two::ShiftRightU,
        (BitwiseAnd | LogicalAnd, _) => Two::And,
        (BitwiseOr | LogicalOr, _) => Two::Or,
        (BitwiseXor | LogicalXor, _) => Two::Xor,
        _ => return None,
    })
}
