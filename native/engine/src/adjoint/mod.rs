//! The gradient of a program as a program.
//!
//! Every operation on the way from the parameters to the loss must have a rule in here; then loss and gradients are one
//! program, which the passes make faster as a whole. Where one has none, Burn's tape follows the program as it runs.
//! The rules are those of [`ops`](crate::ops), in instructions instead of tensors.

mod builder;
mod elementwise;
mod folds;
mod places;
mod products;
mod shapes;

pub(crate) use builder::Builder;

use crate::program::{Instruction, Op, Program, Unary};
use crate::types::{TensorType, Type};

/// `program`, which answers, after everything else, the gradients of its first output with respect to its first `params`
/// inputs; `None` where an operation has no rule, or where there is nothing to differentiate.
pub(crate) fn differentiate(program: &Program, params: usize) -> Option<Program> {
    let types = program.value_types();
    let loss = *program.outputs.first()?;
    let starts = program.inputs.get(..params)?.iter().all(|ty| is_followed(ty.dtype));
    if !starts || !types[loss].shape.is_empty() || !is_followed(types[loss].dtype) {
        return None;
    }
    let mut backward = Backward {
        builder: Builder::of(program),
        gradients: vec![None; types.len()],
        is_active: active(program, params)?,
    };
    let one = backward.builder.number(1.0, types[loss].dtype);
    backward.gradients[loss] = backward.is_active[loss].then_some(one);
    let mut first = types.len();
    for instruction in program.instructions.iter().rev() {
        first -= instruction.outputs.len();
        backward.pass(instruction, first)?;
    }
    Some(backward.finish(program, params))
}

/// One operation, the gradient `g` of its result `y`, and the operands whose gradients are asked for.
struct Site<'a> {
    instruction: &'a Instruction,
    y: usize,
    g: usize,
    wanted: Vec<bool>,
}

impl Site<'_> {
    fn operand(&self, number: usize) -> usize {
        self.instruction.inputs[number]
    }
}

/// Operands by number, with their gradients, which may be of another float type, and broadcast to the result's shape.
type Gradients = Vec<(usize, usize)>;

struct Backward {
    builder: Builder,
    gradients: Vec<Option<usize>>,
    is_active: Vec<bool>,
}

impl Backward {
    /// From the gradients of an instruction's results, the first of which is `y`, to those of its operands.
    fn pass(&mut self, instruction: &Instruction, y: usize) -> Option<()> {
        let results = y..y + instruction.outputs.len();
        let Some(g) = self.gradients[results.clone()].iter().flatten().next().copied() else { return Some(()) };
        if results.len() != 1 {
            return None;
        }
        let wanted = instruction.inputs.iter().map(|&id| self.is_active[id]).collect();
        let site = Site { instruction, y, g, wanted };
        for (operand, gradient) in rule(&mut self.builder, &site)? {
            if site.wanted[operand] {
                self.add(site.operand(operand), gradient);
            }
        }
        Some(())
    }

    fn add(&mut self, id: usize, gradient: usize) {
        let ty = self.builder.ty(id).clone();
        let gradient = self.builder.cast(gradient, ty.dtype);
        let gradient = self.builder.sum_to(gradient, &ty.shape);
        self.gradients[id] = Some(match self.gradients[id] {
            Some(sum) => self.builder.sum_of(sum, gradient),
            None => gradient,
        });
    }

    fn finish(mut self, program: &Program, params: usize) -> Program {
        let gradient = |(param, ty): (usize, &TensorType)| match self.gradients[param] {
            Some(gradient) => gradient,
            None => self.builder.zeros(ty),
        };
        let gradients: Vec<usize> = program.inputs[..params].iter().enumerate().map(gradient).collect();
        self.builder.finish([&program.outputs[..], &gradients].concat())
    }
}

/// Whether gradients are computed in a type.
fn is_followed(dtype: Type) -> bool {
    matches!(dtype, Type::BF16 | Type::F16 | Type::F32 | Type::F64)
}

/// Which values have a gradient: floats that depend on parameters through operations that pass it on. `None` where one
/// becomes a number that no gradient passes through.
fn active(program: &Program, params: usize) -> Option<Vec<bool>> {
    let mut active: Vec<bool> = (0..program.inputs.len()).map(|id| id < params).collect();
    for instruction in &program.instructions {
        let passes = !stops(&instruction.op) && instruction.inputs.iter().any(|&id| active[id]);
        for ty in &instruction.outputs {
            if passes && !ty.dtype.is_int() && !is_followed(ty.dtype) {
                return None;
            }
            active.push(passes && is_followed(ty.dtype));
        }
    }
    Some(active)
}

/// Whether the gradient of an operation's operands is zero or none, whatever that of its result.
fn stops(op: &Op) -> bool {
    matches!(op, Op::StopGrad | Op::Unary(Unary::Floor | Unary::Ceil | Unary::Round | Unary::Sign | Unary::Phase))
}

/// The gradients of the operands that want one, and perhaps of others; `None` where there is no rule.
fn rule(b: &mut Builder, site: &Site<'_>) -> Option<Gradients> {
    match &site.instruction.op {
        Op::Unary(op) => elementwise::unary(b, *op, site),
        Op::Binary(op) => elementwise::binary(b, *op, site),
        Op::Cast => Some(vec![(0, site.g)]),
        Op::Select => Some(elementwise::select(b, site)),
        Op::Clip => Some(elementwise::clip(b, site)),
        Op::Reshape => Some(shapes::reshape(b, site)),
        Op::Broadcast(attrs) => Some(shapes::broadcast(b, &attrs.axes, site)),
        Op::Transpose(attrs) => Some(shapes::transpose(b, &attrs.axes, site)),
        Op::Reverse(attrs) => Some(shapes::reverse(b, &attrs.axes, site)),
        Op::Pad(attrs) => Some(shapes::pad(b, &attrs.config, site)),
        Op::Concatenate(attrs) => Some(shapes::concatenate(b, attrs.axis, site)),
        Op::Stack(attrs) => Some(shapes::stack(b, attrs.axis, site)),
        Op::Slice(attrs) => Some(shapes::slice(b, attrs, site)),
        Op::DynamicSlice(attrs) => places::dynamic_slice(b, attrs, site),
        Op::PutSlice => Some(places::put_slice(b, site)),
        Op::Gather(attrs) => Some(places::gather(b, &attrs.axes, site)),
        Op::Take(attrs) => Some(places::take(b, attrs.axis, site)),
        Op::TakeAlongAxis(attrs) => places::take_along_axis(b, attrs.axis, site),
        Op::IndexedAdd(attrs) => Some(places::indexed_add(b, &attrs.axes, site)),
        Op::Dot(attrs) => Some(products::dot(b, attrs, site)),
        Op::Conv(attrs) => products::conv(b, attrs, site),
        Op::Reduce(attrs) => folds::reduce(b, attrs, site),
        Op::Cumulative(attrs) => folds::cumulative(b, attrs, site),
        Op::WindowReduce(attrs) => folds::window(b, attrs, site),
        Op::CustomGrad(attrs) => b.inline(&attrs.backward, attrs.inputs, site),
        _ => None,
    }
}
