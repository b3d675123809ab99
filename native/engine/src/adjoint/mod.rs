//! The gradient of a program as a program.
//!
//! Every operation on the way from the parameters to the loss must have a rule in here; then loss and gradients are one
//! program, which the passes make faster as a whole. Where one has none, Burn's tape follows the program as it runs.
//! The rules are those of [`ops`](crate::ops), in instructions instead of tensors. A loop keeps what its way back reads, and
//! runs back through its iterations as a loop.

mod active;
mod backward;
mod branches;
mod builder;
mod counter;
mod elementwise;
mod folds;
mod forward;
mod loops;
mod places;
mod products;
mod pullback;
mod shapes;

pub(crate) use active::{cut_off, dependent, obstacle, steady};
pub(crate) use builder::Builder;

use crate::program::{Instruction, Op, Program};
use active::{active, is_followed};
use backward::Backward;
use forward::Forward;

/// `program`, which answers, after everything else, the gradients of its first output with respect to its first `params`
/// inputs; `None` where an operation has no rule, or where there is nothing to differentiate.
pub(crate) fn differentiate(program: &Program, params: usize) -> Option<Program> {
    let types = program.value_types();
    let loss = *program.outputs.first()?;
    let starts = program.inputs.get(..params)?.iter().all(|ty| is_followed(ty.dtype));
    if !starts || !types[loss].shape.is_empty() || !is_followed(types[loss].dtype) {
        return None;
    }
    let inputs: Vec<bool> = (0..program.inputs.len()).map(|id| id < params).collect();
    let is_active = active(program, &inputs, &is_first(program))?;
    let mut builder = Builder::new(&program.inputs);
    let forward = Forward::of(&mut builder, program, (0..inputs.len()).collect(), &is_active, &[]);
    let outputs: Vec<usize> = program.outputs.iter().map(|&id| forward.ids[id]).collect();
    let mut backward = Backward::new(builder, program, forward, is_active);
    let one = backward.builder.number(1.0, types[loss].dtype);
    backward.add(loss, one);
    backward.run()?;
    let gradients: Vec<usize> = (0..params).map(|param| backward.gradient(param)).collect();
    Some(backward.builder.finish([outputs, gradients].concat()))
}

/// For each output of a program whether it is the first.
pub(crate) fn is_first(program: &Program) -> Vec<bool> {
    (0..program.outputs.len()).map(|number| number == 0).collect()
}

/// One operation among the values of a builder, the gradient `g` of its result `y`, and the operands whose gradients are asked
/// for.
struct Site {
    instruction: Instruction,
    y: usize,
    g: usize,
    wanted: Vec<bool>,
}

impl Site {
    fn operand(&self, number: usize) -> usize {
        self.instruction.inputs[number]
    }
}

/// Operands by number, with their gradients, which may be of another float type, and broadcast to the result's shape.
type Gradients = Vec<(usize, usize)>;

/// The gradients of the operands that want one, and perhaps of others; `None` where there is no rule.
fn rule(b: &mut Builder, site: &Site) -> Option<Gradients> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Binary, Fold, Reduce};
    use crate::types::{TensorType, Type};

    /// Nothing stays between the operations that the passes make one of.
    #[test]
    fn what_stops_gradients_is_gone_where_they_are_made() {
        let (row, scalar) = (TensorType::new(Type::F32, [3]), TensorType::new(Type::F32, []));
        let instruction = |op, inputs, ty: &TensorType| Instruction { op, inputs, outputs: vec![ty.clone()] };
        let sum = Op::Reduce(Reduce { fold: Fold::Sum, axes: None, keep_axes: false });
        let instructions = vec![
            instruction(Op::StopGrad, vec![0], &row),
            instruction(Op::Binary(Binary::Multiply), vec![0, 1], &row),
            instruction(sum, vec![2], &scalar),
        ];
        let program = Program { inputs: vec![row], instructions, outputs: vec![3] };
        let text = differentiate(&program, 1).expect("each operation has a rule").to_string();
        assert!(text.contains("multiply(%0, %0)") && !text.contains("stop_grad"), "{text}");
    }
}
