//! An optimizer as a program, for parameters that are in the memory of a GPU: each parameter's update is a region there, so one
//! pass over it, its gradient and its moments. The formulas are those of the rules' own files.

use std::sync::Arc;

use super::element::widened;
use super::formulas::{Formulas, Site};
use super::prepare::SMALL;
use super::{Clip, OptimizerState, Rule};
use crate::adjoint::Builder;
use crate::device::Device;
use crate::error::Result;
use crate::exec::Executable;
use crate::program::{Binary, Fold, Program, Unary};
use crate::types::{TensorType, Type};
use crate::value::Value;

/// Programs that take `params ++ gradients ++ moments ++ numbers` and answer `params ++ moments`.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    program: Arc<Executable>,
    rule: Rule,
    /// The numbers of the last step in the device's memory: most stay as they are.
    numbers: Vec<(f64, Value)>,
}

/// How much gradients count, the learning rate, and what the two moments of Adam are divided by.
const NUMBERS: usize = 4;

impl Compiled {
    /// The optimizer of parameters and gradients of these types.
    pub(super) fn new(
        rule: Rule,
        clip: Clip,
        params: &[TensorType],
        gradients: &[TensorType],
        state: &OptimizerState,
    ) -> Result<Self> {
        let slots: Vec<Vec<TensorType>> = state.slots.iter().map(|slot| slot.iter().map(Value::ty).collect()).collect();
        let program = Executable::optimised(&update(&rule, clip, params, gradients, &slots), vec![], &[])?;
        Ok(Self { program: Arc::new(program), rule, numbers: vec![] })
    }

    /// The next parameters; the state moves on.
    pub(super) fn step(
        &mut self,
        state: &mut OptimizerState,
        params: &[Value],
        gradients: Vec<Value>,
        scale: f64,
        learning_rate: f64,
        device: &Device,
    ) -> Result<Vec<Value>> {
        let numbers = self.numbers(scale, learning_rate, state.count, device)?;
        let moments = state.slots.concat();
        let inputs = params.iter().cloned().chain(gradients).chain(moments).chain(numbers).collect();
        let mut next = self.program.run(inputs, device)?;
        let mut moments = next.split_off(params.len()).into_iter();
        state.slots.iter_mut().for_each(|slot| slot.iter_mut().zip(&mut moments).for_each(|(old, new)| *old = new));
        Ok(next)
    }

    fn numbers(&mut self, scale: f64, learning_rate: f64, count: u64, device: &Device) -> Result<Vec<Value>> {
        let corrections = self.rule.decays().map(|decay| 1.0 / (1.0 - decay.powf(count as f64)));
        let numbers = [scale, learning_rate, corrections[0], corrections[1]];
        let mut values = Vec::with_capacity(NUMBERS);
        for (place, number) in numbers.into_iter().enumerate() {
            let known = self.numbers.get(place).filter(|(before, _)| *before == number);
            values.push(match known {
                Some(known) => known.clone(),
                None => (number, super::number(number, &self.program, device)?),
            });
        }
        self.numbers = values;
        Ok(self.numbers.iter().map(|(_, value)| value.clone()).collect())
    }
}

/// The program of one step.
fn update(
    rule: &Rule,
    clip: Clip,
    params: &[TensorType],
    gradients: &[TensorType],
    slots: &[Vec<TensorType>],
) -> Program {
    let count = params.len();
    let numbers = vec![number_type(params); NUMBERS];
    let inputs = [params, gradients, &slots.concat(), &numbers].concat();
    let first = inputs.len() - NUMBERS;
    let mut b = Builder::of(&Program { inputs, ..Program::default() });
    let gradients = prepared(&mut b, clip, count, first);
    let (mut next, mut moments) = (Vec::with_capacity(count), vec![vec![]; slots.len()]);
    for (index, gradient) in gradients.into_iter().enumerate() {
        let param = b.real(index);
        let dtype = b.ty(param).dtype;
        let mut site = Site {
            param,
            gradient,
            moments: (0..slots.len()).map(|slot| count * (2 + slot) + index).collect(),
            learning_rate: b.cast(first + 1, dtype),
            corrections: [2, 3].map(|number| b.cast(first + number, dtype)),
        };
        let change = Formulas(&mut b).change(rule, &mut site);
        next.push(moved(&mut b, index, change));
        moments.iter_mut().zip(site.moments).for_each(|(slot, moment)| slot.push(moment));
    }
    b.finish([next, moments.concat()].concat())
}

/// The type of a number that counts for parameters of these types: as exact as the most exact of them.
fn number_type(params: &[TensorType]) -> TensorType {
    let is_wide = params.iter().any(|param| param.dtype == Type::F64);
    TensorType::new(if is_wide { Type::F64 } else { Type::F32 }, [])
}

/// `x` times a number, in the type of `x`.
fn weighted(b: &mut Builder, x: usize, number: usize) -> usize {
    let number = b.cast(number, b.ty(x).dtype);
    b.times(x, number)
}

/// What a parameter becomes.
fn moved(b: &mut Builder, param: usize, change: usize) -> usize {
    let dtype = b.ty(param).dtype;
    let wide = b.real(param);
    let next = b.binary(Binary::Add, wide, change);
    b.cast(next, dtype)
}

/// The gradients as [`Prepare`](super::Prepare) makes them.
fn prepared(b: &mut Builder, clip: Clip, count: usize, scale: usize) -> Vec<usize> {
    let mut gradients = Vec::with_capacity(count);
    for index in 0..count {
        let gradient = b.real(count + index);
        let mut gradient = weighted(b, gradient, scale);
        if let Some(limit) = clip.value {
            gradient = b.with(Binary::Max, gradient, -limit);
            gradient = b.with(Binary::Min, gradient, limit);
        }
        gradients.push(gradient);
    }
    if let Some(bound) = clip.norm {
        gradients = clipped(b, gradients, bound);
    }
    if clip.decay > 0.0 {
        for (index, gradient) in gradients.iter_mut().enumerate() {
            let param = b.real(index);
            let decayed = b.with(Binary::Multiply, param, clip.decay);
            *gradient = b.binary(Binary::Add, *gradient, decayed);
        }
    }
    gradients
}

/// The gradients times the bound over their norm, where that is more. As on the CPU, by two factors where one is too small.
fn clipped(b: &mut Builder, gradients: Vec<usize>, bound: f64) -> Vec<usize> {
    let norm = Norm::of(b, &gradients, bound);
    let dtype = b.ty(norm.units).dtype;
    let [one, bound, root] = [1.0, bound, bound.sqrt()].map(|number| b.number(number, dtype));
    let bound = over_square(b, bound, norm.root);
    let is_more = b.binary(Binary::Greater, norm.units, bound);
    let shrink = b.over(bound, norm.units);
    let half = b.over(root, norm.root);
    let units = b.unary(Unary::Sqrt, norm.units);
    let half = b.over(half, units);
    let is_small = b.with(Binary::Less, shrink, SMALL);
    let factors = [shrink, one].map(|factor| {
        let factor = b.select(is_small, half, factor);
        b.select(is_more, factor, one)
    });
    let clip = |gradient| factors.iter().fold(gradient, |gradient, &factor| weighted(b, gradient, factor));
    gradients.into_iter().map(clip).collect()
}

/// A Euclidean norm in units of the largest element, as its square may be more than the type holds, or nothing.
pub(super) struct Norm {
    unit: usize,
    units: usize,
    root: usize,
}

impl Norm {
    /// The norm of all `xs` together. The unit is not less than `least`.
    pub(super) fn of(b: &mut Builder, xs: &[usize], least: f64) -> Self {
        let types: Vec<TensorType> = xs.iter().map(|&x| b.ty(x).clone()).collect();
        let dtype = number_type(&types).dtype;
        let mut unit = b.number(least, dtype);
        for &x in xs {
            let size = b.unary(Unary::Abs, x);
            let largest = b.folded(Fold::Max, size);
            unit = b.binary(Binary::Max, unit, largest);
        }
        let root = b.unary(Unary::Sqrt, unit);
        let mut sum = b.number(0.0, dtype);
        for &x in xs {
            let x = b.cast(x, dtype);
            let x = over_square(b, x, root);
            let square = b.squared(x);
            let squares = b.folded(Fold::Sum, square);
            sum = b.binary(Binary::Add, sum, squares);
        }
        Self { unit, units: b.unary(Unary::Sqrt, sum), root }
    }

    pub(super) fn number(&self, b: &mut Builder) -> usize {
        b.times(self.unit, self.units)
    }
}

/// `x` over the square of a number, in the type of `x`: a GPU divides exactly only by what is neither very large nor small.
fn over_square(b: &mut Builder, x: usize, number: usize) -> usize {
    let number = b.cast(number, b.ty(x).dtype);
    let once = b.over(x, number);
    b.over(once, number)
}

/// A program that prepares gradients for an optimizer that is a program itself: `params ++ gradients ++ [scale]` to gradients.
pub(super) fn preparing(clip: Clip, params: &[TensorType], gradients: &[TensorType]) -> Program {
    let inputs = [params, gradients, &[number_type(params)]].concat();
    let mut b = Builder::of(&Program { inputs, ..Program::default() });
    let prepared = prepared(&mut b, clip, params.len(), 2 * params.len());
    let outputs = prepared.into_iter().zip(params).map(|(gradient, ty)| b.cast(gradient, ty.dtype)).collect();
    b.finish(outputs)
}

/// A program that adds weighted gradients to sums in the type that optimizers compute in: `sums ++ gradients ++ [old, new]` to
/// sums. The sums so far count `old`, the gradients `new`.
pub(in crate::train) fn adding(types: &[TensorType]) -> Program {
    let numbers = vec![number_type(types); 2];
    let inputs = [&widened(types), types, &numbers].concat();
    let count = types.len();
    let mut b = Builder::of(&Program { inputs, ..Program::default() });
    let mut next = Vec::with_capacity(count);
    for index in 0..count {
        let gradient = b.real(count + index);
        let [old, new] = [(index, 2 * count), (gradient, 2 * count + 1)].map(|(x, part)| weighted(&mut b, x, part));
        next.push(b.binary(Binary::Add, old, new));
    }
    b.finish(next)
}
