//! Functions of single elements, and choices between them.

use std::f64::consts::PI;

use super::builder::Builder;
use super::{Gradients, Site};
use crate::program::{Binary, Unary};

pub(super) fn unary(b: &mut Builder, op: Unary, site: &Site) -> Option<Gradients> {
    let [x, y, g] = [site.operand(0), site.y, site.g].map(|id| b.real(id));
    let gradient =
        from_result(b, op, y, g).or_else(|| from_angle(b, op, x, g)).or_else(|| from_operand(b, op, x, g))?;
    Some(vec![(0, gradient)])
}

/// Of functions whose slope is best told by their result.
fn from_result(b: &mut Builder, op: Unary, y: usize, g: usize) -> Option<usize> {
    let slope = match op {
        Unary::Exp => y,
        Unary::Expm1 => b.with(Binary::Add, y, 1.0),
        Unary::Sigmoid => {
            let (part, rest) = (b.times(g, y), one_and(b, y, true));
            return Some(b.times(part, rest));
        }
        Unary::Tan | Unary::Tanh => {
            let square = b.squared(y);
            one_and(b, square, op == Unary::Tanh)
        }
        Unary::Sqrt => {
            let half = b.with(Binary::Multiply, g, 0.5);
            return Some(b.over(half, y));
        }
        Unary::Cbrt => {
            let square = b.squared(y);
            let below = b.with(Binary::Multiply, square, 3.0);
            return Some(b.over(g, below));
        }
        Unary::Rsqrt => {
            let square = b.squared(y);
            let (part, half) = (b.times(g, square), b.with(Binary::Multiply, y, -0.5));
            return Some(b.times(part, half));
        }
        Unary::ErfInv => {
            let square = b.squared(y);
            let product = by(b, g, Unary::Exp, square);
            return Some(b.with(Binary::Multiply, product, PI.sqrt() / 2.0));
        }
        _ => return None,
    };
    Some(b.times(g, slope))
}

/// Of functions of angles, and of those that answer angles.
fn from_angle(b: &mut Builder, op: Unary, x: usize, g: usize) -> Option<usize> {
    Some(match op {
        Unary::Sin => by(b, g, Unary::Cos, x),
        Unary::Sinh => by(b, g, Unary::Cosh, x),
        Unary::Cosh => by(b, g, Unary::Sinh, x),
        Unary::Cos => {
            let product = by(b, g, Unary::Sin, x);
            b.negated(product)
        }
        Unary::Acos | Unary::Asin | Unary::Acosh | Unary::Asinh => {
            let square = b.squared(x);
            let below = match op {
                Unary::Acosh => b.with(Binary::Add, square, -1.0),
                _ => one_and(b, square, op != Unary::Asinh),
            };
            let product = by(b, g, Unary::Rsqrt, below);
            if op == Unary::Acos { b.negated(product) } else { product }
        }
        Unary::Atan | Unary::Atanh => {
            let square = b.squared(x);
            let below = one_and(b, square, op == Unary::Atanh);
            b.over(g, below)
        }
        _ => return None,
    })
}

/// Of all others.
fn from_operand(b: &mut Builder, op: Unary, x: usize, g: usize) -> Option<usize> {
    Some(match op {
        Unary::Abs => {
            let (zero, negative) = (b.number(0.0, b.ty(x).dtype), b.negated(g));
            let is_positive = b.binary(Binary::GreaterEqual, x, zero);
            b.select(is_positive, g, negative)
        }
        Unary::Erf | Unary::Erfc => {
            let square = b.squared(x);
            let negative = b.negated(square);
            let bell = by(b, g, Unary::Exp, negative);
            b.with(Binary::Multiply, bell, if op == Unary::Erf { 2.0 / PI.sqrt() } else { -2.0 / PI.sqrt() })
        }
        Unary::Log => b.over(g, x),
        Unary::Log1p => {
            let below = b.with(Binary::Add, x, 1.0);
            b.over(g, below)
        }
        Unary::Negate => b.negated(g),
        _ => return None,
    })
}

/// 1 and a value, or 1 without it.
fn one_and(b: &mut Builder, x: usize, without: bool) -> usize {
    let signed = if without { b.negated(x) } else { x };
    b.with(Binary::Add, signed, 1.0)
}

/// `g` times a function of `x`.
fn by(b: &mut Builder, g: usize, op: Unary, x: usize) -> usize {
    let factor = b.unary(op, x);
    b.times(g, factor)
}

pub(super) fn binary(b: &mut Builder, op: Binary, site: &Site) -> Option<Gradients> {
    let mut gradients = Gradients::new();
    if site.wanted[0] {
        gradients.push((0, for_left(b, op, site)?));
    }
    if site.wanted[1] {
        gradients.push((1, for_right(b, op, site)?));
    }
    Some(gradients)
}

fn for_left(b: &mut Builder, op: Binary, site: &Site) -> Option<usize> {
    if matches!(op, Binary::Add | Binary::Subtract | Binary::Remainder) {
        return Some(site.g);
    }
    let [left, right, y, g] = [site.operand(0), site.operand(1), site.y, site.g].map(|id| b.real(id));
    Some(match op {
        Binary::Atan2 => {
            let part = angle_part(b, right, left, right);
            b.times(g, part)
        }
        Binary::Divide => b.over(g, right),
        Binary::Max | Binary::Min => shared(b, [left, right], y, g),
        Binary::Multiply => b.times(g, right),
        Binary::Pow => {
            let (zero, one) = (b.number(0.0, b.ty(right).dtype), b.number(1.0, b.ty(right).dtype));
            let (is_zero, less) = (b.binary(Binary::Equal, right, zero), b.with(Binary::Subtract, right, 1.0));
            let exponent = b.select(is_zero, one, less);
            let power = b.binary(Binary::Pow, left, exponent);
            let slope = b.times(right, power);
            b.times(g, slope)
        }
        _ => return None,
    })
}

fn for_right(b: &mut Builder, op: Binary, site: &Site) -> Option<usize> {
    if op == Binary::Add {
        return Some(site.g);
    }
    let [left, right, y, g] = [site.operand(0), site.operand(1), site.y, site.g].map(|id| b.real(id));
    let negative = match op {
        Binary::Multiply => return Some(b.times(g, left)),
        Binary::Max | Binary::Min => return Some(shared(b, [right, left], y, g)),
        Binary::Pow => return Some(exponent(b, [left, y, g])),
        Binary::Subtract => g,
        Binary::Atan2 => {
            let part = angle_part(b, left, left, right);
            b.times(g, part)
        }
        Binary::Divide => {
            let slope = b.over(y, right);
            b.times(g, slope)
        }
        Binary::Remainder => {
            let quotient = b.over(left, right);
            by(b, g, Unary::Floor, quotient)
        }
        _ => return None,
    };
    Some(b.negated(negative))
}

/// The gradient of an exponent.
fn exponent(b: &mut Builder, [base, y, g]: [usize; 3]) -> usize {
    let (zero, one) = (b.number(0.0, b.ty(base).dtype), b.number(1.0, b.ty(base).dtype));
    let is_zero = b.binary(Binary::Equal, base, zero);
    let base = b.select(is_zero, one, base);
    let slope = by(b, y, Unary::Log, base);
    b.times(g, slope)
}

fn angle_part(b: &mut Builder, above: usize, left: usize, right: usize) -> usize {
    let (x, y) = (b.squared(left), b.squared(right));
    let below = b.binary(Binary::Add, x, y);
    b.over(above, below)
}

/// The part of an extremum's gradient that the first operand gets: all of it, half where the other is equal, none where it
/// lost.
fn shared(b: &mut Builder, [own, other]: [usize; 2], y: usize, g: usize) -> usize {
    let dtype = b.ty(y).dtype;
    let numbers = [0.0, 0.5, 1.0].map(|number| b.number(number, dtype));
    let (wins, ties) = (b.binary(Binary::Equal, y, own), b.binary(Binary::Equal, y, other));
    let part = b.select(ties, numbers[1], numbers[2]);
    let share = b.select(wins, part, numbers[0]);
    b.times(g, share)
}

pub(super) fn select(b: &mut Builder, site: &Site) -> Gradients {
    let condition = site.operand(0);
    let g = b.real(site.g);
    let zero = b.number(0.0, b.ty(g).dtype);
    vec![(1, b.select(condition, g, zero)), (2, b.select(condition, zero, g))]
}

/// An element at a bound counts as inside; a bound gets the gradient of the elements strictly beyond it.
pub(super) fn clip(b: &mut Builder, site: &Site) -> Gradients {
    let [x, low, high, g] = [site.operand(0), site.operand(1), site.operand(2), site.g].map(|id| b.real(id));
    let mut kept = |pairs: &[(Binary, usize, usize)]| {
        pairs.iter().fold(g, |g, &(test, left, right)| {
            let holds = b.binary(test, left, right);
            b.keep(holds, g)
        })
    };
    let inside = kept(&[(Binary::GreaterEqual, x, low), (Binary::GreaterEqual, high, x)]);
    let below = kept(&[(Binary::Greater, low, x), (Binary::Greater, high, low)]);
    let above = kept(&[(Binary::Greater, x, high)]);
    vec![(0, inside), (1, below), (2, above)]
}
