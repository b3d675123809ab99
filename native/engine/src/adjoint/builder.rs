//! Instructions for formulas.

use super::{Gradients, Site};
use crate::passes::writer::Writer;
use crate::program::{Axes, Binary, Constant, DynamicSlice, Fold, Instruction, Op, Pad, Program, Reduce, Slice, Unary};
use crate::scalar;
use crate::types::{TensorType, Type};

/// A program that grows behind its own end.
pub(crate) struct Builder(Writer);

impl Builder {
    /// A program of these inputs that does nothing yet.
    pub(crate) fn new(inputs: &[TensorType]) -> Self {
        Self(Writer::new(inputs))
    }

    /// The program as it is; ids stay.
    pub(crate) fn of(program: &Program) -> Self {
        let mut builder = Self::new(&program.inputs);
        builder.append(program, (0..program.inputs.len()).collect());
        builder
    }

    /// Adds the instructions of `program`, whose inputs are `ids`, and answers the ids of all of its values.
    pub(super) fn append(&mut self, program: &Program, mut ids: Vec<usize>) -> Vec<usize> {
        for instruction in &program.instructions {
            let operands = instruction.inputs.iter().map(|&id| ids[id]).collect();
            let first = self.emit_all(instruction.op.clone(), operands, instruction.outputs.clone());
            ids.extend(first..first + instruction.outputs.len());
        }
        ids
    }

    /// Adds an operation and answers the id of its first result; the others follow.
    pub(super) fn emit_all(&mut self, op: Op, inputs: Vec<usize>, outputs: Vec<TensorType>) -> usize {
        self.0.emit(op, inputs, outputs)
    }

    /// The instruction that makes a value.
    pub(super) fn maker(&self, id: usize) -> Option<&Instruction> {
        self.0.maker(id)
    }

    pub(crate) fn finish(self, outputs: Vec<usize>) -> Program {
        self.0.finish(outputs)
    }

    pub(crate) fn ty(&self, id: usize) -> &TensorType {
        self.0.ty(id)
    }

    pub(crate) fn shape(&self, id: usize) -> Vec<usize> {
        self.0.ty(id).shape.clone()
    }

    pub(crate) fn emit(&mut self, op: Op, inputs: &[usize], dtype: Type, shape: &[usize]) -> usize {
        self.0.one(op, inputs.to_vec(), &TensorType::new(dtype, shape))
    }

    /// An operation whose result is of the type of `like`.
    pub(crate) fn emit_like(&mut self, op: Op, inputs: &[usize], like: usize) -> usize {
        let ty = self.ty(like).clone();
        self.0.one(op, inputs.to_vec(), &ty)
    }

    pub(crate) fn number(&mut self, number: f64, dtype: Type) -> usize {
        self.filled(number, &TensorType::new(dtype, []))
    }

    pub(crate) fn zeros(&mut self, ty: &TensorType) -> usize {
        self.filled(0.0, ty)
    }

    /// Zeros in the shape of one value and the type of another.
    pub(crate) fn zeros_like(&mut self, shape: usize, dtype: usize) -> usize {
        let ty = TensorType::new(self.ty(dtype).dtype, self.shape(shape));
        self.zeros(&ty)
    }

    fn filled(&mut self, number: f64, ty: &TensorType) -> usize {
        self.0.one(Op::Constant(Constant { bytes: scalar::from_f64(ty.dtype, number) }), vec![], ty)
    }

    pub(crate) fn cast(&mut self, x: usize, dtype: Type) -> usize {
        if self.ty(x).dtype == dtype {
            return x;
        }
        let shape = self.shape(x);
        self.emit(Op::Cast, &[x], dtype, &shape)
    }

    /// A value as formulas compute with it: 16-bit floats are widened, so that a rule rounds once.
    pub(crate) fn real(&mut self, x: usize) -> usize {
        let dtype = wide(self.ty(x).dtype);
        self.cast(x, dtype)
    }

    /// What more is added to: a gradient as it is known, or zeros for that of a value, in the type that formulas compute in.
    pub(super) fn sum_so_far(&mut self, gradient: Option<usize>, of: usize) -> usize {
        match gradient {
            Some(gradient) => self.real(gradient),
            None => {
                let ty = self.ty(of);
                let ty = TensorType::new(wide(ty.dtype), &ty.shape[..]);
                self.zeros(&ty)
            }
        }
    }

    pub(crate) fn unary(&mut self, op: Unary, x: usize) -> usize {
        let ty = self.ty(x).clone();
        self.emit(Op::Unary(op), &[x], ty.dtype, &ty.shape)
    }

    /// A function of two, which are broadcast against each other and computed in the wider type.
    pub(crate) fn binary(&mut self, op: Binary, a: usize, b: usize) -> usize {
        let (a, b) = self.alike(a, b);
        let dtype = if op.is_predicate() { Type::U8 } else { self.ty(a).dtype };
        let shape = joint(&self.ty(a).shape, &self.ty(b).shape);
        self.emit(Op::Binary(op), &[a, b], dtype, &shape)
    }

    /// A function of a value and a number.
    pub(crate) fn with(&mut self, op: Binary, a: usize, number: f64) -> usize {
        let number = self.number(number, self.ty(a).dtype);
        self.binary(op, a, number)
    }

    fn alike(&mut self, a: usize, b: usize) -> (usize, usize) {
        let wide = [a, b].iter().any(|&id| self.ty(id).dtype == Type::F64);
        let dtype = if wide { Type::F64 } else { Type::F32 };
        (self.cast(a, dtype), self.cast(b, dtype))
    }

    pub(crate) fn times(&mut self, a: usize, b: usize) -> usize {
        self.binary(Binary::Multiply, a, b)
    }

    pub(crate) fn over(&mut self, a: usize, b: usize) -> usize {
        self.binary(Binary::Divide, a, b)
    }

    pub(crate) fn squared(&mut self, x: usize) -> usize {
        self.times(x, x)
    }

    pub(crate) fn negated(&mut self, x: usize) -> usize {
        self.unary(Unary::Negate, x)
    }

    /// `a` where `condition` is not zero, `b` elsewhere.
    pub(crate) fn select(&mut self, condition: usize, a: usize, b: usize) -> usize {
        let (a, b) = self.alike(a, b);
        let dtype = self.ty(a).dtype;
        let shape = joint(&self.ty(condition).shape, &joint(&self.ty(a).shape, &self.ty(b).shape));
        self.emit(Op::Select, &[condition, a, b], dtype, &shape)
    }

    /// `x` where `condition` is not zero, 0 elsewhere.
    pub(crate) fn keep(&mut self, condition: usize, x: usize) -> usize {
        let zero = self.number(0.0, self.ty(x).dtype);
        self.select(condition, x, zero)
    }

    /// Two gradients of one value together.
    pub(crate) fn sum_of(&mut self, a: usize, b: usize) -> usize {
        let ty = self.ty(a).clone();
        self.emit(Op::Binary(Binary::Add), &[a, b], ty.dtype, &ty.shape)
    }

    pub(crate) fn reshape(&mut self, x: usize, shape: &[usize]) -> usize {
        if self.ty(x).shape == shape {
            return x;
        }
        let dtype = self.ty(x).dtype;
        self.emit(Op::Reshape, &[x], dtype, shape)
    }

    pub(crate) fn transpose(&mut self, x: usize, axes: Vec<usize>) -> usize {
        if axes.is_sorted() {
            return x;
        }
        let ty = self.ty(x).clone();
        let shape: Vec<usize> = axes.iter().map(|&axis| ty.shape[axis]).collect();
        self.emit(Op::Transpose(Axes { axes }), &[x], ty.dtype, &shape)
    }

    /// Axis `i` of `x` repeated as axis `axes[i]` of `shape`.
    pub(crate) fn broadcast(&mut self, x: usize, axes: Vec<usize>, shape: &[usize]) -> usize {
        if self.ty(x).shape == shape && axes.is_sorted() {
            return x;
        }
        let dtype = self.ty(x).dtype;
        self.emit(Op::Broadcast(Axes { axes }), &[x], dtype, shape)
    }

    /// The sum over `axes`, which vanish.
    pub(crate) fn sum(&mut self, x: usize, axes: Vec<usize>) -> usize {
        self.fold(Fold::Sum, x, axes)
    }

    /// All of `x` folded to a scalar.
    pub(crate) fn folded(&mut self, fold: Fold, x: usize) -> usize {
        let axes = (0..self.ty(x).shape.len()).collect();
        self.fold(fold, x, axes)
    }

    fn fold(&mut self, fold: Fold, x: usize, axes: Vec<usize>) -> usize {
        if axes.is_empty() {
            return x;
        }
        let ty = self.ty(x).clone();
        let kept = (0..ty.shape.len()).filter(|axis| !axes.contains(axis));
        let shape: Vec<usize> = kept.map(|axis| ty.shape[axis]).collect();
        let reduce = Reduce { fold, axes: Some(axes), keep_axes: false };
        self.emit(Op::Reduce(reduce), &[x], ty.dtype, &shape)
    }

    /// The sum over the axes along which `shape` is broadcast.
    pub(crate) fn sum_to(&mut self, x: usize, shape: &[usize]) -> usize {
        let from = self.shape(x);
        if from == shape {
            return x;
        }
        let added = from.len() - shape.len();
        let is_summed = |axis: &usize| *axis < added || (shape[axis - added] == 1 && from[*axis] != 1);
        let sum = self.sum(x, (0..from.len()).filter(is_summed).collect());
        self.reshape(sum, shape)
    }

    pub(crate) fn pad(&mut self, x: usize, number: f64, config: Vec<[i64; 3]>, shape: &[usize]) -> usize {
        let dtype = self.ty(x).dtype;
        let number = self.number(number, dtype);
        self.emit(Op::Pad(Pad { config }), &[x, number], dtype, shape)
    }

    /// Every so many-th element from the first on, of each axis.
    pub(crate) fn slice(&mut self, x: usize, starts: Vec<usize>, lengths: Vec<usize>, strides: Vec<usize>) -> usize {
        let shape: Vec<usize> = lengths.iter().zip(&strides).map(|(len, step)| len.div_ceil(*step)).collect();
        let dtype = self.ty(x).dtype;
        self.emit(Op::Slice(Slice { starts, lengths, strides }), &[x], dtype, &shape)
    }

    pub(super) fn integral(&mut self, number: i64, dtype: Type) -> usize {
        self.number(number as f64, dtype)
    }

    /// A function of an integer and a number, in the integer's type.
    pub(super) fn int_with(&mut self, op: Binary, x: usize, number: i64) -> usize {
        let changes = match op {
            Binary::Add | Binary::Subtract => number != 0,
            _ => number != 1,
        };
        if !changes {
            return x;
        }
        let number = self.integral(number, self.ty(x).dtype);
        self.emit_like(Op::Binary(op), &[x, number], x)
    }

    /// The integer that a scalar always is.
    pub(super) fn integer(&self, id: usize) -> Option<i64> {
        let (maker, ty) = (self.maker(id)?, self.ty(id));
        match &maker.op {
            Op::Constant(constant) => {
                let number = scalar::to_f64(ty.dtype, &constant.bytes)?;
                (number.fract() == 0.0 && number.abs() < f64::from(i32::MAX)).then_some(number as i64)
            }
            Op::Cast | Op::Reshape | Op::Broadcast(_) if ty.shape.is_empty() => self.integer(maker.inputs[0]),
            _ => None,
        }
    }

    /// `whole` with another row at a place along the first axis.
    pub(super) fn put_row(&mut self, whole: usize, row: usize, place: usize) -> usize {
        let row = self.reshape(row, &[&[1], &self.shape(row)[..]].concat());
        let inputs = [&[whole, row, place][..], &self.starts(row, place)].concat();
        self.emit_like(Op::PutSlice, &inputs, whole)
    }

    /// The row, of type `ty`, at a place along the first axis.
    pub(super) fn row(&mut self, whole: usize, place: usize, ty: &TensorType) -> usize {
        let lengths = [&[1], &ty.shape[..]].concat();
        let slice = DynamicSlice { strides: vec![1; lengths.len()], lengths: lengths.clone() };
        let inputs = [&[whole, place][..], &self.starts(whole, place)].concat();
        let row = self.emit(Op::DynamicSlice(slice), &inputs, ty.dtype, &lengths);
        self.reshape(row, &ty.shape)
    }

    /// Where a row starts along the other axes.
    fn starts(&mut self, row: usize, place: usize) -> Vec<usize> {
        let zero = self.integral(0, self.ty(place).dtype);
        vec![zero; self.ty(row).shape.len() - 1]
    }

    /// The gradients that a program gives, which takes that of the result and what was captured; `None` where one has
    /// another shape than its operand, which is an error.
    pub(super) fn inline(&mut self, program: &Program, inputs: usize, site: &Site) -> Option<Gradients> {
        let ids = self.append(program, [&[site.g], &site.instruction.inputs[inputs + 1..]].concat());
        let gradients: Gradients =
            (1..=inputs).zip(&program.outputs).map(|(operand, &id)| (operand, ids[id])).collect();
        let fits = gradients.iter().all(|&(operand, id)| self.shape(id) == self.shape(site.operand(operand)));
        fits.then_some(gradients)
    }
}

/// The type that formulas compute in.
pub(super) fn wide(dtype: Type) -> Type {
    if dtype == Type::F64 { Type::F64 } else { Type::F32 }
}

/// The shape that two are broadcast to.
pub(super) fn joint(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let length = |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
    (0..rank).map(|axis| if length(a, axis) == 1 { length(b, axis) } else { length(a, axis) }).collect()
}
