//! Algebraic identities that hold for every number of the type, bit by bit or to the last place.

use super::writer::{Writer, rewrite};
use crate::program::{Binary, Constant, Instruction, Op, Program, Unary};
use crate::scalar;
use crate::types::{TensorType, Type};

/// The program with shorter operations in place of longer ones.
pub(super) fn simplify(program: &Program) -> Program {
    rewrite(program, simpler)
}

fn simpler(writer: &mut Writer, instruction: &Instruction) -> Option<usize> {
    let [out] = instruction.outputs.as_slice() else { return None };
    match (&instruction.op, instruction.inputs.as_slice()) {
        (Op::Cast, &[x]) if *writer.ty(x) == *out => Some(x),
        (Op::Unary(Unary::Erf), &[x]) => erf_of_quotient(writer, x, out),
        (Op::Unary(op), &[x]) => twice(writer, *op, x).filter(|&inner| *writer.ty(inner) == *out),
        (Op::Binary(Binary::Pow), &[x, exponent]) => power(writer, instruction, x, exponent),
        (Op::Binary(op), &[x, y]) => {
            let kept = if is_neutral(writer, *op, y, out.dtype) {
                x
            } else if is_commutative(*op) && is_neutral(writer, *op, x, out.dtype) {
                y
            } else {
                return shift(writer, *op, x, y, out);
            };
            (*writer.ty(kept) == *out).then_some(kept)
        }
        (Op::Select, &[_, on_true, on_false]) if on_true == on_false && *writer.ty(on_true) == *out => Some(on_true),
        (Op::Select, &[which, on_true, on_false]) => {
            let chosen = if number(writer, which)? == 0.0 { on_false } else { on_true };
            whole(writer, chosen, out)
        }
        _ => None,
    }
}

/// A value of this type that holds what the operand repeats, where the type is the operand's or that is a constant.
fn whole(writer: &mut Writer, operand: usize, out: &TensorType) -> Option<usize> {
    if *writer.ty(operand) == *out {
        return Some(operand);
    }
    let constant = writer.constant(operand).filter(|_| writer.ty(operand).dtype == out.dtype)?.clone();
    Some(writer.one(Op::Constant(constant), vec![], out))
}

/// What a function that undoes itself was applied to before.
fn twice(writer: &Writer, op: Unary, x: usize) -> Option<usize> {
    let undoes_itself = matches!(op, Unary::Negate | Unary::BitwiseNot | Unary::Conjugate);
    match writer.maker(x).map(|inner| (&inner.op, inner.inputs.as_slice())) {
        Some((Op::Unary(inner), &[of])) if undoes_itself && *inner == op => Some(of),
        _ => None,
    }
}

/// The error function of a quotient by a number as that of a product, as in the GELU. The product is within 1.5 units of the
/// last place of the quotient, and what an operand is off by is no larger in the result: |x erf'(x)| <= |erf(x)|.
fn erf_of_quotient(writer: &mut Writer, x: usize, out: &TensorType) -> Option<usize> {
    let Instruction { op: Op::Binary(Binary::Divide), inputs, .. } = writer.maker(x)? else { return None };
    let &[above, below] = inputs.as_slice() else { return None };
    let inverse = number(writer, below)?.recip();
    // Beside numbers of this size the inverse has all its digits in each type, and so has a product that matters.
    let is_usual = (1e-3..1e3).contains(&inverse.abs());
    if !matches!(out.dtype, Type::F32 | Type::F64) || !is_usual {
        return None;
    }
    let one = TensorType::new(out.dtype, vec![]);
    let bytes = scalar::from_f64(out.dtype, inverse);
    let inverse = writer.one(Op::Constant(Constant { bytes }), vec![], &one);
    let product = writer.one(Op::Binary(Binary::Multiply), vec![above, inverse], out);
    Some(writer.one(Op::Unary(Unary::Erf), vec![product], out))
}

/// Squares and cubes as products, which are as exact: a cube is off by at most one unit in the last place.
fn power(writer: &mut Writer, instruction: &Instruction, x: usize, exponent: usize) -> Option<usize> {
    let out = &instruction.outputs[0];
    let exponent = number(writer, exponent)?;
    if *writer.ty(x) != *out || out.dtype.is_packed() || out.dtype.is_complex() {
        return None;
    }
    let product = Op::Binary(Binary::Multiply);
    match exponent {
        1.0 => Some(x),
        2.0 => Some(writer.one(product, vec![x, x], out)),
        // Of 16-bit floats the square would be rounded to 16 bits first.
        3.0 if !matches!(out.dtype, Type::F16 | Type::BF16) => {
            let square = writer.one(product.clone(), vec![x, x], out);
            Some(writer.one(product, vec![square, x], out))
        }
        _ => None,
    }
}

/// A shift by a number of a type without negative ones, so that it cannot fail. Beyond 64 nothing changes.
fn shift(writer: &mut Writer, op: Binary, x: usize, count: usize, out: &TensorType) -> Option<usize> {
    let from = writer.ty(count).clone();
    if !matches!(op, Binary::LeftShift | Binary::RightShift) || from.dtype == Type::U8 {
        return None;
    }
    let count = number(writer, count).filter(|&count| count >= 0.0)?;
    let bytes = vec![count.min(64.0) as u8];
    let count = writer.one(Op::Constant(Constant { bytes }), vec![], &TensorType::new(Type::U8, from.shape));
    Some(writer.one(Op::Binary(op), vec![x, count], out))
}

fn is_commutative(op: Binary) -> bool {
    matches!(op, Binary::Add | Binary::Multiply | Binary::BitwiseOr | Binary::BitwiseXor)
}

/// Whether `op` answers its left operand when the right one is this. Adding 0 to a float makes 0 of -0.
fn is_neutral(writer: &Writer, op: Binary, operand: usize, dtype: Type) -> bool {
    let Some(n) = number(writer, operand) else { return false };
    match op {
        Binary::Add => n == 0.0 && (!dtype.is_float() && !dtype.is_complex() || n.is_sign_negative()),
        Binary::Subtract => n == 0.0 && n.is_sign_positive(),
        Binary::Multiply | Binary::Divide | Binary::Quotient => n == 1.0,
        Binary::BitwiseOr | Binary::BitwiseXor | Binary::LeftShift | Binary::RightShift => n == 0.0,
        _ => false,
    }
}

/// The number that a constant repeats.
fn number(writer: &Writer, id: usize) -> Option<f64> {
    scalar::to_f64(writer.ty(id).dtype, &writer.constant(id)?.bytes)
}
